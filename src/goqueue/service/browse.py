"""Browse: messages in the open, read-only, for doors that do not speak record batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from goqueue.base.commands import Browse, Fetch, Fetched, FetchFrom, Isolation, MessagePage, SkippedOffsets, Stored
from goqueue.base.errors import CorruptBatch, InvalidField
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import KIB, MIB
from goqueue.drive.decoding import Decoding
from goqueue.format.batch import BatchHeader, read_header, split
from goqueue.format.slices import RecordSlice, read
from goqueue.service.fetch import Fetching
from goqueue.service.topics import Topics
from goqueue.service.unreadable import UnreadableRecords

_PART_BYTES = 256 * KIB
_FETCH_BYTES = 8 * MIB
_HEADER_BYTES = 64  # what a header costs beside its name and value
_SKIPS_MAX = 100
_STRETCH = 500
_WORK_S = 10.0  # a page ends after this, with whatever was found


class _Run(msgspec.Struct):
    """What one partition gave so far, in offset order, and how far it was handed out."""

    messages: list[Stored]
    offset_after: Offset  # where to go on once all messages are handed out
    skipped: list[SkippedOffsets]
    taken: int = 0

    @property
    def head(self) -> Stored | None:
        return self.messages[self.taken] if self.taken < len(self.messages) else None

    @property
    def next_offset(self) -> Offset:
        """Never skips a message that was read but not handed out."""
        return self.messages[self.taken].offset if self.taken < len(self.messages) else self.offset_after


class Browsing:
    """The verb."""

    def __init__(
        self, topics: Topics, fetching: Fetching, decoding: Decoding, on_unreadable: UnreadableRecords
    ) -> None:
        self._topics = topics
        self._fetching = fetching
        self._decoding = decoding
        self._on_unreadable = on_unreadable

    async def offsets_from(
        self,
        topic: str,
        place: str | Millis,
        isolation: Isolation = Isolation.READ_COMMITTED,
        among: Sequence[int] | None = None,
    ) -> dict[int, Offset]:
        """Where reading starts in each of these partitions or of all: `earliest`, `latest`, or a time (the end if
        nothing is later).

        For readers of committed data the end is where the first open transaction begins.
        """
        offsets: dict[int, Offset] = {}
        known = self._topics.require(topic)
        for partition in known.partitions if among is None else map(known.partition, among):
            if place == "earliest":
                offset = partition.start_offset
            elif place == "latest" or isinstance(place, str):
                offset = partition.read_limit(isolation)
            else:
                end = partition.read_limit(isolation)  # before the look: what comes meanwhile is later than the time
                found = await partition.offset_at_time(place)
                offset = min(found[0], partition.read_limit(isolation)) if found else end
            offsets[partition.at.partition] = offset
        return offsets

    def high_watermark(self, topic: str, partition: int) -> Offset:
        return self._topics.require(topic).partition(partition).high_watermark

    def check_readable(self, topic: str) -> None:
        """Before a stream begins, which cannot be refused any more."""
        self._topics.require(topic)

    def check_partition(self, topic: str, partition: int) -> None:
        """Raises if there is none."""
        self._topics.require(topic).partition(partition)

    def marks(self, places: Sequence[TopicPartition]) -> list[tuple[Offset, Offset]]:
        """Start and high watermark of each."""
        partitions = [self._topics.require(at.topic).partition(at.partition) for at in places]
        return [(one.start_offset, one.high_watermark) for one in partitions]

    async def read(self, command: Browse) -> MessagePage:
        """Partitions are merged by timestamp; within one, offset order holds. A page is bounded in bytes too.

        What cannot be read is passed over, and told.
        """
        offsets = dict(command.offsets)
        if not offsets:
            raise InvalidField("No partition to read from.", field="from")
        messages: list[Stored] = []
        skipped: list[SkippedOffsets] = []
        room = command.bytes_max
        loop = asyncio.get_running_loop()
        deadline = loop.time() + command.wait_ms_max / 1000 + _WORK_S
        while True:
            answers = await self._fetch(command, offsets, command.wait_ms_max if not messages and not skipped else 0)
            limit = command.limit - len(messages)
            runs = {answer.at.partition: await self._run(command, answer, limit, room) for answer in answers}
            error = next((answer.error for answer in answers if answer.error is not None), None)
            if error is not None and not (messages or skipped or any(run.messages for run in runs.values())):
                raise error
            merged, room = _merge(list(runs.values()), limit, room)
            messages += merged
            for run in runs.values():
                skipped += [one for one in run.skipped if one.first_offset < run.next_offset]
            progress = {partition: run.next_offset for partition, run in runs.items()}
            moved = progress != offsets
            offsets = progress
            enough = len(messages) >= command.limit or room <= 0 or len(skipped) >= _SKIPS_MAX
            if error is not None or enough or not moved or loop.time() >= deadline:
                return MessagePage(messages, offsets, skipped, room <= 0)
            await asyncio.sleep(0)  # decoding is work: others go first

    async def _run(self, command: Browse, answer: Fetched, limit: int, room: int) -> _Run:
        """Decodes only as many records as can be handed out."""
        run = _Run([], answer.offset, [])
        is_visible = self._visible(command, answer)
        for batch in split(answer.batches):
            header = read_header(batch)
            begin = max(answer.offset, header.base_offset)
            if not is_visible(header):
                run.offset_after = header.next_offset
                continue
            while begin <= header.last_offset:
                for one in await self._decoding.window(batch, header, begin, limit - len(run.messages)):
                    room -= self._take(run, answer.at, one, answer.offset)
                    begin = run.offset_after = one.last + 1
                    if len(run.messages) >= limit or room <= 0 or len(run.skipped) >= _SKIPS_MAX:
                        return run
                    if one.count >= _STRETCH:
                        await asyncio.sleep(0)  # decoding is work: others go first
        return run

    def _take(self, run: _Run, at: TopicPartition, one: RecordSlice, begin: Offset) -> int:
        """Adds a slice's messages; returns their size."""
        try:
            records = read(one)
        except CorruptBatch as error:
            self._on_unreadable(at, one.first, one.last, error.message)
            run.skipped.append(SkippedOffsets(at.partition, max(begin, one.first), one.last, error.message))
            return 0
        found = [
            Stored(at.topic, at.partition, one.offset, one.timestamp_ms, one.key, one.value, one.headers)
            for one in records
            if one.offset >= begin
        ]
        run.messages += found
        return sum(map(_size, found))

    def _visible(self, command: Browse, answer: Fetched) -> Callable[[BatchHeader], bool]:
        """Which batches a reader gets: never markers, and nothing aborted unless it asked for everything."""
        topic = self._topics.find(command.topic)
        if topic is None or command.isolation is Isolation.READ_UNCOMMITTED or answer.error is not None:
            return lambda header: not header.is_control
        return topic.partition(answer.at.partition).is_visible

    async def _fetch(self, command: Browse, offsets: dict[int, Offset], wait_ms: int) -> list[Fetched]:
        parts = [
            FetchFrom(TopicPartition(command.topic, partition), offset, _PART_BYTES)
            for partition, offset in offsets.items()
        ]
        fetch = Fetch(parts, _FETCH_BYTES, 1, wait_ms, command.isolation, command.caller, one_each=True)
        return await self._fetching.fetch(fetch)


