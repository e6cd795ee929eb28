"""Groups and their offsets."""

from __future__ import annotations

from typing import Final

from goqueue.api.groups import CommitIn, ResetIn
from goqueue.base.errors import InvalidField
from goqueue.base.names import check_name
from goqueue.core.groups.parts import PartList
from goqueue.core.groups.replies import MemberDescription
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.convert import given, made
from goqueue.edge.grpc.errors import brief
from goqueue.service.consume import Consuming
from goqueue.service.front import Front, answer_of
from goqueue.service.groups import Groups, PartitionLag
from goqueue.service.reset import Reset, ResetOffsets
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.Groups"


class GroupMethods:
    def __init__(self, groups: Front[Groups], consuming: Front[Consuming], reset: Front[ResetOffsets]) -> None:
        self._groups = groups
        self._consuming = consuming
        self._reset = reset

    def methods(self) -> list[GrpcMethod]:
        return [
            GrpcMethod(f"{_SERVICE}/ListGroups", pb.ListGroupsRequest, self.list),
            GrpcMethod(f"{_SERVICE}/GetGroup", pb.GetGroupRequest, self.get),
            GrpcMethod(f"{_SERVICE}/DeleteGroup", pb.DeleteGroupRequest, self.delete),
            GrpcMethod(f"{_SERVICE}/GetOffsets", pb.GetOffsetsRequest, self.offsets),
            GrpcMethod(f"{_SERVICE}/CommitOffsets", pb.CommitOffsetsRequest, self.commit),
            GrpcMethod(f"{_SERVICE}/ResetOffsets", pb.ResetOffsetsRequest, self.reset),
        ]

    async def list(self, request: pb.ListGroupsRequest, call: GrpcCall) -> pb.ListGroupsResponse:
        found = await answer_of(self._groups.by(call.caller).list())
        return pb.ListGroupsResponse(groups=[made(pb.GroupSummary, one) for one in found])

    async def get(self, request: pb.GetGroupRequest, call: GrpcCall) -> pb.Group:
        group = _name(request.group)
        found = await answer_of(self._groups.by(call.caller).describe(group))
        lag = await answer_of(self._groups.by(call.caller).lag(group))
        return made(
            pb.Group,
            found,
            group=group,
            members=[_member(one) for one in found.members],
            lag=[_offset(one) for one in lag],
        )

    async def delete(self, request: pb.DeleteGroupRequest, call: GrpcCall) -> pb.DeleteGroupResponse:
        await self._groups.by(call.caller).delete(_name(request.group))
        return pb.DeleteGroupResponse()

    async def offsets(self, request: pb.GetOffsetsRequest, call: GrpcCall) -> pb.GetOffsetsResponse:
        found = await answer_of(self._groups.by(call.caller).lag(_name(request.group)))
        return pb.GetOffsetsResponse(offsets=[_offset(one) for one in found])

    async def commit(self, request: pb.CommitOffsetsRequest, call: GrpcCall) -> pb.CommitOffsetsResponse:
        asked = commit_in(request)
        results = await self._consuming.by(call.caller).commit(asked)
        failed = [(index, one.error) for index, one in enumerate(results) if one.error is not None]
        if len(failed) == len(results):
            raise failed[0][1]
        return pb.CommitOffsetsResponse(
            failures=[pb.CommitFailure(index=index, error=brief(error)) for index, error in failed]
        )

    async def reset(self, request: pb.ResetOffsetsRequest, call: GrpcCall) -> pb.ResetOffsetsResponse:
        group = _name(request.group)
        wanted = given(request, ResetIn, "group", "timestamp_ms")
        number = _number(request)
        command = Reset(group, wanted.topic, wanted.to, wanted.partition, number, wanted.dry_run)
        moved = await self._reset.by(call.caller).reset(command)
        return pb.ResetOffsetsResponse(dry_run=wanted.dry_run, offsets=[made(pb.OffsetMove, one) for one in moved])


def commit_in(request: pb.CommitOffsetsRequest | pb.AddOffsetsRequest) -> CommitRequest:
    group = _name(request.group)
    wanted = given(request, CommitIn, "group", "producer")
    if (wanted.member_id is None) != (wanted.generation is None):
        raise InvalidField("A member commits with both its member_id and its generation.", field="generation")
    offsets = [OffsetCommit(one.topic, one.partition, one.offset, -1, one.metadata) for one in wanted.offsets]
    generation = -1 if wanted.generation is None else wanted.generation
    return CommitRequest(group, wanted.member_id or "", generation, None, offsets)


def _name(group: str) -> str:
    return check_name(group, "group", "group")


def _number(request: pb.ResetOffsetsRequest) -> int:
    """The time or offset that `to` asks for; nothing else may be given."""
    for word, field in (("timestamp", "timestamp_ms"), ("offset", "offset")):
        if request.HasField(field) != (request.to == word):
            raise InvalidField(f"{field} goes with to: {word}, and that with it.", field=field)
    number = request.timestamp_ms or request.offset
    if number < 0:
        raise InvalidField("It is not negative.", field="offset" if request.offset else "timestamp_ms")
    return number


def parts_out(parts: PartList) -> list[pb.TopicPartitions]:
    return [pb.TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in parts]


def _member(one: MemberDescription) -> pb.GroupMember:
    return made(
        pb.GroupMember,
        one,
        host=one.client_host.removeprefix("/"),
        generation=one.epoch,
        assignment=parts_out(one.assignment),
        revoking=parts_out(one.revoking),
    )


def _offset(one: PartitionLag) -> pb.GroupOffset:
    return made(pb.GroupOffset, one, committed=one.committed if one.committed >= 0 else None)
