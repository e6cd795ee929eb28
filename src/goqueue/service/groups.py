"""Groups: membership, committed offsets, lag. One coordinator behind every door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.errors import GoQueueError, InvalidGroup
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import PATTERN_SECONDS_MAX
from goqueue.core.groups.config import changed_config, group_defaults
from goqueue.core.groups.coordinator import Coordinator
from goqueue.core.groups.parts import PartList
from goqueue.core.groups.records import GroupState, OffsetCommitted, Record
from goqueue.core.groups.replies import (
    GroupDescription,
    GroupListing,
    GroupStep,
    OffsetResult,
    OffsetsReply,
    RebalanceStats,
    RestBeat,
    RestJoined,
    Result,
)
from goqueue.core.groups.requests import (
    CommitRequest,
    ConsumerHeartbeat,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    OffsetCommit,
    RestJoin,
    ShareHeartbeat,
    SyncRequest,
)
from goqueue.core.groups.share_config import ORDER, ShareRules, share_rules, takes_uncommitted
from goqueue.core.patterns import InvalidPattern, compile_pattern
from goqueue.drive.coordinators import GroupHost
from goqueue.drive.per_shard import PerShard
from goqueue.service.time_slices import TimeSlices
from goqueue.service.topics import Topics

Answer = Result | asyncio.Future[Result]
Question = Callable[[Coordinator, int, Millis], GroupStep]
Settled = tuple[int, str, int, int, Millis, int]  # a load of the coordinator, a group, a transaction, its offsets

_SETTLED_MAX: Final = 10_000


class PartitionLag(msgspec.Struct, frozen=True):
    """How far a group is behind in one partition; `committed` is -1 where it never committed, and all of it is lag."""

    topic: str
    partition: int
    committed: Offset
    end_offset: Offset
    lag: int
    metadata: str = ""


def lag_of(committed: OffsetCommitted, start: Offset, end: Offset) -> PartitionLag:
    """How far a group is behind that committed this, or nothing (-1)."""
    behind = max(0, end - max(committed.offset, start))
    return PartitionLag(committed.topic, committed.partition, committed.offset, end, behind, committed.metadata)


class Groups:
    """The verbs."""

    def __init__(
        self, hosts: PerShard[GroupHost], topics: Topics, entropy: Entropy, before_read: Callable[[], None]
    ) -> None:
        self._hosts = hosts
        self._topics = topics
        self._entropy = entropy
        self._watchers: dict[str, set[asyncio.Future[None]]] = {}
        self._before_read = before_read  # told before offsets are read
        self._settled: WeakKeyDictionary[GroupHost, dict[Settled, None]] = WeakKeyDictionary()  # the last ones

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{new_uuid(self._entropy)}"

    # --- members ---------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest) -> Answer:
        return self._ask(request.group, lambda groups, ticket, now: groups.join(ticket, request, now))

    def sync(self, request: SyncRequest) -> Answer:
        return self._ask(request.group, lambda groups, ticket, now: groups.sync(ticket, request, now))

    def heartbeat(self, request: HeartbeatRequest) -> Answer:
        return self._ask(request.group, lambda groups, ticket, now: groups.heartbeat(ticket, request, now))

    def leave(self, request: LeaveRequest) -> Answer:
        return self._ask(request.group, lambda groups, ticket, now: groups.leave(ticket, request, now))

    async def resolve_pattern(self, text: str) -> None:
        """Finds the topics of a pattern, with pauses for others; what it finds is ready for the coordinator."""
        pattern, pace = compile_pattern(text), TimeSlices(PATTERN_SECONDS_MAX)
        for _ in pattern.look(self._any().topics):
            await pace.pause()
            if pace.is_over:
                raise InvalidPattern("The pattern takes too long for all topics; use a simpler one.", field="pattern")

    def consumer_heartbeat(self, request: ConsumerHeartbeat) -> Answer:
        return self._ask(request.group, lambda groups, ticket, now: groups.consumer_heartbeat(ticket, request, now))

    def share_heartbeat(self, request: ShareHeartbeat) -> Answer:
        return self._ask(request.group, lambda groups, ticket, now: groups.share_heartbeat(ticket, request, now))

    def _ask(self, group: str, question: Question) -> Answer:
        if not group:
            return InvalidGroup("The group has no name; give it one.", field="group")
        try:
            answer: Answer = self._hosts.of(group).ask(question)
        except GoQueueError as error:
            return error
        return answer

    def _any(self) -> Coordinator:
        """One of this node's: what is the same for all of them."""
        found = next(iter(self._hosts), None) or self._hosts[0]
        return found.machine

    def _machine(self, group: str) -> Coordinator:
        """To ask what changes nothing; raises while it is not loaded."""
        return self._hosts.of(group).machine

    # --- settings of one group -------------------------------------------------------------------------------

    async def configure(self, group: str, changes: Mapping[str, str | None]) -> None:
        """Durable when it returns; members hear of it with their next heartbeat."""
        await self._wait(self._ask(group, lambda groups, ticket, now: groups.configure(ticket, group, changes, now)))

    def check_config(self, group: str, changes: Mapping[str, str | None]) -> None:
        """Raises as `configure` would."""
        changed_config(group, self.config(group), changes, self._machine(group).settings)

    def config(self, group: str) -> Mapping[str, str]:
        return self._machine(group).config(group)

    def share_rules(self, group: str) -> ShareRules:
        """How a share group of this name takes records, whether it is there or not."""
        return share_rules(self.config(group))

    def is_share(self, group: str) -> bool:
        """Whether it is a share group; not known while its shard is not loaded."""
        host = self._hosts.of(group)
        return host.is_loaded and host.machine.is_share(group)

    def keeps_order(self, group: str) -> bool:
        """Whether the group's queue consumers get messages of a key in order, whatever the topic says."""
        host = self._hosts.of(group)
        return host.is_loaded and host.machine.config(group).get(ORDER) == "key"

    def takes_uncommitted(self, group: str) -> bool:
        host = self._hosts.of(group)
        return host.is_loaded and takes_uncommitted(host.machine.config(group))

    def rules_of_share(self, group: str) -> ShareRules | None:
        """The rules of a share group; None for any other."""
        return self.share_rules(group) if self.is_share(group) else None

    def has_member(self, group: str, member_id: str) -> bool:
        return member_id in self.member_ids(group)

    def member_ids(self, group: str) -> Collection[str]:
        return self._machine(group).member_ids(group)

    def config_defaults(self) -> dict[str, str]:
        return group_defaults(self._any().settings)

    def configured(self) -> list[str]:
        return sorted(name for host in self._hosts for name in host.machine.configured())

    # --- members over REST -----------------------------------------------------------------------------------

    async def rest_join(self, request: RestJoin) -> RestJoined:
        answer = await self._wait(
            self._ask(request.group, lambda groups, ticket, now: groups.rest_join(ticket, request, now))
        )
        assert isinstance(answer, RestJoined)
        return answer

    async def rest_heartbeat(self, group: str, member_id: str, generation: int) -> RestBeat:
        answer = await self._wait(
            self._ask(
                group,
                lambda groups, ticket, now: groups.rest_heartbeat(ticket, group, member_id, generation, now),
            )
        )
        assert isinstance(answer, RestBeat)
        return answer

    async def rest_revoke(self, group: str, member_id: str, generation: int, partitions: PartList) -> RestBeat:
        answer = await self._wait(
            self._ask(
                group,
                lambda groups, ticket, now: groups.rest_revoke(ticket, group, member_id, generation, partitions, now),
            )
        )
        assert isinstance(answer, RestBeat)
        return answer

    async def rest_leave(self, group: str, member_id: str) -> None:
        await self._wait(self._ask(group, lambda groups, ticket, now: groups.rest_leave(ticket, group, member_id, now)))

    def rest_readable(self, group: str, member_id: str, generation: int) -> PartList:
        """What a REST member may read; raises if it is not known or the generation is not its current one."""
        return self._machine(group).rest_readable(group, member_id, generation)

    # --- waiting for a change --------------------------------------------------------------------------------

    def watch(self, group: str, watcher: asyncio.Future[None]) -> None:
        """The future is done when somebody changes the group. Members that fell silent are seen by heartbeats."""
        self._watchers.setdefault(group, set()).add(watcher)

    def unwatch(self, group: str, watcher: asyncio.Future[None]) -> None:
        watchers = self._watchers.get(group, set())
        watchers.discard(watcher)
        if not watchers:
            self._watchers.pop(group, None)

    def heard(self, records: Iterable[Record]) -> None:
        """The coordinator wrote these: who watches a group that changes is woken."""
        if self._watchers:
            for record in records:
                if isinstance(record, GroupState):
                    for watcher in self._watchers.pop(record.group, ()):
                        if not watcher.done():
                            watcher.set_result(None)

    # --- offsets ---------------------------------------------------------------------------------------------

    def commit(self, request: CommitRequest) -> Answer:
        return self._ask(request.group, lambda groups, ticket, now: groups.commit(ticket, request, now))

    def check_in_transaction(self, request: CommitRequest) -> None:
        """Raises if a transaction may not move the group so."""
        self._machine(request.group).check_in_transaction(request)

    async def commit_settled(self, group: str, offsets: Sequence[OffsetCommit], by: tuple[int, int, Millis]) -> None:
        """Offsets that were checked before, as part of a transaction; a topic that is gone is passed over. `by` and the
        offsets name it. If it asks again, because it did not hear the answer, what others committed since stays."""
        host = self._hosts.of(group)
        settled, name = self._settled.setdefault(host, {}), (host.epoch, group, *by, hash(tuple(offsets)))
        if name in settled:
            return await host.wait_durable()
        question: Question = lambda groups, ticket, now: groups.commit_settled(ticket, group, offsets, now)  # noqa: E731
        settled[name] = None
        if len(settled) > _SETTLED_MAX:
            del settled[next(iter(settled))]
        try:
            await self._wait(self._ask(group, question))
        except GoQueueError:
            settled.pop(name, None)
            raise

    def check_member(self, group: str, member_id: str, epoch: int) -> None:
        """Raises if a member of the server-side protocol asks with a stale epoch."""
        self._machine(group).offsets(group, (), member_id=member_id, epoch=epoch)

    async def commit_all(self, request: CommitRequest) -> list[OffsetResult]:
        """Commits, and answers when that is safe: one result for each offset, in order."""
        answer = await self._wait(self.commit(request))
        assert isinstance(answer, OffsetsReply)
        return answer.results

    def offsets(
        self, group: str, partitions: Sequence[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, OffsetCommitted]:
        """Committed offsets of a group, of these partitions or of all; none if there is no such group."""
        self._before_read()
        return self._machine(group).offsets(group, partitions)

    async def delete_offsets(self, group: str, partitions: Sequence[TopicPartition]) -> list[OffsetResult]:
        answer = await self._wait(
            self._ask(group, lambda groups, ticket, now: groups.delete_offsets(ticket, group, partitions, now))
        )
        assert isinstance(answer, OffsetsReply)
        return answer.results

    async def reset_offsets(self, group: str, offsets: Sequence[OffsetCommit]) -> None:
        """Moves a group without live members; raises otherwise."""
        await self._reset(group, lambda groups, ticket, now: groups.reset_offsets(ticket, group, offsets, now))

    def check_share_reset(self, group: str) -> None:
        """Raises if the group has members or is no share group; it need not be there."""
        self._machine(group).check_share_reset(group)

    async def reset_share_offsets(self, group: str, offsets: Sequence[OffsetCommit]) -> None:
        """The same for a share group, which is made if it is not there."""
        await self._reset(group, lambda groups, ticket, now: groups.reset_share_offsets(ticket, group, offsets, now))

    async def _reset(self, group: str, question: Question) -> None:
        answer = await self._wait(self._ask(group, question))
        assert isinstance(answer, OffsetsReply)
        for one in answer.results:
            if one.error is not None:
                raise one.error

    def move(self, group: str, offsets: Mapping[TopicPartition, Offset]) -> bool:
        """Acks moved the group this far. False if that could not be written; it may be told again at any time."""
        commits = [OffsetCommit(at.topic, at.partition, offset) for at, offset in offsets.items()]
        return self._hosts.of(group).tell(lambda groups, now: groups.move(group, commits, now))

    async def wait_durable(self, group: str) -> None:
        """All that was written of the group so far is safe when it returns."""
        await self._hosts.of(group).wait_durable()

    def lag(self, group: str) -> list[PartitionLag]:
        """Of every partition that the group committed or a member reads; raises if there is no such group.

        Safe to ask from another thread.
        """
        found = self.progress(group)
        return [lag_of(one, *marks) for one in found if (marks := self._marks(one.topic, one.partition)) is not None]

    def progress(self, group: str) -> list[OffsetCommitted]:
        """The same without the ends; at offset -1 where nothing was committed."""
        committed = self.offsets(group)
        reading = {
            TopicPartition(topic, number)
            for member in self.describe(group).members
            for topic, numbers in member.assignment
            for number in numbers
        }
        nothing = {at: OffsetCommitted(group, at.topic, at.partition, -1) for at in reading.difference(committed)}
        found = {**committed, **nothing}
        return [found[at] for at in sorted(found)]

    def _marks(self, name: str, number: int) -> tuple[Offset, Offset] | None:
        topic = self._topics.find(name)
        if topic is None or number >= len(topic.partitions):
            return None
        return topic.partitions[number].start_offset, topic.partitions[number].high_watermark

    # --- groups ----------------------------------------------------------------------------------------------

    def is_loaded(self, group: str) -> bool:
        """False for a moment after records of its shard could not be made durable: then every question raises."""
        return self._hosts.of(group).is_loaded

    def count(self) -> int:
        """Of all shards that are loaded."""
        return sum(host.machine.count() for host in self._hosts if host.is_loaded)

    def list(self) -> list[GroupListing]:
        """By name."""
        found = [one for host in self._hosts for one in host.machine.list_groups()]
        return found if len(self._hosts) == 1 else sorted(found, key=lambda one: one.group)

    def describe(self, group: str) -> GroupDescription:
        return self._machine(group).describe(group)

    def stats(self, group: str) -> RebalanceStats:
        return self._machine(group).stats(group)

    async def delete(self, group: str) -> None:
        await self._wait(self._ask(group, lambda groups, ticket, now: groups.delete_group(ticket, group, now)))

    async def _wait(self, answer: Answer) -> Result:
        result = await answer if isinstance(answer, asyncio.Future) else answer
        if isinstance(result, GoQueueError):
            raise result
        return result
