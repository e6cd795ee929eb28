"""Group membership for Kafka clients: the classic protocol and the server-side one (KIP-848)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from goqueue.base.commands import Caller
from goqueue.base.errors import AccessDenied, GoQueueError
from goqueue.base.limits import MEMBER_BYTES_MAX, MEMBER_PROTOCOLS_MAX
from goqueue.core.groups.errors import InconsistentProtocol, UnknownGroup
from goqueue.core.groups.parts import PartList
from goqueue.core.groups.replies import (
    ConsumerHeartbeatReply,
    GroupDescription,
    JoinReply,
    LeaveReply,
    MemberDescription,
    Result,
    SyncReply,
)
from goqueue.core.groups.requests import (
    LEAVE_STATIC,
    ConsumerHeartbeat,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    SyncRequest,
)
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import coordinator_code
from goqueue.edge.kafka.names import TopicNames
from goqueue.edge.kafka.operations import Rights
from goqueue.service.front import Front
from goqueue.service.groups import Groups
from goqueue.wire.codes import INVALID_REQUEST, NONE
from goqueue.wire.messages import consumer_group_describe as described
from goqueue.wire.messages import consumer_group_heartbeat as beats
from goqueue.wire.messages import delete_groups as deleting
from goqueue.wire.messages import describe_groups as describing
from goqueue.wire.messages import heartbeat as hearts
from goqueue.wire.messages import join_group as joining
from goqueue.wire.messages import leave_group as leaving
from goqueue.wire.messages import list_groups as listing
from goqueue.wire.messages import sync_group as syncing

T = TypeVar("T")
_DEAD = "Dead"


def when_known(ask: Callable[[], Result | asyncio.Future[Result]], build: Callable[[Result], T]) -> T | Awaitable[T]:
    """The response of a result that is there, or that will be. A caller that may not ask is told so in the same way."""
    try:
        result = ask()
    except AccessDenied as error:
        return build(error)
    if not isinstance(result, asyncio.Future):
        return build(result)

    async def later() -> T:
        return build(await result)

    return later()


def beaten(
    result: Result,
    names: TopicNames,
    response: Callable[..., T],
    assign: Callable[[list[tuple[bytes, list[int]]]], object],
) -> T:
    """The response to a heartbeat; `assign` makes its assignment of topics' ids and partitions."""
    if isinstance(result, GoQueueError):
        return response(error_code=coordinator_code(result), error_message=result.message)
    assert isinstance(result, ConsumerHeartbeatReply)
    given = result.assignment
    return response(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_ms,
        assignment=None if given is None else assign([(names.id_of(topic), list(some)) for topic, some in given]),
    )


