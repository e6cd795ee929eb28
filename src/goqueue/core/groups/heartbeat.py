"""The server-side protocol (KIP-848): one request to join, to stay, to give back and to leave."""

from __future__ import annotations

from msgspec.structs import replace

from goqueue.base.errors import GoQueueError, InvalidField
from goqueue.base.ids import Millis
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.errors import (
    FencedInstance,
    FencedMemberEpoch,
    InconsistentProtocol,
    UnknownMember,
    UnreleasedInstance,
)
from goqueue.core.groups.parts import Parts, listed, make, minus
from goqueue.core.groups.records import LEFT_STATIC, ConsumerMember
from goqueue.core.groups.replies import ConsumerHeartbeatReply, GroupStep, LeaveReply
from goqueue.core.groups.requests import JOIN, LEAVE, LEAVE_STATIC, ConsumerHeartbeat, LeaveRequest
from goqueue.core.groups.subscription import check_pattern


def beat(group: ConsumerGroup, ticket: int, request: ConsumerHeartbeat, now: Millis, out: GroupStep) -> None:
    """One heartbeat of a Kafka consumer."""
    if request.member_epoch in (LEAVE, LEAVE_STATIC):
        out.answer(ticket, _leave(group, request, now, out))
    elif request.member_epoch == JOIN:
        out.answer(ticket, _join(group, request, now, out))
    elif request.member_epoch > 0:
        out.answer(ticket, _stay(group, request, now, out))
    else:
        raise InvalidField(
            "A member epoch is 0 to join, -1 or -2 to leave, or the one last told.", field="member_epoch"
        )


def _join(group: ConsumerGroup, request: ConsumerHeartbeat, now: Millis, out: GroupStep) -> ConsumerHeartbeatReply:
    """A new member, a static one back in its place, or one that starts over and so holds nothing."""
    if request.subscribed_topics is None and not request.subscribed_regex:
        raise InvalidField("Name topics or a pattern to join.", field="subscribed_topics")
    if not request.member_id:
        raise InvalidField("Choose a member id to join.", field="member_id")
    if group.members and group.record.mode == "shared":
        raise InconsistentProtocol("The group shares its partitions; use another group or wait until it is empty.")
    _check_words(group, request)
    place = None if request.instance_id is None else group.static_member(request.instance_id)
    if place is not None and place.member_id != request.member_id:
        if place.epoch != LEFT_STATIC and not place.is_classic:
            raise UnreleasedInstance(f"A live member runs as {request.instance_id!r}; stop it or choose another name.")
        fresh = replace(place, member_id=request.member_id, epoch=0, previous_epoch=0)
        member = group.put(_updated(group, fresh, request), now, out, owned={}, replaces=place.member_id)
    else:
        known = group.members.get(request.member_id) or ConsumerMember(request.member_id)
        if known.door != "kafka":
            raise InconsistentProtocol(f"{known.member_id!r} joined over REST; choose another member id.")
        fresh = replace(known, epoch=0, previous_epoch=0, assigned={}, pending={})
        member = group.put(_updated(group, fresh, request), now, out)
    return _reply(group, member, member.assigned)


def _stay(group: ConsumerGroup, request: ConsumerHeartbeat, now: Millis, out: GroupStep) -> ConsumerHeartbeatReply:
    before = _known(group, request)
    owned = None if request.owned is None else make(request.owned)
    _check_epoch(before, request.member_epoch, owned)
    _check_words(group, request)
    member = group.put(_updated(group, before, request), now, out, shown=request.member_epoch, owned=owned)
    news = owned is not None or bool(member.pending) or member.assigned != before.assigned
    return _reply(group, member, member.assigned if news else None)


def _leave(group: ConsumerGroup, request: ConsumerHeartbeat, now: Millis, out: GroupStep) -> ConsumerHeartbeatReply:
    member = _known(group, request)
    if request.member_epoch == LEAVE_STATIC and member.instance_id is not None:
        group.leave_static(member, now, out)
    else:
        group.remove(member.member_id, now, out)
    return ConsumerHeartbeatReply(member.member_id, request.member_epoch, group.settings.heartbeat_ms)


def leave(group: ConsumerGroup, ticket: int, request: LeaveRequest, now: Millis, out: GroupStep) -> None:
    """An administrator removes members, by their ids or by their places."""
    results: list[tuple[str, str | None, GoQueueError | None]] = []
    for member_id, instance_id in request.members:
        error: GoQueueError | None = None
        place = group.static_member(instance_id) if instance_id is not None else group.members.get(member_id)
        if place is None or place.door != "kafka":
            error = UnknownMember(f"No member {instance_id or member_id!r} in the group.")
        elif member_id and place.member_id != member_id:
            error = FencedInstance(f"Another process runs as {instance_id!r} now.")
        else:
            group.remove(place.member_id, now, out)
        results.append((member_id, instance_id, error))
    out.answer(ticket, LeaveReply(results))


def _known(group: ConsumerGroup, request: ConsumerHeartbeat) -> ConsumerMember:
    if request.instance_id is not None:
        place = group.static_member(request.instance_id)
        if place is None:
            raise UnknownMember(f"No static member {request.instance_id!r} in the group; join again.")
        if place.member_id != request.member_id:
            raise FencedInstance(f"Another process runs as {request.instance_id!r} now; stop this one or rename it.")
    member = group.member(request.member_id)
    if member.door != "kafka":
        raise UnknownMember(f"{request.member_id!r} joined over REST; join with a member id of your own.")
    if member.is_classic:
        raise UnknownMember(f"{request.member_id!r} speaks the classic protocol; join with epoch 0.")
    return member


def _check_epoch(member: ConsumerMember, epoch: int, owned: Parts | None) -> None:
    """The current epoch, or the one before from a member that missed an answer and holds nothing it lost since."""
    if epoch == member.epoch:
        return
    missed_one = epoch == member.previous_epoch and owned is not None and not minus(owned, member.assigned)
    if not missed_one:
        raise FencedMemberEpoch(f"Epoch {epoch} is not the member's ({member.epoch}); drop all partitions and rejoin.")


def _check_words(group: ConsumerGroup, request: ConsumerHeartbeat) -> None:
    if request.server_assignor == "":
        raise InvalidField("An assignor has a name; leave it out for the default.", field="server_assignor")
    group.check_joiner(request.member_id, request.server_assignor)
    if request.subscribed_regex:
        check_pattern(request.subscribed_regex, group.members.values())


def _updated(group: ConsumerGroup, member: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """The member with whatever the request changes."""
    topics = request.subscribed_topics
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack=member.rack if request.rack is None else request.rack,
        topics=member.topics if topics is None else tuple(sorted(set(topics))),
        regex=member.regex if request.subscribed_regex is None else request.subscribed_regex,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        rebalance_ms=member.rebalance_ms if request.rebalance_ms is None else request.rebalance_ms,
        session_ms=group.settings.session_ms,
        client_id=request.client_id or member.client_id,
        client_host=request.client_host or member.client_host,
        protocols=(),
    )


def _reply(group: ConsumerGroup, member: ConsumerMember, parts: Parts | None) -> ConsumerHeartbeatReply:
    assignment = None if parts is None else listed(parts)
    return ConsumerHeartbeatReply(member.member_id, member.epoch, group.settings.heartbeat_ms, assignment)
