"""Gathers messages into batches: a machine without I/O and without a clock. `now` is seconds, from any fixed point.

A topic's messages leave in the order they came, one batch at a time: the next leaves when the one before it is
finished. A batch is due when it is full, when its oldest message has lingered long enough, or when it was asked for.
What was accepted counts against the buffer until its batch is finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from goqueue.base.limits import KIB, MESSAGES_PER_PUBLISH_MAX, MIB
from goqueue.client import checks

T = TypeVar("T")


class Batching(msgspec.Struct, frozen=True):
    """When a producer sends. `linger_ms` 0 means at once; the buffer bounds what waits or is on its way.

    A message larger than `bytes_max` goes alone. Sizes are those of the messages as they are sent.
    """

    messages_max: int = 100
    bytes_max: int = 64 * KIB
    linger_ms: float = 5.0
    buffer_bytes_max: int = 32 * MIB

    def __post_init__(self) -> None:
        for name in ("messages_max", "bytes_max", "buffer_bytes_max"):
            checks.whole_number(getattr(self, name), name)
        checks.number(self.linger_ms, "linger_ms")
        if not 1 <= self.messages_max <= MESSAGES_PER_PUBLISH_MAX:
            raise ValueError(f"messages_max must be from 1 to {MESSAGES_PER_PUBLISH_MAX}")
        if self.bytes_max < 1 or self.buffer_bytes_max < 1:
            raise ValueError("bytes_max and buffer_bytes_max must be at least 1")
        if self.linger_ms < 0:
            raise ValueError("linger_ms cannot be negative")


class OutgoingBatch(msgspec.Struct, Generic[T], frozen=True):
    """What leaves together; `since` is when its oldest message came."""

    topic: str
    items: list[T]
    size: int
    since: float


class _Waiting(Generic[T]):
    """One topic's messages that have not left yet."""

    __slots__ = ("asked_for", "items", "size")

    def __init__(self) -> None:
        self.items: deque[tuple[T, int, float]] = deque()  # item, size, when it came
        self.size = 0
        self.asked_for = 0  # so many at the head do not linger

    @property
    def since(self) -> float:
        return self.items[0][2]

    def due_at(self, rules: Batching) -> float:
        """When the next batch is due; minus infinity for at once."""
        is_full = len(self.items) >= rules.messages_max or self.size >= rules.bytes_max
        return float("-inf") if is_full or self.asked_for else self.since + rules.linger_ms / 1000


class Accumulator(Generic[T]):
    """See the module's first lines."""

    def __init__(self, rules: Batching) -> None:
        self._rules = rules
        self._waiting: dict[str, _Waiting[T]] = {}  # topics with messages that have not left
        self._leaving: dict[str, OutgoingBatch[T]] = {}  # topics with a batch on its way
        self.buffered_bytes = 0

    def has_room(self, size: int) -> bool:
        """Whether a message of that size may be added now. An empty buffer takes anything that can ever fit."""
        return self.buffered_bytes + size <= self._rules.buffer_bytes_max

    def can_ever_fit(self, size: int) -> bool:
        return size <= self._rules.buffer_bytes_max

    def add(self, topic: str, item: T, size: int, now: float) -> bool:
        """Accepts a message that has room. True if that changed when the driver has to look again."""
        assert self.has_room(size), "ask has_room first"
        waiting = self._waiting.setdefault(topic, _Waiting())
        before = waiting.due_at(self._rules) if waiting.items else None
        waiting.items.append((item, size, now))
        waiting.size += size
        self.buffered_bytes += size
        return topic not in self._leaving and waiting.due_at(self._rules) != before

    def take(self, now: float) -> OutgoingBatch[T] | None:
        """A batch that is due, if any; the one with the oldest message first. Its topic then waits for `finished`."""
        due = [(waiting.since, topic) for topic, waiting in self._free() if waiting.due_at(self._rules) <= now]
        return self._leave(min(due)[1]) if due else None

    def next_deadline(self) -> float | None:
        """When `take` has something next, unless something else happens before; None if only then."""
        return min((waiting.due_at(self._rules) for _, waiting in self._free()), default=None)

    def finished(self, batch: OutgoingBatch[T]) -> None:
        """The batch was answered, or given up; its room is free and its topic's next batch may leave."""
        del self._leaving[batch.topic]
        self.buffered_bytes -= batch.size

    def flush(self) -> None:
        """Everything accepted so far is due now."""
        for waiting in self._waiting.values():
            waiting.asked_for = len(waiting.items)

    def unfinished(self) -> Iterator[T]:
        """Everything accepted and not finished."""
        for batch in self._leaving.values():
            yield from batch.items
        for waiting in self._waiting.values():
            for item, _, _ in waiting.items:
                yield item

    @property
    def is_empty(self) -> bool:
        return not self._waiting and not self._leaving

    def _free(self) -> Iterator[tuple[str, _Waiting[T]]]:
        """The topics that have something to send and nothing on its way."""
        return ((topic, waiting) for topic, waiting in self._waiting.items() if topic not in self._leaving)

    def _leave(self, topic: str) -> OutgoingBatch[T]:
        waiting = self._waiting[topic]
        since, size = waiting.since, 0
        items: list[T] = []
        while waiting.items and self._fits(len(items), size, waiting.items[0][1]):
            item, item_size, _ = waiting.items.popleft()
            items.append(item)
            size += item_size
        waiting.size -= size
        waiting.asked_for = max(0, waiting.asked_for - len(items))
        if not waiting.items:
            del self._waiting[topic]
        batch = OutgoingBatch(topic, items, size, since)
        self._leaving[topic] = batch
        return batch

    def _fits(self, count: int, size: int, more: int) -> bool:
        if count == 0:
            return True
        return count < self._rules.messages_max and size + more <= self._rules.bytes_max