class GroupHandler:
    def __init__(self, groups: Front[Groups], names: TopicNames, rights: Rights) -> None:
        self._rights = rights
        self._groups = groups
        self._names = names

    # --- classic ---------------------------------------------------------------------------------------------

    def join(
        self, call: KafkaCall, request: joining.JoinGroupRequest
    ) -> joining.JoinGroupResponse | Awaitable[joining.JoinGroupResponse]:
        sizes = [len(one.name) + len(one.metadata) for one in request.protocols]
        if len(sizes) > MEMBER_PROTOCOLS_MAX or sum(sizes) > MEMBER_BYTES_MAX:
            return joining.JoinGroupResponse(
                error_code=INVALID_REQUEST, generation_id=-1, protocol_name="", member_id=request.member_id
            )
        asked = JoinRequest(
            group=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            client_id=call.client_id,
            client_host=f"/{call.client_host}",
            protocol_type=request.protocol_type,
            protocols=[(one.name, bytes(one.metadata)) for one in request.protocols],
            session_ms=request.session_timeout_ms,
            rebalance_ms=request.rebalance_timeout_ms if call.version >= 1 else request.session_timeout_ms,
            requires_member_id=call.version >= 4,
            supports_skipping_assignment=call.version >= 9,
            new_member_id=self._groups.by(call.caller).new_member_id(request.group_instance_id or call.client_id),
            reason=request.reason or "",
        )
        return when_known(
            lambda: self._groups.by(call.caller).join(asked),
            lambda result: _joined(asked.member_id, call.version, result),
        )

    def sync(
        self, call: KafkaCall, request: syncing.SyncGroupRequest
    ) -> syncing.SyncGroupResponse | Awaitable[syncing.SyncGroupResponse]:
        if call.version >= 5 and None in (request.protocol_type, request.protocol_name):
            return _synced(InconsistentProtocol("A sync names the protocol's type and name."))
        asked = SyncRequest(
            group=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation=request.generation_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments=[(one.member_id, bytes(one.assignment)) for one in request.assignments],
        )
        return when_known(lambda: self._groups.by(call.caller).sync(asked), _synced)

    def heartbeat(
        self, call: KafkaCall, request: hearts.HeartbeatRequest
    ) -> hearts.HeartbeatResponse | Awaitable[hearts.HeartbeatResponse]:
        asked = HeartbeatRequest(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
        return when_known(
            lambda: self._groups.by(call.caller).heartbeat(asked),
            lambda result: hearts.HeartbeatResponse(error_code=_code(result)),
        )

    def leave(
        self, call: KafkaCall, request: leaving.LeaveGroupRequest
    ) -> leaving.LeaveGroupResponse | Awaitable[leaving.LeaveGroupResponse]:
        if call.version < 3:
            members: list[tuple[str, str | None]] = [(request.member_id, None)]
        else:
            members = [(one.member_id, one.group_instance_id) for one in request.members]
        asked = LeaveRequest(request.group_id, members)
        return when_known(lambda: self._groups.by(call.caller).leave(asked), lambda result: _left(call.version, result))

    # --- the server-side protocol ------------------------------------------------------------------------------

    def consumer_heartbeat(
        self, call: KafkaCall, request: beats.ConsumerGroupHeartbeatRequest
    ) -> beats.ConsumerGroupHeartbeatResponse | Awaitable[beats.ConsumerGroupHeartbeatResponse]:
        if not request.group_id or (call.version >= 1 and not request.member_id):
            return beats.ConsumerGroupHeartbeatResponse(
                error_code=INVALID_REQUEST, error_message="The group and the member need a name."
            )
        if request.member_epoch == LEAVE_STATIC and request.instance_id is None:
            return beats.ConsumerGroupHeartbeatResponse(
                error_code=INVALID_REQUEST, error_message="A static member that leaves for a while names its instance."
            )
        owned = None
        if request.topic_partitions is not None:
            named = [(self._names.by_id(one.topic_id, call.caller), one.partitions) for one in request.topic_partitions]
            owned = [(name, list(numbers)) for name, numbers in named if name is not None]
        subscribed = request.subscribed_topic_names
        asked = ConsumerHeartbeat(
            group=request.group_id,
            member_id=request.member_id or self._groups.by(call.caller).new_member_id(call.client_id),
            member_epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack=request.rack_id,
            rebalance_ms=None if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms,
            subscribed_topics=None if subscribed is None else list(subscribed),
            subscribed_regex=request.subscribed_topic_regex,
            server_assignor=request.server_assignor,
            owned=owned,
            client_id=call.client_id,
            client_host=f"/{call.client_host}",
        )
        if asked.subscribed_regex:
            return self._beat_with_pattern(call.caller, asked, asked.subscribed_regex)
        return when_known(lambda: self._groups.by(call.caller).consumer_heartbeat(asked), self._beaten)

    async def _beat_with_pattern(
        self, caller: Caller, asked: ConsumerHeartbeat, pattern: str
    ) -> beats.ConsumerGroupHeartbeatResponse:
        try:
            await self._groups.by(caller).resolve_pattern(pattern)
        except GoQueueError as error:
            return self._beaten(error)
        answer = when_known(lambda: self._groups.by(caller).consumer_heartbeat(asked), self._beaten)
        return await answer if isinstance(answer, Awaitable) else answer

    def _beaten(self, result: Result) -> beats.ConsumerGroupHeartbeatResponse:
        return beaten(result, self._names, beats.ConsumerGroupHeartbeatResponse, _assigned)

    def consumer_describe(
        self, call: KafkaCall, request: described.ConsumerGroupDescribeRequest
    ) -> described.ConsumerGroupDescribeResponse:
        is_asked = request.include_authorized_operations
        return described.ConsumerGroupDescribeResponse(
            groups=[self._consumer_group(call.caller, one, is_asked) for one in dict.fromkeys(request.group_ids)]
        )

    def _consumer_group(self, caller: Caller, group: str, is_asked: bool) -> described.DescribedGroup:
        try:
            found = self._groups.by(caller).describe(group)
            if found.kind != "consumer":
                raise UnknownGroup(f"{group} is not a group of the server-side protocol.")
        except GoQueueError as error:
            return described.DescribedGroup(
                group_id=group, group_state=_DEAD, error_code=coordinator_code(error), error_message=error.message
            )
        return described.DescribedGroup(
            group_id=group,
            group_state=found.state,
            group_epoch=found.generation,
            assignment_epoch=found.generation,
            assignor_name=found.protocol,
            members=[self._consumer_member(one) for one in found.members],
            authorized_operations=self._rights.group(caller, group, is_asked),
        )

    def _consumer_member(self, member: MemberDescription) -> described.Member:
        return described.Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.topics,
            subscribed_topic_regex=member.regex,
            assignment=self._parts(member.assignment),
            target_assignment=self._parts(member.target),
            member_type=0 if member.is_classic else 1,
        )

    def _parts(self, parts: PartList) -> described.Assignment:
        return described.Assignment(
            topic_partitions=[
                described.TopicPartitions(topic_id=self._names.id_of(topic), topic_name=topic, partitions=numbers)
                for topic, numbers in parts
            ]
        )

    # --- looking -----------------------------------------------------------------------------------------------

    def describe(self, call: KafkaCall, request: describing.DescribeGroupsRequest) -> describing.DescribeGroupsResponse:
        is_asked = request.include_authorized_operations
        return describing.DescribeGroupsResponse(
            groups=[self._classic_group(call, one, is_asked) for one in dict.fromkeys(request.groups)]
        )

    def _classic_group(self, call: KafkaCall, group: str, is_asked: bool) -> describing.DescribedGroup:
        try:
            found = self._groups.by(call.caller).describe(group)
            if found.kind != "classic":
                raise UnknownGroup(f"{group} is a group of the server-side protocol.")
        except GoQueueError as error:
            # Older versions know no such error: a group that is not there is dead.
            code = NONE if call.version < 6 and isinstance(error, UnknownGroup) else coordinator_code(error)
            return describing.DescribedGroup(
                group_id=group, group_state=_DEAD, error_code=code, error_message=error.message
            )
        return _classic(found, self._rights.group(call.caller, group, is_asked))

    def list(self, call: KafkaCall, request: listing.ListGroupsRequest) -> listing.ListGroupsResponse:
        states = {state.lower() for state in request.states_filter}
        kinds = {kind.lower() for kind in request.types_filter}
        try:
            groups = self._groups.by(call.caller).list()
        except GoQueueError as error:
            return listing.ListGroupsResponse(error_code=coordinator_code(error))
        found = [
            listing.ListedGroup(
                group_id=one.group, protocol_type=one.protocol_type, group_state=one.state, group_type=one.kind
            )
            for one in groups
            if (not states or one.state.lower() in states) and (not kinds or one.kind in kinds)
        ]
        return listing.ListGroupsResponse(groups=found)

    async def delete(self, call: KafkaCall, request: deleting.DeleteGroupsRequest) -> deleting.DeleteGroupsResponse:
        results: list[deleting.DeletableGroupResult] = []
        for group in request.groups_names:
            try:
                if not group:
                    raise UnknownGroup("No group is without a name.")
                await self._groups.by(call.caller).delete(group)
                code = NONE
            except GoQueueError as error:
                code = coordinator_code(error)
            results.append(deleting.DeletableGroupResult(group_id=group, error_code=code))
        return deleting.DeleteGroupsResponse(results=results)


