"""Messages of a queue in a loop: each is done when its turn of the loop is over, and failed if that raises."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms
from goqueue.client.consumer import Consumer
from goqueue.client.consumer_options import ConsumerOptions
from goqueue.client.errors import GoQueueClientError, invalid
from goqueue.client.leases import LeasedMessage
from goqueue.client.messages import Span, span

if TYPE_CHECKING:
    from goqueue.client.client import Client

logger = logging.getLogger("goqueue.client")


def lease_seconds(lease: Span) -> float:
    """How long a lease is, which is renewed when a third of it has passed."""
    given = span(lease, "lease")
    try:
        ms = parse_duration_ms(given, "lease") if isinstance(given, str) else int(given or 0)
    except InvalidField as error:
        raise invalid(error.message, "lease") from None
    if ms <= 0:
        raise invalid("A lease is longer than nothing.", "lease")
    return ms / 1000


def options_for(options: ConsumerOptions, lease: Span) -> ConsumerOptions:
    """Any member takes any message, and answers for it."""
    given = timedelta(seconds=lease_seconds(lease))
    fixed: ConsumerOptions = {"visibility_timeout": given, "auto_commit": False}
    return {"mode": "shared", **options, **fixed}


class Consumption:
    """`with client.consume(...) as messages:` and a loop over it. The lease of the message at hand is renewed, however
    long its turn takes. Leaving the block by an exception fails the message, any other way it is done."""

    def __init__(
        self, client: Client, group: str, topics: Sequence[str], lease: Span, **options: Unpack[ConsumerOptions]
    ) -> None:
        self._lease = lease_seconds(lease)
        self._consumer = Consumer(client, group, topics, **options_for(options, lease))
        self._current: LeasedMessage | None = None
        self._lock = threading.Lock()  # a message is not answered for while its lease is renewed
        self._closed = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="goqueue-lease", daemon=True)

    def __enter__(self) -> Consumption:
        self._consumer.__enter__()
        self._renewing.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._answer(why)
        except GoQueueClientError as error:
            if kind is None:
                raise
            logger.warning("%s", error)  # the exception of the block says more
        finally:
            self._closed.set()
            self._renewing.join()
            self._consumer.__exit__(kind, why, at)

    def __iter__(self) -> Consumption:
        return self

    def __next__(self) -> LeasedMessage:
        """The next one, whenever it comes; the one before it is done."""
        self._answer(None)
        self._current = message = next(self._consumer)
        return message

    def _answer(self, why: BaseException | None) -> None:
        with self._lock:
            message, self._current = self._current, None
            if message is not None and why is None:
                message.ack()
            elif message is not None:
                message.nack(reason=f"{type(why).__name__}: {why}"[:1000])

    def _renew(self) -> None:
        while not self._closed.wait(self._lease / 3):
            with self._lock:
                try:
                    if self._current is not None:
                        self._current.extend(timedelta(seconds=self._lease))
                except GoQueueClientError as error:
                    logger.warning("could not renew a lease: %s", error)
