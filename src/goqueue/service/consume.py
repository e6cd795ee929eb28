"""Consume as a member of a group: join, poll, give back, commit.

A poll hands out messages of the member's partitions under a lease. The member answers for each of them, or commits
offsets, or leaves it to the node: then what earlier polls handed out is done every few seconds, until the member
answers for the first time. What a member holds goes to others when it loses the partition, leaves, or falls silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from math import ceil
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from goqueue.base.commands import ANYONE, Caller
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.leases import Delivered, Take
from goqueue.core.groups.errors import UnknownGroup
from goqueue.core.groups.parts import PartList
from goqueue.core.groups.records import GroupGone, GroupState, Record
from goqueue.core.groups.replies import OffsetResult, RestBeat, RestJoined
from goqueue.core.groups.requests import CommitRequest, RestJoin
from goqueue.service.groups import Groups
from goqueue.service.leased_run import LeasedRun, messages_of
from goqueue.service.readers import MemberReading, Reader, Readers, flat, nested
from goqueue.service.topics import Topics

AUTO_COMMIT_S: Final = 5.0
_BEAT_S: Final = 0.1  # polls of a member that come closer together count as one heartbeat


class Poll(msgspec.Struct, frozen=True):
    """Hand out up to `limit` messages; wait up to `wait_ms_max` for the first. `lease_ms` None means the group's."""

    group: str
    member_id: str
    generation: int
    limit: int
    wait_ms_max: Millis
    lease_ms: Millis | None = None
    caller: Caller = ANYONE


class PollResult(msgspec.Struct, frozen=True):
    """What was handed out. `generation` is the one to go on with; `rebalance` says that a heartbeat has news."""

    runs: list[LeasedRun]
    generation: int
    rebalance: bool

    @property
    def messages(self) -> list[Delivered]:
        """One by one."""
        return messages_of(self.runs)


class MemberLeases(Protocol):
    """The leases of a group's members, at this node alone or at all that lead their partitions."""

    async def take_runs(self, take: Take, interrupt: asyncio.Future[None] | None = None) -> list[LeasedRun]: ...

    def give_back(self, group: str, found: Iterable[Delivered]) -> None: ...

    def release(
        self, group: str, owner: str, lost: Collection[TopicPartition] | None = None, is_failure: bool = False
    ) -> None: ...

    def begin_at_end(self, group: str, partitions: Iterable[TopicPartition]) -> None: ...

    def in_flight(self, group: str, owner: str) -> int: ...

    async def ack_held(
        self, group: str, owner: str, nonces: Collection[str], among: Collection[TopicPartition] | None = None
    ) -> None: ...

    async def settled(self, group: str) -> None: ...


