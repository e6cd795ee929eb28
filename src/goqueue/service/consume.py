"""Consume as a member of a group: join, poll, give back, commit.

A poll reads from the member's places, which are in memory, and moves them. What is committed is in the coordinator.
A new owner of a partition begins where the last one committed, and so does a member that joins again: a message is
handed out at least once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec.structs import replace

from goqueue.base.commands import ANYONE, Caller, Isolation, Stored
from goqueue.base.errors import GoQueueError, InternalTopic, NotFound
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import MIB
from goqueue.core.groups.errors import UnknownGroup
from goqueue.core.groups.parts import PartList
from goqueue.core.groups.replies import OffsetResult, RestBeat, RestJoined
from goqueue.core.groups.requests import CommitRequest, OffsetCommit, RestJoin
from goqueue.drive.partition import Partition
from goqueue.service.browse import Browse, Browsing
from goqueue.service.groups import Groups
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.readers import Place, Reader, Readers, Reading, flat, nested
from goqueue.service.topics import Topics

AUTO_COMMIT_S: Final = 5.0
_POLL_BYTES: Final = 8 * MIB  # no further topic is read once an answer has this much


class Poll(msgspec.Struct, frozen=True):
    """Hand out up to `limit` messages; wait up to `wait_ms_max` for the first."""

    group: str
    member_id: str
    generation: int
    limit: int
    wait_ms_max: Millis
    caller: Caller = ANYONE


class Polled(msgspec.Struct, frozen=True):
    """What was read. `generation` is the one to go on with; `rebalance` says that a heartbeat has news."""

    messages: Sequence[Stored]
    generation: int
    rebalance: bool


class _Move(msgspec.Struct, frozen=True):
    """A place, and where it goes if the member still has it."""

    at: TopicPartition
    place: Place
    next: Offset


class Consuming:
    """The verbs."""

    def __init__(self, groups: Groups, topics: Topics, browsing: Browsing, metrics: BrokerMetrics) -> None:
        self._groups = groups
        self._topics = topics
        self._browsing = browsing
        self._metrics = metrics
        self._readers = Readers(self._members)
        self._stopping = False

    def stop(self) -> None:
        """Every poll that waits is answered."""
        self._stopping = True
        self._readers.wake_all()

    # --- membership ------------------------------------------------------------------------------------------

    async def join(self, request: RestJoin, reading: Reading) -> RestJoined:
        """A member that joins again begins again where it committed."""
        for topic in request.topics:
            if self._topics.require(topic).is_internal:
                raise InternalTopic(f"{topic} holds the broker's own books; read another topic.", field="topics")
        joined = await self._groups.rest_join(request)
        beat_ms = min(joined.heartbeat_ms, max(1, joined.session_ms // 3))
        reader = Reader(request.group, joined.member_id, reading, beat_ms)
        self._readers.put(reader)
        self._hear(reader, joined.generation, joined.assignment, [])
        return joined

    async def heartbeat(self, group: str, member_id: str, generation: int) -> RestBeat:
        beat = await self._groups.rest_heartbeat(group, member_id, generation)
        return self._told(group, member_id, beat)

    async def revoke(self, group: str, member_id: str, generation: int, partitions: PartList) -> RestBeat:
        """What was handed out of these is committed first, if the member left that to the node."""
        reader = self._readers.get(group, member_id)
        if reader is not None:
            given = set(flat(partitions)).difference(reader.assigned)
            await self._commit_places(reader, given)
        beat = await self._groups.rest_revoke(group, member_id, generation, partitions)
        return self._told(group, member_id, beat)

    async def leave(self, group: str, member_id: str) -> None:
        reader = self._readers.get(group, member_id)
        if reader is not None:
            await self._commit_places(reader, reader.places)
        await self._groups.rest_leave(group, member_id)
        self._readers.drop(group, member_id)

    def _told(self, group: str, member_id: str, beat: RestBeat) -> RestBeat:
        """Partitions that a poll gained are told as well."""
        reader = self._readers.get(group, member_id)
        if reader is None:
            return beat
        self._hear(reader, beat.generation, beat.assignment, beat.revoke)
        gained, reader.untold = reader.untold.union(flat(beat.gained)), set()
        return replace(beat, gained=nested(gained))

    def _hear(self, reader: Reader, generation: int, assignment: PartList, revoke: PartList) -> None:
        """An answer that a newer one overtook is not news."""
        if generation < reader.generation:
            return
        reader.generation = generation
        new = reader.keep(flat(assignment), flat(revoke))
        committed = self._groups.offsets(reader.group, new) if new else {}
        for at in new:
            known = committed.get(at)
            reader.places[at] = self._beginning(reader, at) if known is None else Place(known.offset, known.offset)

    def _beginning(self, reader: Reader, at: TopicPartition) -> Place:
        """Without a committed offset. `latest` is worth a commit: it would be another place later."""
        partition = self._partition(at)
        if partition is None:
            return Place(0, 0)
        if reader.reading.begin == "latest":
            return Place(partition.state.high_watermark, None)
        return Place(partition.log.start_offset, partition.log.start_offset)

    def _members(self, group: str) -> set[str]:
        try:
            return {member.member_id for member in self._groups.describe(group).members}
        except UnknownGroup:
            return set()

    # --- poll ------------------------------------------------------------------------------------------------

    async def poll(self, poll: Poll) -> Polled:
        """Counts as a heartbeat, now and for as long as it waits."""
        self._groups.rest_readable(poll.group, poll.member_id, poll.generation)
        reader = self._readers.require(poll.group, poll.member_id)
        turn = reader.take_turn()
        async with reader.polling:
            return await self._poll(reader, poll, turn)

    async def _poll(self, reader: Reader, poll: Poll, turn: int) -> Polled:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + poll.wait_ms_max / 1000
        while True:
            with self._watching(reader) as woken:
                if not reader.has_turn(turn):
                    return Polled([], reader.generation, False)
                await self._auto_commit(reader)
                before = reader.assigned
                rebalance = await self._beat(reader, poll.generation)
                messages = await self._read(reader, set(before) if rebalance else None, poll)
                left_s = deadline - loop.time()
                if messages or rebalance or left_s <= 0 or self._stopping:
                    return Polled(messages, reader.generation, rebalance)
                await self._wait(woken, min(left_s, reader.beat_ms / 1000))

    async def _beat(self, reader: Reader, generation: int) -> bool:
        """Whether something changed for the member. What it gained is kept for its next heartbeat to tell."""
        beat = await self._groups.rest_heartbeat(reader.group, reader.member_id, generation)
        self._hear(reader, beat.generation, beat.assignment, beat.revoke)
        reader.untold.update(flat(beat.gained))
        return beat.generation != generation or bool(beat.revoke or beat.gained)

    @contextmanager
    def _watching(self, reader: Reader) -> Iterator[asyncio.Future[None]]:
        """Begins before looking, so that nothing slips in between."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partitions = [found for at in reader.assigned if (found := self._partition(at)) is not None]
        for partition in partitions:
            partition.watch(woken)
        self._groups.watch(reader.group, woken)
        reader.waits_on(woken)
        try:
            yield woken
        finally:
            reader.waits_on(None)
            self._groups.unwatch(reader.group, woken)
            for partition in partitions:
                partition.unwatch(woken)

    async def _wait(self, woken: asyncio.Future[None], left_s: float) -> None:
        self._metrics.long_polls.inc()
        try:
            await asyncio.wait([woken], timeout=left_s)
        finally:
            self._metrics.long_polls.dec()

    # --- read ------------------------------------------------------------------------------------------------

    async def _read(self, reader: Reader, among: set[TopicPartition] | None, poll: Poll) -> list[Stored]:
        """Topic by topic. Places move at the end and all at once: a poll that is broken off moves none."""
        messages: list[Stored] = []
        moves: list[_Move] = []
        error: GoQueueError | None = None
        size = 0
        for topic, places in self._ready(reader, among).items():
            if len(messages) >= poll.limit or size >= _POLL_BYTES:
                break
            offsets = {number: place.next for number, place in places.items()}
            browse = Browse(topic, offsets, poll.limit - len(messages), caller=poll.caller)
            try:
                page = await self._browsing.read(browse)
            except GoQueueError as why:
                error = error if error is not None or isinstance(why, NotFound) else why
                continue
            messages += page.messages
            size += sum(len(one.value or b"") for one in page.messages)
            moves += [
                _Move(TopicPartition(topic, number), places[number], after)
                for number, after in page.next_offsets.items()
            ]
        if error is not None and not messages:
            raise error
        return _moved(reader, messages, moves)

    def _ready(self, reader: Reader, among: set[TopicPartition] | None) -> dict[str, dict[int, Place]]:
        """Where there is something to read."""
        found: dict[str, dict[int, Place]] = {}
        for at in reader.rotated():
            partition = self._partition(at)
            if partition is not None and (among is None or at in among):
                place = _within(partition, reader.places[at], reader.reading)
                if place.next < partition.state.read_limit(Isolation.READ_COMMITTED):
                    found.setdefault(at.topic, {})[at.partition] = place
        return found

    def _partition(self, at: TopicPartition) -> Partition | None:
        topic = self._topics.find(at.topic)
        return topic.partitions[at.partition] if topic is not None and at.partition < len(topic.partitions) else None

    # --- commit ----------------------------------------------------------------------------------------------

    async def commit(self, request: CommitRequest) -> list[OffsetResult]:
        results = await self._groups.commit_all(request)
        reader = self._readers.get(request.group, request.member_id)
        if reader is not None:
            for commit, result in zip(request.offsets, results, strict=True):
                place = reader.places.get(TopicPartition(commit.topic, commit.partition))
                if result.error is None and place is not None:
                    place.committed = commit.offset
        return results

    async def _auto_commit(self, reader: Reader) -> None:
        """What earlier polls handed out, now and then. A failure only means that messages may come twice."""
        now_s = asyncio.get_running_loop().time()
        if now_s - reader.committed_s >= AUTO_COMMIT_S:
            reader.committed_s = now_s
            try:
                await self._commit_places(reader, reader.places)
            except GoQueueError:
                return

    async def _commit_places(self, reader: Reader, among: Iterable[TopicPartition]) -> None:
        if not reader.reading.auto_commit:
            return
        places = reader.uncommitted(among)
        if not places:
            return
        offsets = [OffsetCommit(at.topic, at.partition, place.next) for at, place in places.items()]
        request = CommitRequest(reader.group, reader.member_id, reader.generation, None, offsets)
        results = await self._groups.commit_all(request)
        for place, commit, result in zip(places.values(), offsets, results, strict=True):
            if result.error is None:
                place.committed = commit.offset


def _within(partition: Partition, place: Place, reading: Reading) -> Place:
    """Retention may have passed the place, or an administrator may have put it beyond the end."""
    start, end = partition.log.start_offset, partition.state.high_watermark
    if not start <= place.next <= end:
        place.next = end if reading.begin == "latest" else start
    return place


def _moved(reader: Reader, messages: list[Stored], moves: list[_Move]) -> list[Stored]:
    """Leaves out what the member lost while it was read: the new owner reads it."""
    kept: set[TopicPartition] = set()
    assigned = set(reader.assigned)
    for move in moves:
        if move.at in assigned and reader.places[move.at] is move.place:
            move.place.next = move.next
            kept.add(move.at)
    if len(kept) == len(moves):
        return messages
    return [one for one in messages if TopicPartition(one.topic, one.partition) in kept]
