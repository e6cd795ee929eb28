"""What both producers share: a message on its way, the request for a batch, and telling each message how it went."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import copy
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from goqueue.client.accumulator import OutgoingBatch
from goqueue.client.calls import Acks, RestCall, Result, publish_encoded
from goqueue.client.errors import BufferFull, GoQueueClientError
from goqueue.client.losses import Losses
from goqueue.client.messages import Sent

logger = logging.getLogger("goqueue.client")


class Promise(Protocol):
    """What asyncio's and concurrent's futures have in common."""

    def done(self) -> bool: ...

    def failed(self, error: GoQueueClientError, losses: Losses) -> None: ...

    def set_result(self, result: Sent, /) -> None: ...

    def set_exception(self, exception: Any, /) -> None: ...


P = TypeVar("P", bound=Promise)


class Outgoing(msgspec.Struct, Generic[P], frozen=True):
    """One encoded message and the future of its place."""

    payload: bytes
    future: P


def request_for(batch: OutgoingBatch[Outgoing[P]], acks: Acks) -> RestCall[list[Result]]:
    return publish_encoded(batch.topic, [outgoing.payload for outgoing in batch.items], acks)


def give_results(batch: OutgoingBatch[Outgoing[P]], results: Sequence[Result], losses: Losses) -> None:
    """Tells each message its own result. What failed is also logged, and told again at the end if nobody asks."""
    failures = [result for result in results if isinstance(result, GoQueueClientError)]
    if failures:
        logger.warning("%d of %d messages to %r not stored: %s", len(failures), len(results), batch.topic, failures[0])
    for outgoing, result in zip(batch.items, results, strict=True):
        if outgoing.future.done():  # The caller gave up waiting.
            if isinstance(result, GoQueueClientError):
                losses.add(result)
        elif isinstance(result, GoQueueClientError):
            outgoing.future.failed(result, losses)
            outgoing.future.set_exception(result)
        else:
            outgoing.future.set_result(result)


def fail_all(batch: OutgoingBatch[Outgoing[P]], error: GoQueueClientError, losses: Losses) -> None:
    """Tells every message of a batch the same."""
    give_results(batch, [copy(error) for _ in batch.items], losses)


def never_fits(size: int) -> GoQueueClientError:
    return GoQueueClientError(
        "message-too-large", f"The message takes {size} bytes, more than the whole buffer; raise buffer_bytes_max."
    )


def no_room(seconds: float) -> BufferFull:
    return BufferFull(
        f"The producer's buffer was full for {seconds:g} s; the broker is slower than the sender. "
        "Send less, wait longer or raise buffer_bytes_max."
    )


def unexpected(why: BaseException) -> GoQueueClientError:
    """A mistake of the client itself: the messages must learn of it too."""
    return GoQueueClientError("unexpected", f"The producer failed on its own account: {why!r}.")