def merged_page(pages: Iterable[MessagePage], limit: int, room: int) -> MessagePage:
    """Pages of different partitions as one. What is too much comes with the next page."""
    runs = dict[int, _Run]()
    skipped = list[SkippedOffsets]()
    for page in pages:
        runs |= {number: _Run([], offset, []) for number, offset in page.next_offsets.items()}
        skipped += page.skipped
        for message in page.messages:
            runs[message.partition].messages.append(message)
    messages, room = _merge(list(runs.values()), limit, room)
    offsets = {number: run.next_offset for number, run in runs.items()}
    told = [one for one in skipped if one.first_offset < offsets[one.partition]]
    return MessagePage(messages, offsets, told, room <= 0)


def _size(message: Stored) -> int:
    size = len(message.key or b"") + len(message.value or b"")
    return size + sum(_HEADER_BYTES + len(name) + len(value or b"") for name, value in message.headers)


def _merge(runs: list[_Run], limit: int, room: int) -> tuple[list[Stored], int]:
    """Takes the oldest head until the limit; a partition's own order is never touched. Returns the room left."""
    merged: list[Stored] = []
    while len(merged) < limit and room > 0:
        heads = [run for run in runs if run.head is not None] if len(runs) > 1 else runs
        run = min(heads, key=_head_time, default=None)
        if run is None or run.head is None:
            break
        merged.append(run.head)
        room -= _size(run.head)
        run.taken += 1
    return merged, room


def _head_time(run: _Run) -> Millis:
    return run.head.timestamp_ms if run.head is not None else 0
