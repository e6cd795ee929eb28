"""Share groups (KIP-932): one request to join, to stay and to leave. Every member may take from every partition."""

from __future__ import annotations

from msgspec.structs import replace

from goqueue.base.errors import InvalidField
from goqueue.base.ids import Millis
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.errors import FencedMemberEpoch, InconsistentProtocol, UnknownMember
from goqueue.core.groups.parts import Parts, listed
from goqueue.core.groups.records import ConsumerMember
from goqueue.core.groups.replies import ConsumerHeartbeatReply, GroupStep
from goqueue.core.groups.requests import JOIN, LEAVE, ShareHeartbeat


def beat(group: ConsumerGroup, ticket: int, request: ShareHeartbeat, now: Millis, out: GroupStep) -> None:
    """One heartbeat of a share consumer."""
    if request.member_epoch == LEAVE:
        member = _known(group, request.member_id)
        group.remove(member.member_id, now, out)
        out.answer(ticket, ConsumerHeartbeatReply(member.member_id, LEAVE, _heartbeat_ms(group)))
    elif request.member_epoch == JOIN:
        out.answer(ticket, _join(group, request, now, out))
    elif request.member_epoch > 0:
        out.answer(ticket, _stay(group, request, now, out))
    else:
        raise InvalidField("A member epoch is 0 to join, -1 to leave, or the one last told.", field="member_epoch")


def _join(group: ConsumerGroup, request: ShareHeartbeat, now: Millis, out: GroupStep) -> ConsumerHeartbeatReply:
    """A new member, or one that starts over."""
    if not request.subscribed_topics:
        raise InvalidField("Name topics to join.", field="subscribed_topics")
    if not request.member_id:
        raise InvalidField("Choose a member id to join.", field="member_id")
    if group.members and group.record.mode != "shared":
        raise InconsistentProtocol("The group deals its partitions out; use another group or wait until it is empty.")
    group.check_joiner(request.member_id, None)
    known = group.members.get(request.member_id) or ConsumerMember(request.member_id, door="share")
    if known.door != "share":
        raise InconsistentProtocol(f"{known.member_id!r} joined over REST; choose another member id.")
    fresh = replace(known, epoch=0, previous_epoch=0, assigned={}, pending={})
    member = group.put(_updated(group, fresh, request), now, out, owned={}, mode="shared")
    return _reply(group, member, member.assigned)


def _stay(group: ConsumerGroup, request: ShareHeartbeat, now: Millis, out: GroupStep) -> ConsumerHeartbeatReply:
    before, epoch = _known(group, request.member_id), request.member_epoch
    if epoch not in (before.epoch, before.previous_epoch):
        raise FencedMemberEpoch(f"Epoch {epoch} is not the member's ({before.epoch}); join again.")
    # Nothing is given back: a partition that is no longer assigned is simply read no more.
    member = group.put(_updated(group, before, request), now, out, shown=epoch, owned={})
    news = epoch != member.epoch or member.assigned != before.assigned
    return _reply(group, member, member.assigned if news else None)


def _known(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.member(member_id)
    if member.door != "share":
        raise UnknownMember(f"{member_id!r} is no member of a share group; join with a member id of your own.")
    return member


def _updated(group: ConsumerGroup, member: ConsumerMember, request: ShareHeartbeat) -> ConsumerMember:
    """The member with whatever the request changes."""
    topics, settings = request.subscribed_topics, group.settings
    return replace(
        member,
        rack=member.rack if request.rack is None else request.rack,
        topics=member.topics if topics is None else tuple(sorted(set(topics))),
        session_ms=settings.session_ms if settings.share_session_ms is None else settings.share_session_ms,
        client_id=request.client_id or member.client_id,
        client_host=request.client_host or member.client_host,
    )


def _heartbeat_ms(group: ConsumerGroup) -> Millis:
    settings = group.settings
    return settings.heartbeat_ms if settings.share_heartbeat_ms is None else settings.share_heartbeat_ms


def _reply(group: ConsumerGroup, member: ConsumerMember, parts: Parts | None) -> ConsumerHeartbeatReply:
    assignment = None if parts is None else listed(parts)
    return ConsumerHeartbeatReply(member.member_id, member.epoch, _heartbeat_ms(group), assignment)
