"""Share groups for Kafka clients (KIP-932): their members, and where the groups stand."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from goqueue.base.access import AclOperation, ResourceKind
from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError, UnknownPartition, UnknownTopic
from goqueue.base.ids import TopicPartition
from goqueue.core.groups.errors import UnknownGroup
from goqueue.core.groups.replies import MemberDescription, Result
from goqueue.core.groups.requests import ShareHeartbeat
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import coordinator_code
from goqueue.edge.kafka.groups import beaten, when_known
from goqueue.edge.kafka.names import NO_ID, TopicNames
from goqueue.edge.kafka.operations import Rights
from goqueue.service.front import Front
from goqueue.service.groups import Groups
from goqueue.service.share_offsets import ShareOffsets
from goqueue.wire.codes import INVALID_REQUEST, NONE
from goqueue.wire.messages import alter_share_group_offsets as altering
from goqueue.wire.messages import delete_share_group_offsets as deleting
from goqueue.wire.messages import describe_share_group_offsets as looking
from goqueue.wire.messages import share_group_describe as described
from goqueue.wire.messages import share_group_heartbeat as beats


class ShareGroupHandler:
    def __init__(self, groups: Front[Groups], offsets: Front[ShareOffsets], names: TopicNames, rights: Rights) -> None:
        self._rights = rights
        self._groups = groups
        self._offsets = offsets
        self._names = names

    # --- members ---------------------------------------------------------------------------------------------

    def heartbeat(
        self, call: KafkaCall, request: beats.ShareGroupHeartbeatRequest
    ) -> beats.ShareGroupHeartbeatResponse | Awaitable[beats.ShareGroupHeartbeatResponse]:
        if not request.group_id or not request.member_id:
            return beats.ShareGroupHeartbeatResponse(
                error_code=INVALID_REQUEST, error_message="The group and the member need a name."
            )
        subscribed = request.subscribed_topic_names
        asked = ShareHeartbeat(
            group=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            rack=request.rack_id,
            subscribed_topics=None if subscribed is None else list(subscribed),
            client_id=call.client_id,
            client_host=f"/{call.client_host}",
        )
        return when_known(lambda: self._groups.by(call.caller).share_heartbeat(asked), self._beaten)

    def _beaten(self, result: Result) -> beats.ShareGroupHeartbeatResponse:
        return beaten(result, self._names, beats.ShareGroupHeartbeatResponse, _assigned)

    def describe(
        self, call: KafkaCall, request: described.ShareGroupDescribeRequest
    ) -> described.ShareGroupDescribeResponse:
        is_asked = request.include_authorized_operations
        return described.ShareGroupDescribeResponse(
            groups=[self._described(call.caller, one, is_asked) for one in dict.fromkeys(request.group_ids)]
        )

    def _described(self, caller: Caller, group: str, is_asked: bool) -> described.DescribedGroup:
        try:
            found = self._groups.by(caller).describe(group)
            if found.kind != "share":
                raise UnknownGroup(f"{group} is not a share group.")
        except GoQueueError as error:
            return described.DescribedGroup(
                group_id=group, error_code=coordinator_code(error), error_message=error.message
            )
        return described.DescribedGroup(
            group_id=group,
            group_state="Stable" if found.members else "Empty",
            group_epoch=found.generation,
            assignment_epoch=found.generation,
            assignor_name=found.protocol,
            members=[self._member(one) for one in found.members],
            authorized_operations=self._rights.group(caller, group, is_asked),
        )

    def _member(self, member: MemberDescription) -> described.Member:
        parts = [
            described.TopicPartitions(self._names.id_of(topic), topic, numbers) for topic, numbers in member.assignment
        ]
        return described.Member(
            member_id=member.member_id,
            rack_id=member.rack,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.topics,
            assignment=described.Assignment(topic_partitions=parts),
        )

    def _id_of(self, caller: Caller, name: str) -> bytes:
        """Of a topic that the caller may not see there is none."""
        sees = self._rights.allows(caller, AclOperation.DESCRIBE, ResourceKind.TOPIC, name)
        return self._names.id_of(name) if sees else NO_ID

    # --- where they stand --------------------------------------------------------------------------------------

    async def describe_offsets(
        self, call: KafkaCall, request: looking.DescribeShareGroupOffsetsRequest
    ) -> looking.DescribeShareGroupOffsetsResponse:
        return looking.DescribeShareGroupOffsetsResponse(
            groups=[await self._starts(call.caller, one) for one in request.groups]
        )

    async def _starts(
        self, caller: Caller, asked: looking.DescribeShareGroupOffsetsRequestGroup
    ) -> looking.DescribeShareGroupOffsetsResponseGroup:
        group = asked.group_id
        try:
            places: Iterable[TopicPartition] = await self._offsets.by(caller).known(group)
        except GoQueueError as error:
            return looking.DescribeShareGroupOffsetsResponseGroup(
                group_id=group, error_code=coordinator_code(error), error_message=error.message
            )
        if asked.topics is not None:
            places = [TopicPartition(one.topic_name, number) for one in asked.topics for number in one.partitions]
        topics: dict[str, list[looking.DescribeShareGroupOffsetsResponsePartition]] = {}
        for at in places:
            topics.setdefault(at.topic, []).append(await self._start(caller, group, at))
        return looking.DescribeShareGroupOffsetsResponseGroup(
            group_id=group,
            topics=[
                looking.DescribeShareGroupOffsetsResponseTopic(name, self._id_of(caller, name), parts)
                for name, parts in topics.items()
            ],
        )

    async def _start(
        self, caller: Caller, group: str, at: TopicPartition
    ) -> looking.DescribeShareGroupOffsetsResponsePartition:
        try:
            found = await self._offsets.by(caller).start(group, at)
        except (UnknownTopic, UnknownPartition):
            # To Kafka's clients this is a place without an offset, as for OffsetFetch.
            return looking.DescribeShareGroupOffsetsResponsePartition(partition_index=at.partition, start_offset=-1)
        except GoQueueError as error:
            return looking.DescribeShareGroupOffsetsResponsePartition(
                partition_index=at.partition,
                start_offset=-1,
                error_code=coordinator_code(error),
                error_message=error.message,
            )
        return looking.DescribeShareGroupOffsetsResponsePartition(
            partition_index=at.partition, start_offset=found.start, leader_epoch=found.leader_epoch, lag=found.lag
        )

    async def alter_offsets(
        self, call: KafkaCall, request: altering.AlterShareGroupOffsetsRequest
    ) -> altering.AlterShareGroupOffsetsResponse:
        offsets, group = self._offsets.by(call.caller), request.group_id
        try:
            offsets.check_reset(group)
        except GoQueueError as error:
            return altering.AlterShareGroupOffsetsResponse(
                error_code=coordinator_code(error), error_message=error.message
            )
        topics: list[altering.AlterShareGroupOffsetsResponseTopic] = []
        for topic in request.topics:
            parts = [await self._altered(call.caller, group, topic.topic_name, one) for one in topic.partitions]
            name = topic.topic_name
            topics.append(altering.AlterShareGroupOffsetsResponseTopic(name, self._id_of(call.caller, name), parts))
        return altering.AlterShareGroupOffsetsResponse(responses=topics)

    async def _altered(
        self, caller: Caller, group: str, topic: str, one: altering.AlterShareGroupOffsetsRequestPartition
    ) -> altering.AlterShareGroupOffsetsResponsePartition:
        code, message = NONE, None
        try:
            at = TopicPartition(topic, one.partition_index)
            await self._offsets.by(caller).alter(group, {at: one.start_offset})
        except GoQueueError as error:
            code, message = coordinator_code(error), error.message
        return altering.AlterShareGroupOffsetsResponsePartition(one.partition_index, code, message)

    async def delete_offsets(
        self, call: KafkaCall, request: deleting.DeleteShareGroupOffsetsRequest
    ) -> deleting.DeleteShareGroupOffsetsResponse:
        offsets, group = self._offsets.by(call.caller), request.group_id
        try:
            offsets.check_empty(group)
        except GoQueueError as error:
            return deleting.DeleteShareGroupOffsetsResponse(
                error_code=coordinator_code(error), error_message=error.message
            )
        topics: list[deleting.DeleteShareGroupOffsetsResponseTopic] = []
        for topic in request.topics:
            code, message = NONE, None
            try:
                await offsets.delete(group, [topic.topic_name])
            except GoQueueError as error:
                code, message = coordinator_code(error), error.message
            topic_id = self._id_of(call.caller, topic.topic_name)
            topics.append(deleting.DeleteShareGroupOffsetsResponseTopic(topic.topic_name, topic_id, code, message))
        return deleting.DeleteShareGroupOffsetsResponse(responses=topics)


def _assigned(parts: list[tuple[bytes, list[int]]]) -> beats.Assignment:
    return beats.Assignment([beats.TopicPartitions(*one) for one in parts])
