"""Failed messages whose futures nobody has asked: what a producer still has to tell its user when it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, Final

from goqueue.client.errors import GoQueueClientError, NotStored
from goqueue.client.messages import Sent

_KEPT_MAX: Final = 100  # errors that are kept; the others are only counted
_seeing = threading.Lock()


class Losses:
    """Counts failures until somebody sees them. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._kept: dict[int, GoQueueClientError] = {}  # by identity of the error
        self._last: GoQueueClientError | None = None

    def add(self, error: GoQueueClientError) -> None:
        with self._lock:
            self._count += 1
            self._last = error
            if len(self._kept) < _KEPT_MAX:
                self._kept[id(error)] = error

    def seen(self, error: GoQueueClientError) -> None:
        with self._lock:
            self._count -= 1
            self._kept.pop(id(error), None)

    def take(self) -> NotStored | None:
        """The error for all that nobody saw, once."""
        with self._lock:
            count, kept, last = self._count, list(self._kept.values()), self._last
            self._count, self._kept, self._last = 0, {}, None
        return NotStored(count, kept or [last]) if count > 0 and last is not None else None


class _Seen:
    """Tells the losses once when its failure was asked for."""

    _losses: Losses | None = None
    _error: GoQueueClientError | None = None

    def failed(self, error: GoQueueClientError, losses: Losses) -> None:
        self._losses, self._error = losses, error
        losses.add(error)

    def _see(self) -> None:
        with _seeing:
            losses, self._losses = self._losses, None
        if losses is not None and self._error is not None:
            losses.seen(self._error)


class SentFuture(Future[Sent], _Seen):
    """The place of a message of a `Producer`."""

    def result(self, timeout: float | None = None) -> Sent:
        try:
            return super().result(timeout)
        except GoQueueClientError:
            self._see()
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        found = super().exception(timeout)
        if found is not None:
            self._see()
        return found


class AsyncSentFuture(asyncio.Future[Sent], _Seen):
    """The place of a message of an `AsyncProducer`."""

    def set_exception(self, exception: type[BaseException] | BaseException, /) -> None:
        super().set_exception(exception)
        super().exception()  # The producer tells of failures; asyncio need not when the future is collected.

    def result(self) -> Sent:
        try:
            return super().result()
        except GoQueueClientError:
            self._see()
            raise

    def exception(self) -> BaseException | None:
        found = super().exception()
        if found is not None:
            self._see()
        return found

    def __await__(self) -> Generator[Any, None, Sent]:
        try:
            return (yield from super().__await__())
        except GoQueueClientError:
            self._see()
            raise

    __iter__ = __await__
