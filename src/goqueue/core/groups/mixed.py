"""Members that speak the classic protocol in a group of the server-side one (KIP-848).

Their joins are not parked: the coordinator has decided already, and a join is the next step towards the target.
A generation is the member's epoch. A member that has a step to take is told with its heartbeat to join again.
"""

from __future__ import annotations

from msgspec.structs import replace

from goqueue.base.ids import Millis
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.consumer_protocol import ConsumerSubscription, parse_subscription
from goqueue.core.groups.describe import CONSUMERS
from goqueue.core.groups.errors import (
    FencedInstance,
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.core.groups.migration import assignment_of
from goqueue.core.groups.records import ConsumerMember
from goqueue.core.groups.replies import GroupDone, GroupStep, JoinReply, SyncReply
from goqueue.core.groups.requests import HeartbeatRequest, JoinRequest, SyncRequest


def join(group: ConsumerGroup, ticket: int, request: JoinRequest, now: Millis, out: GroupStep) -> None:
    subscription = _subscription(group, request)
    place = None if request.group_instance_id is None else group.static_member(request.group_instance_id)
    if not request.member_id and request.group_instance_id is None and request.requires_member_id:
        raise MemberIdRequired("Join again with the member id given here.", member_id=request.new_member_id)
    if place is not None and request.member_id and place.member_id != request.member_id:
        raise FencedInstance(f"Another process runs as {request.group_instance_id!r} now; stop this one or rename it.")
    member_id = request.member_id or request.new_member_id
    group.check_joiner(member_id, None)
    known = place or group.members.get(member_id)
    if known is not None and known.door != "kafka":
        raise InconsistentProtocol(f"{member_id!r} joined over REST; choose another member id.")
    replaces = None if known is None or known.member_id == member_id else known.member_id
    fresh = _updated(known or ConsumerMember(member_id), member_id, request, subscription)
    shown = 0 if known is None else known.epoch
    member = group.put(fresh, now, out, shown=shown, owned=subscription.owned, replaces=replaces)
    name = request.protocols[0][0]
    out.answer(ticket, JoinReply(member.epoch, CONSUMERS, name, "", member.member_id, False, []))


def _subscription(group: ConsumerGroup, request: JoinRequest) -> ConsumerSubscription:
    found = parse_subscription(request.protocols[0][1]) if request.protocols else None
    if request.protocol_type != CONSUMERS or found is None or group.record.mode == "shared":
        raise InconsistentProtocol(
            f"Group {group.name!r} is assigned by the server; set group.protocol=consumer or use another group."
        )
    return found


def _updated(
    member: ConsumerMember, member_id: str, request: JoinRequest, subscription: ConsumerSubscription
) -> ConsumerMember:
    return replace(
        member,
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=subscription.topics,
        regex=None,
        assignor=None,
        session_ms=request.session_ms,
        rebalance_ms=request.rebalance_ms,
        epoch=max(member.epoch, 0),
        protocols=tuple((name, bytes(metadata)) for name, metadata in request.protocols),
    )


def sync(group: ConsumerGroup, ticket: int, request: SyncRequest, now: Millis, out: GroupStep) -> None:
    member = _known(group, request.member_id, request.group_instance_id, request.generation)
    names = [name for name, _ in member.protocols]
    if request.protocol_type not in (None, CONSUMERS) or (request.protocol_name not in (None, *names)):
        raise InconsistentProtocol(f"The member joined with {names[0]!r}; join again.")
    group.keep_alive(member, now)
    if member.epoch < group.epoch and not member.pending:
        raise RebalanceInProgress("The group is rebalancing; join again.")
    out.answer(ticket, SyncReply(CONSUMERS, request.protocol_name or names[0], assignment_of(member)))


def heartbeat(group: ConsumerGroup, ticket: int, request: HeartbeatRequest, now: Millis, out: GroupStep) -> None:
    member = _known(group, request.member_id, request.group_instance_id, request.generation)
    group.keep_alive(member, now)
    if member.epoch < group.epoch or member.pending or group.can_gain(member):
        group.expect_rejoin(member, now)
        raise RebalanceInProgress("The group is rebalancing; join again.")
    out.answer(ticket, GroupDone())


def _known(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    if instance_id is not None:
        place = group.static_member(instance_id)
        if place is not None and place.member_id != member_id:
            raise FencedInstance(f"Another process runs as {instance_id!r} now; stop this one or rename it.")
    member = group.members.get(member_id)
    if member is None or not member.is_classic:
        raise UnknownMember(f"No such member in group {group.name!r}; join again.")
    if generation != member.epoch:
        raise IllegalGeneration(f"Generation {generation} is not the member's ({member.epoch}); join again.")
    return member