class Consuming:
    """The verbs."""

    def __init__(self, groups: Groups, topics: Topics, leasing: MemberLeases, in_flight_max: int) -> None:
        self._groups = groups
        self._topics = topics
        self._leasing = leasing
        self._in_flight_max = in_flight_max
        self._readers = Readers(self._members)
        self._changes = 0  # of any group
        self._stopping = False

    def stop(self) -> None:
        """Every poll that waits is answered."""
        self._stopping = True
        self._readers.wake_all()

    def heard(self, records: Iterable[Record]) -> None:
        """The coordinator wrote these: what members that are gone held goes to others."""
        for record in records:
            if isinstance(record, GroupState | GroupGone):
                self._changes += 1
                self._keep(record.group, record.consumer if isinstance(record, GroupState) else ())

    def _keep(self, group: str, members: Iterable[str]) -> None:
        for member_id in self._readers.of(group).difference(members):
            self._readers.drop(group, member_id)
            self._leasing.release(group, member_id, is_failure=True)

    def answered(self, group: str, member_id: str) -> None:
        """A member that answers for its messages wants no other to do it."""
        reader = self._readers.get(group, member_id)
        if reader is not None and reader.reading.auto_commit:
            reader.reading = replace(reader.reading, auto_commit=False)

    # --- membership ------------------------------------------------------------------------------------------

    async def join(self, request: RestJoin, reading: MemberReading) -> RestJoined:
        """A member that joins again begins again with what it did not finish."""
        for topic in request.topics:
            self._topics.require_users(topic, "topics")
        joined = await self._groups.rest_join(request)
        beat_ms = min(joined.heartbeat_ms, max(1, joined.session_ms // 3))
        self._leasing.release(request.group, joined.member_id)
        reader = Reader(request.group, joined.member_id, reading, beat_ms, joined.mode == "shared")
        self._readers.put(reader)
        self._hear(reader, joined.generation, joined.assignment, [])
        await self._leasing.settled(request.group)
        return joined

    async def heartbeat(self, group: str, member_id: str, generation: int) -> RestBeat:
        beat = self._told(group, member_id, await self._groups.rest_heartbeat(group, member_id, generation))
        await self._leasing.settled(group)
        return beat

    async def revoke(self, group: str, member_id: str, generation: int, partitions: PartList) -> RestBeat:
        """What was handed out of these is done first, if the member left that to the node."""
        reader = self._readers.get(group, member_id)
        if reader is not None:
            await self._let_go(reader, set(flat(partitions)).difference(reader.assigned))
        beat = self._told(group, member_id, await self._groups.rest_revoke(group, member_id, generation, partitions))
        await self._leasing.settled(group)
        return beat

    async def leave(self, group: str, member_id: str) -> None:
        reader = self._readers.get(group, member_id)
        if reader is not None:
            await self._let_go(reader, {*reader.assigned, *reader.leaving})
        await self._groups.rest_leave(group, member_id)
        self._readers.drop(group, member_id)

    async def _let_go(self, reader: Reader, partitions: set[TopicPartition]) -> None:
        if reader.reading.auto_commit:
            await self._leasing.ack_held(reader.group, reader.member_id, reader.nonces, partitions)
        self._leasing.release(reader.group, reader.member_id, partitions)

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
        if generation >= reader.generation:
            reader.generation = generation
            lost = reader.keep(flat(assignment), flat(revoke))
            if reader.reading.begin == "latest":
                self._leasing.begin_at_end(reader.group, reader.assigned)
            if lost:
                self._leasing.release(reader.group, reader.member_id, lost)

    def _members(self, group: str) -> set[str]:
        try:
            return {member.member_id for member in self._groups.describe(group).members}
        except UnknownGroup:
            return set()

    # --- poll ------------------------------------------------------------------------------------------------

    async def poll(self, poll: Poll) -> PollResult:
        """Counts as a heartbeat, now and for as long as it waits."""
        self._groups.rest_readable(poll.group, poll.member_id, poll.generation)
        reader = self._readers.require(poll.group, poll.member_id)
        turn = reader.take_turn()
        async with reader.polling:
            return await self._poll(reader, poll, turn)

    async def _poll(self, reader: Reader, poll: Poll, turn: int) -> PollResult:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + poll.wait_ms_max / 1000
        while True:
            woken: asyncio.Future[None] = loop.create_future()
            self._watch(reader, woken)
            try:
                if not reader.has_turn(turn):
                    return PollResult([], reader.generation, False)
                await self._auto_commit(reader)
                before = reader.assigned
                rebalance = not self._has_beaten(reader, poll.generation) and await self._beat(reader, poll.generation)
                kept = [at for at in reader.assigned if at in set(before)] if rebalance else reader.assigned
                left_ms = max(0, ceil((deadline - loop.time()) * 1000))
                wait_ms = 0 if rebalance or self._stopping else min(left_ms, reader.beat_ms)
                found = await self._leasing.take_runs(self._take(reader, poll, kept, wait_ms), woken)
                runs = [run for run in found if run.at in reader.assigned]
                if len(runs) < len(found):  # a heartbeat beside the poll took partitions away
                    lost = [run for run in found if run.at not in reader.assigned]
                    self._leasing.give_back(reader.group, messages_of(lost))
                if reader.reading.auto_commit:
                    reader.nonces.update(run.nonce for run in runs)
                if runs or rebalance or loop.time() >= deadline or self._stopping:
                    return PollResult(runs, reader.generation, rebalance)
            finally:
                self._unwatch(reader, woken)

    def shared_take(self, group: str, member_id: str, generation: int) -> Take | None:
        """What the member's next polls may take where they come in: see `service/routed_polls.py`. None if they have to
        be asked for here."""
        self._groups.rest_readable(group, member_id, generation)
        reader = self._readers.require(group, member_id)
        reading = reader.reading
        if not reader.is_shared or reading.auto_commit or reading.strict or reader.generation != generation:
            return None
        return self._take(reader, Poll(group, member_id, generation, 1, 0), reader.assigned, 0)

    def _take(self, reader: Reader, poll: Poll, among: Sequence[TopicPartition], wait_ms: Millis) -> Take:
        reading = reader.reading
        return Take(
            reader.group,
            tuple(at for at in among if self._exists(at)),
            reader.member_id,
            poll.limit,
            poll.lease_ms if poll.lease_ms is not None else reading.lease_ms,
            wait_ms,
            self._in_flight_max,
            reading.begin,
            reading.strict,
            poll.caller,
        )

    def _exists(self, at: TopicPartition) -> bool:
        topic = self._topics.find(at.topic)
        return topic is not None and at.partition < len(topic.partitions)

    async def _beat(self, reader: Reader, generation: int) -> bool:
        """Whether something changed for the member. What it gained is kept for its next heartbeat to tell."""
        changes = self._changes
        beat = await self._groups.rest_heartbeat(reader.group, reader.member_id, generation)
        self._hear(reader, beat.generation, beat.assignment, beat.revoke)
        reader.untold.update(flat(beat.gained))
        is_news = beat.generation != generation or bool(beat.revoke or beat.gained)
        reader.beat = None if is_news else (generation, changes, asyncio.get_running_loop().time())
        return is_news

    def _has_beaten(self, reader: Reader, generation: int) -> bool:
        """A moment ago, without news, and no group changed since."""
        if reader.beat is None:
            return False
        shown, changes, at_s = reader.beat
        is_same = shown == generation == reader.generation and changes == self._changes
        return is_same and asyncio.get_running_loop().time() - at_s < _BEAT_S

    def _watch(self, reader: Reader, woken: asyncio.Future[None]) -> None:
        """It is done when the group changes or another poll takes this one's turn."""
        self._groups.watch(reader.group, woken)
        reader.waits_on(woken)

    def _unwatch(self, reader: Reader, woken: asyncio.Future[None]) -> None:
        reader.waits_on(None)
        self._groups.unwatch(reader.group, woken)

    # --- commit ----------------------------------------------------------------------------------------------

    async def commit(self, request: CommitRequest) -> list[OffsetResult]:
        """Everything below the offsets is done."""
        return await self._groups.commit_all(request)

    async def _auto_commit(self, reader: Reader) -> None:
        """What earlier polls handed out, now and then, and before the member holds too much to get more."""
        if not reader.reading.auto_commit:
            return
        now_s = asyncio.get_running_loop().time()
        full = self._leasing.in_flight(reader.group, reader.member_id) >= self._in_flight_max
        if full or now_s - reader.committed_s >= AUTO_COMMIT_S:
            reader.committed_s = now_s
            done = frozenset(reader.nonces)
            try:
                await self._leasing.ack_held(reader.group, reader.member_id, done)
            except GoQueueError:
                return  # they come again
            reader.nonces -= done