def _code(result: Result) -> int:
    return coordinator_code(result) if isinstance(result, GoQueueError) else NONE


def _joined(member_id: str, version: int, result: Result) -> joining.JoinGroupResponse:
    if isinstance(result, GoQueueError):
        given = result.detail.get("member_id", member_id)
        name = None if version >= 7 else ""
        return joining.JoinGroupResponse(
            error_code=coordinator_code(result), generation_id=-1, protocol_name=name, member_id=str(given)
        )
    assert isinstance(result, JoinReply)
    return joining.JoinGroupResponse(
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            joining.JoinGroupResponseMember(
                member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata
            )
            for one in result.members
        ],
    )


def _synced(result: Result) -> syncing.SyncGroupResponse:
    if isinstance(result, GoQueueError):
        return syncing.SyncGroupResponse(error_code=coordinator_code(result))
    assert isinstance(result, SyncReply)
    return syncing.SyncGroupResponse(
        protocol_type=result.protocol_type, protocol_name=result.protocol_name, assignment=result.assignment
    )


def _left(version: int, result: Result) -> leaving.LeaveGroupResponse:
    if isinstance(result, GoQueueError):
        return leaving.LeaveGroupResponse(error_code=coordinator_code(result))
    assert isinstance(result, LeaveReply)
    members = [
        leaving.MemberResponse(
            member_id=member_id,
            group_instance_id=instance_id,
            error_code=NONE if error is None else coordinator_code(error),
        )
        for member_id, instance_id, error in result.members
    ]
    if version < 3:
        return leaving.LeaveGroupResponse(error_code=members[0].error_code if members else NONE)
    return leaving.LeaveGroupResponse(members=members)


def _classic(found: GroupDescription, allowed: int) -> describing.DescribedGroup:
    return describing.DescribedGroup(
        group_id=found.group,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        authorized_operations=allowed,
        members=[
            describing.DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment_bytes,
            )
            for one in found.members
        ],
    )


def _assigned(parts: list[tuple[bytes, list[int]]]) -> beats.Assignment:
    return beats.Assignment(topic_partitions=[beats.TopicPartitions(*one) for one in parts])
