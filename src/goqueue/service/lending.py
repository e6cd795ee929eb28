"""Hands out whole batches of messages that are new to a group, as ranges: no record is decoded.

Only where no message asks to be looked at: none has a priority, a time to live or a trace, and keys need no order.
Everything else is for `handing.py`, message by message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from goqueue.base.delays import EXPIRES_HEADER
from goqueue.base.errors import CorruptBatch, GoQueueError
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.leases import Take
from goqueue.base.limits import KIB
from goqueue.base.priority import HEADER, NORMAL
from goqueue.base.trace_context import TRACEPARENT
from goqueue.core.dead_letter import KEEPER
from goqueue.core.delivery.offers import Grant
from goqueue.core.delivery.records import ViewId
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.format.batch import HEADER_BYTES, BatchHeader, Buffer, read_header, split
from goqueue.format.search import has
from goqueue.format.slices import light_body
from goqueue.service.environment import Environment
from goqueue.service.queue_rules import oldest_ms
from goqueue.service.queue_views import Source
from goqueue.service.topics import Topics
from goqueue.service.trace_leases import TracedLeases

_READ_BYTES: Final = 128 * KIB
_LOOKED_AT: Final = (HEADER.encode(), EXPIRES_HEADER.encode())
_TRACED: Final = TRACEPARENT.encode()


class Room(msgspec.Struct, frozen=True):
    """About how many messages are wanted: an answer ends with the batch that passes `wanted`, never beyond `most`."""

    wanted: int
    most: int
    bytes_max: int


class LentBatches(msgspec.Struct, frozen=True):
    """What was handed out of one partition: ranges of offsets, and the batches that hold them."""

    at: TopicPartition
    nonce: str
    ranges: Sequence[tuple[Offset, Offset]]
    batches: Sequence[Buffer]
    count: int
    size: int


class _Chosen:
    """Batches in a row, as far as there is room."""

    def __init__(self, begin: Offset, room: Room, marks: Sequence[bytes]) -> None:
        self._room = room
        self._marks = marks
        self.next = begin
        self.ranges: list[tuple[Offset, Offset]] = []
        self.batches: list[Buffer] = []
        self.count = self.size = 0
        self.is_over = False

    def add_all(self, data: bytes, is_visible: Callable[[BatchHeader], bool]) -> None:
        """Stops before a batch that has to be looked at; nothing is handed out of one that nobody may see."""
        before = self.next
        for batch in split(data):
            header = read_header(batch)
            if header.last_offset < self.next:
                continue
            if is_visible(header):
                if self.is_over or not _is_plain(batch, header, self._marks):
                    self.is_over = True
                    break
                self._add(batch, header)
            else:
                self.next = header.last_offset + 1
        self.is_over = self.is_over or self.next == before

    def _add(self, batch: Buffer, header: BatchHeader) -> None:
        first = max(self.next, header.base_offset)
        last = min(header.last_offset, first + self._room.most - self.count - 1)
        if self.ranges and self.ranges[-1][1] + 1 == first:
            self.ranges[-1] = (self.ranges[-1][0], last)
        else:
            self.ranges.append((first, last))
        self.batches.append(batch)
        self.count += last - first + 1
        self.size += header.size
        self.next = last + 1
        self.is_over = self.count >= self._room.wanted or self.size >= self._room.bytes_max


class Lending:
    def __init__(
        self, runner: DeliveryShards, topics: Topics, environment: Environment, traces: TracedLeases | None
    ) -> None:
        self._runner = runner
        self._topics = topics
        self._clock = environment.clock
        self._traces = traces

    async def lend(self, take: Take, source: Source, room: Room, nonce: str) -> LentBatches | None:
        """None if the next message has to be looked at by itself, or there is none."""
        delivery = source.delivery
        while (marks := self._marks(source)) is not None and self._runner.is_current(delivery):
            opened, begin = delivery.opened, delivery.look_from(NORMAL)
            chosen = await self._choose(source, begin, room, marks)
            if (delivery.opened, delivery.look_from(NORMAL)) == (opened, begin):
                return self._grant(take, source, chosen, nonce) if chosen.count else None
        return None  # what was found is with somebody else by now, or asks to be looked at

    def _marks(self, source: Source) -> Sequence[bytes] | None:
        """What a batch must not have in it; None if every message has to be looked at."""
        delivery, at = source.delivery, source.partition.at
        topic = self._topics.find(at.topic)
        if topic is None or source.is_ordered or not delivery.can_lend(NORMAL):
            return None
        keeper = self._runner.find(ViewId(KEEPER, at.topic, at.partition))
        if keeper is not None or oldest_ms(topic, self._clock.now_ms()):
            return None
        share = None if self._traces is None else self._traces.share(topic)
        if share is None:
            return _LOOKED_AT
        return None if share else (*_LOOKED_AT, _TRACED)

    async def _choose(self, source: Source, begin: Offset, room: Room, marks: Sequence[bytes]) -> _Chosen:
        partition, feed = source.partition, source.feed
        chosen = _Chosen(max(begin, partition.start_offset), room, marks)
        while not chosen.is_over and chosen.next < feed.end:
            try:
                data = await feed.read(chosen.next, _READ_BYTES)
            except GoQueueError:
                break  # the log lost something: whoever looks message by message passes over it
            chosen.add_all(data, feed.is_visible)
        return chosen

    def _grant(self, take: Take, source: Source, chosen: _Chosen, nonce: str) -> LentBatches:
        delivery, now = source.delivery, self._clock.now_ms()
        lease_ms = source.lease_ms if take.lease_ms is None else take.lease_ms
        grant = Grant(take.owner, nonce, now + lease_ms)
        self._runner.write(delivery, delivery.lend(NORMAL, chosen.ranges, grant, now))
        at = source.partition.at
        return LentBatches(at, nonce, chosen.ranges, chosen.batches, chosen.count, chosen.size)


def _is_plain(batch: Buffer, header: BatchHeader, marks: Sequence[bytes]) -> bool:
    """Whether every offset of the batch has a message, and none has one of the marks in it."""
    if header.record_count != header.last_offset - header.base_offset + 1:
        return False
    try:
        body = light_body(batch, header, header.record_count) if header.codec else memoryview(batch)[HEADER_BYTES:]
    except CorruptBatch:
        return False
    return body is not None and not any(has(body, mark) for mark in marks)
