"""Sends events somewhere, or numbers, in a thread of its own. The queue is bounded; what does not fit is counted."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

E = TypeVar("E")

logger = logging.getLogger(__name__)

QUEUE_MAX: Final = 20_000
BATCH_MAX: Final = 1_000
_WAIT_S: Final = 1.0
_WAIT_S_MAX: Final = 30.0


class TryAgain(Exception):
    """The other end does not answer now; `after_s` is when it wants to be asked again, if it said so."""

    def __init__(self, why: str, after_s: float | None = None) -> None:
        super().__init__(why)
        self.after_s = after_s


class ExportRefused(Exception):
    """The other end will not take some of these; trying again would not help."""

    def __init__(self, why: str, count: int | None = None) -> None:
        super().__init__(why)
        self.count = count


class Exporter(Generic[E]):
    """`send` blocks, and raises `TryAgain`, `ExportRefused` or `OSError`. Nobody ever waits for it but its own thread.

    `count_of` says how many events an entry is; `kind` is what they are, in its log's lines.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[Sequence[E]], None],
        count_of: Callable[[E], int],
        kind: str = "traces",
        queue_max: int = QUEUE_MAX,
        wait_s: float = _WAIT_S,
    ) -> None:
        self.name = name
        self.failures = 0
        self.exported = 0
        self.dropped = 0
        self.failure = ""  # of the last try; empty if that went well
        self._send = send
        self._count_of = count_of
        self._kind = kind
        self._queue_max = queue_max
        self._wait_s = wait_s
        self._queue: deque[E] = deque()
        self._waiting = 0  # events in it
        self._news = threading.Condition()
        self._is_busy = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"{kind}-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._waiting

    @property
    def is_idle(self) -> bool:
        """Nothing waits, and nothing is being sent."""
        with self._news:
            return not self._queue and not self._is_busy

    def put(self, entries: Sequence[E]) -> None:
        """Takes what fits, at once; one entry of many events is whole or dropped."""
        with self._news:
            for entry in entries:
                count = self._count_of(entry)
                if self._waiting + count <= self._queue_max:
                    self._queue.append(entry)
                    self._waiting += count
                else:
                    self.dropped += count
            self._news.notify_all()

    def drain(self, timeout_s: float) -> bool:
        """Waits until everything is sent; False if it is not by then."""
        with self._news:
            return self._news.wait_for(lambda: not self._queue and not self._is_busy, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Sends what it can until then; the rest is dropped."""
        if self._thread.is_alive():
            self.drain(timeout_s)
        with self._news:
            self._is_closed = True
            self.dropped += self._waiting
            self._queue.clear()
            self._waiting = 0
            self._news.notify_all()

    # --- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        wait_s = self._wait_s
        while batch := self._next():
            count = sum(map(self._count_of, batch))
            try:
                self._send(batch)
                self._went_well(count)
                wait_s = self._wait_s
            except TryAgain as error:
                self._failed(str(error))
                self._put_back(batch)
                self._pause(wait_s if error.after_s is None else min(error.after_s, _WAIT_S_MAX))
                wait_s = min(2 * wait_s, _WAIT_S_MAX)
            except (ExportRefused, OSError) as error:
                lost = error.count if isinstance(error, ExportRefused) and error.count is not None else count
                self._failed(str(error))
                self.dropped += lost
                self.exported += count - lost
            finally:
                with self._news:
                    self._is_busy = False
                    self._news.notify_all()

    def _next(self) -> list[E]:
        """At most so many events, or one entry."""
        with self._news:
            self._news.wait_for(lambda: self._queue or self._is_closed)
            self._is_busy = True
            batch, count = list[E](), 0
            while self._queue and (not batch or count + self._count_of(self._queue[0]) <= BATCH_MAX):
                batch.append(self._queue.popleft())
                count += self._count_of(batch[-1])
            self._waiting -= count
            return batch

    def _put_back(self, batch: list[E]) -> None:
        """In front of the others; what came meanwhile may have taken the room of the last."""
        with self._news:
            while batch:
                count = sum(map(self._count_of, batch))
                if not self._is_closed and self._waiting + count <= self._queue_max:
                    self._queue.extendleft(reversed(batch))
                    self._waiting += count
                    return
                self.dropped += self._count_of(batch.pop())

    def _pause(self, seconds: float) -> None:
        with self._news:
            self._is_busy = False
            self._news.wait_for(lambda: self._is_closed, seconds)

    def _went_well(self, count: int) -> None:
        self.exported += count
        if self.failure:
            self.failure = ""
            logger.info(f"{self._kind} are exported again", extra={"exporter": self.name})

    def _failed(self, why: str) -> None:
        self.failures += 1
        if not self.failure:
            logger.warning(f"{self._kind} cannot be exported", extra={"exporter": self.name, "error": why})
        self.failure = why or "failed"
