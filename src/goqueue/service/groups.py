"""Groups: membership, committed offsets, lag. One coordinator behind every door."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.errors import GoQueueError, InvalidGroup
from goqueue.base.ids import Offset, TopicPartition
from goqueue.core.groups.records import OffsetCommitted
from goqueue.core.groups.replies import GroupDescription, GroupListing, OffsetResult, OffsetsReply, Result
from goqueue.core.groups.requests import (
    CommitRequest,
    ConsumerHeartbeat,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    OffsetCommit,
    SyncRequest,
)
from goqueue.drive.group_runner import GroupRunner, Question
from goqueue.service.topics import Topics

Answer = Result | asyncio.Future[Result]


class PartitionLag(msgspec.Struct, frozen=True):
    """How far a group is behind in one partition; `committed` is -1 where it never committed."""

    topic: str
    partition: int
    committed: Offset
    end_offset: Offset
    lag: int


class Groups:
    """The verbs."""

    def __init__(self, runner: GroupRunner, topics: Topics, entropy: Entropy) -> None:
        self._runner = runner
        self._topics = topics
        self._entropy = entropy

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{new_uuid(self._entropy)}"

    # --- members ---------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest) -> Answer:
        return self._ask(request.group, lambda ticket, now: self._runner.coordinator.join(ticket, request, now))

    def sync(self, request: SyncRequest) -> Answer:
        return self._ask(request.group, lambda ticket, now: self._runner.coordinator.sync(ticket, request, now))

    def heartbeat(self, request: HeartbeatRequest) -> Answer:
        return self._ask(request.group, lambda ticket, now: self._runner.coordinator.heartbeat(ticket, request, now))

    def leave(self, request: LeaveRequest) -> Answer:
        return self._ask(request.group, lambda ticket, now: self._runner.coordinator.leave(ticket, request, now))

    def consumer_heartbeat(self, request: ConsumerHeartbeat) -> Answer:
        return self._ask(
            request.group, lambda ticket, now: self._runner.coordinator.consumer_heartbeat(ticket, request, now)
        )

    def _ask(self, group: str, question: Question) -> Answer:
        if not group:
            return InvalidGroup("The group has no name; give it one.", field="group")
        return self._runner.ask(question)

    # --- offsets ---------------------------------------------------------------------------------------------

    def commit(self, request: CommitRequest) -> Answer:
        return self._ask(request.group, lambda ticket, now: self._runner.coordinator.commit(ticket, request, now))

    def check_member(self, group: str, member_id: str, epoch: int) -> None:
        """Complains if a member of the server-side protocol asks with a stale epoch."""
        self._runner.coordinator.offsets(group, (), member_id=member_id, epoch=epoch)

    def offsets(self, group: str) -> Mapping[TopicPartition, OffsetCommitted]:
        """All committed offsets of a group; none if there is no such group."""
        return self._runner.coordinator.offsets(group)

    async def delete_offsets(self, group: str, partitions: Sequence[TopicPartition]) -> list[OffsetResult]:
        answer = await self._wait(
            self._ask(
                group, lambda ticket, now: self._runner.coordinator.delete_offsets(ticket, group, partitions, now)
            )
        )
        assert isinstance(answer, OffsetsReply)
        return answer.results

    async def reset_offsets(self, group: str, offsets: Sequence[OffsetCommit]) -> None:
        """Moves a group without live members; complains otherwise."""
        answer = await self._wait(
            self._ask(group, lambda ticket, now: self._runner.coordinator.reset_offsets(ticket, group, offsets, now))
        )
        assert isinstance(answer, OffsetsReply)
        for one in answer.results:
            if one.error is not None:
                raise one.error

    def lag(self, group: str) -> list[PartitionLag]:
        """Of every partition that the group committed."""
        found: list[PartitionLag] = []
        for at, committed in sorted(self.offsets(group).items()):
            topic = self._topics.find(at.topic)
            if topic is not None and at.partition < len(topic.partitions):
                end = topic.partitions[at.partition].state.high_watermark
                behind = max(0, end - committed.offset)
                found.append(PartitionLag(at.topic, at.partition, committed.offset, end, behind))
        return found

    # --- groups ----------------------------------------------------------------------------------------------

    def list(self) -> list[GroupListing]:
        return self._runner.coordinator.list_groups()

    def describe(self, group: str) -> GroupDescription:
        return self._runner.coordinator.describe(group)

    async def delete(self, group: str) -> None:
        await self._wait(
            self._ask(group, lambda ticket, now: self._runner.coordinator.delete_group(ticket, group, now))
        )

    async def _wait(self, answer: Answer) -> Result:
        result = await answer if isinstance(answer, asyncio.Future) else answer
        if isinstance(result, GoQueueError):
            raise result
        return result
