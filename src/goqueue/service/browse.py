"""Browse: messages in the open, read-only, for doors that do not speak record batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from goqueue.base.commands import Caller, Fetch, Fetched, FetchFrom, Isolation, Page, Stored
from goqueue.base.errors import InvalidField
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import KIB, MIB
from goqueue.format.batch import BatchHeader, read_header, split
from goqueue.format.records import decode
from goqueue.service.fetch import Fetching
from goqueue.service.topics import Topics

_PART_BYTES = 256 * KIB
_FETCH_BYTES = 8 * MIB
_PAGE_BYTES = 8 * MIB  # a page ends with the message that passes this


class Browse(msgspec.Struct, frozen=True):
    """Read up to `limit` messages from these offsets on; wait up to `wait_ms_max` for the first."""

    topic: str
    offsets: dict[int, Offset]
    limit: int
    wait_ms_max: int = 0
    isolation: Isolation = Isolation.READ_COMMITTED
    caller: Caller = Caller()


class _Run(msgspec.Struct):
    """What one partition gave so far, in offset order, and how far it was handed out."""

    messages: list[Stored]
    offset_after: Offset  # where to go on once all messages are handed out
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

    def __init__(self, topics: Topics, fetching: Fetching) -> None:
        self._topics = topics
        self._fetching = fetching

    async def offsets_from(
        self, topic: str, place: str | Millis, isolation: Isolation = Isolation.READ_COMMITTED
    ) -> dict[int, Offset]:
        """Where reading starts in each partition: `earliest`, `latest`, or a time (the end if nothing is later).

        For readers of committed data the end is where the first open transaction begins.
        """
        offsets: dict[int, Offset] = {}
        for partition in self._topics.require(topic).partitions:
            if place == "earliest":
                offset = partition.log.start_offset
            elif place == "latest" or isinstance(place, str):
                offset = partition.state.read_limit(isolation)
            else:
                found = await partition.offset_at_time(place)
                end = partition.state.read_limit(isolation)
                offset = min(found[0], end) if found else end
            offsets[partition.at.partition] = offset
        return offsets

    def high_watermark(self, topic: str, partition: int) -> Offset:
        return self._topics.require(topic).partition(partition).state.high_watermark

    async def read(self, command: Browse) -> Page:
        """Partitions are merged by timestamp; within one, offset order holds. A page is bounded in bytes too."""
        offsets = dict(command.offsets)
        if not offsets:
            raise InvalidField("No partition to read from.", field="from")
        messages: list[Stored] = []
        room = _PAGE_BYTES
        while True:
            answers = await self._fetch(command, offsets, command.wait_ms_max if not messages else 0)
            limit = command.limit - len(messages)
            runs = {
                answer.at.partition: _run(answer, limit, room, self._visible(command, answer)) for answer in answers
            }
            error = next((answer.error for answer in answers if answer.error is not None), None)
            if error is not None and not (messages or any(run.messages for run in runs.values())):
                raise error
            merged, room = _merge(list(runs.values()), limit, room)
            messages += merged
            progress = {partition: run.next_offset for partition, run in runs.items()}
            moved = progress != offsets
            offsets = progress
            if error is not None or len(messages) >= command.limit or room <= 0 or not moved:
                return Page(messages, offsets)
            await asyncio.sleep(0)  # decoding is work: others go first

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


def _run(answer: Fetched, limit: int, room: int, is_visible: Callable[[BatchHeader], bool]) -> _Run:
    """Decodes only as many batches as can be handed out."""
    messages: list[Stored] = []
    after = answer.offset
    for last_offset, found in _decoded(answer, is_visible):
        messages += found
        after = last_offset + 1
        room -= sum(map(_size, found))
        if len(messages) >= limit or room <= 0:
            break
    return _Run(messages, after)


def _size(message: Stored) -> int:
    return len(message.key or b"") + len(message.value or b"")


def _decoded(answer: Fetched, is_visible: Callable[[BatchHeader], bool]) -> Iterator[tuple[Offset, list[Stored]]]:
    topic, partition = answer.at.topic, answer.at.partition
    for batch in split(answer.batches):
        header = read_header(batch)
        records = decode(batch) if is_visible(header) else []
        yield (
            header.last_offset,
            [
                Stored(topic, partition, one.offset, one.timestamp_ms, one.key, one.value, one.headers)
                for one in records
                if one.offset >= answer.offset
            ],
        )


def _merge(runs: list[_Run], limit: int, room: int) -> tuple[list[Stored], int]:
    """Takes the oldest head until the limit; a partition's own order is never touched. Answers with the room left."""
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
