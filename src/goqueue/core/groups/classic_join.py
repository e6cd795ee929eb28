"""Joins of the classic protocol: who may, as whom, and whether the others have to join again."""

from __future__ import annotations

from msgspec.structs import replace

from goqueue.base.ids import Millis
from goqueue.core.groups.classic import ClassicGroup
from goqueue.core.groups.classic_roster import Member, member_info
from goqueue.core.groups.classic_state import ClassicState, session
from goqueue.core.groups.errors import FencedInstance, GroupFull, InconsistentProtocol, MemberIdRequired
from goqueue.core.groups.replies import GroupStep, JoinReply
from goqueue.core.groups.requests import JoinRequest
from goqueue.core.groups.sizes import classic_bytes


def join(group: ClassicGroup, ticket: int, request: JoinRequest, now: Millis, out: GroupStep) -> None:
    """A new member, one that was given an id, one that joins again, or a static one back in its place."""
    if not _has_room(group, request.member_id):
        group.drop(request.member_id, now, out)
        raise GroupFull(f"The group has {group.settings.group_members_max} members; use another group.")
    _check_bytes(group, request)
    if not group.roster.supports(request.protocol_type, (name for name, _ in request.protocols)):
        raise InconsistentProtocol("The group's members have no protocol in common with this one; align assignors.")
    if not request.member_id:
        _join_new(group, ticket, request, now, out)
    elif request.member_id in group.roster.pending:
        group.add(ticket, request, request.member_id, now, out)
    else:
        _rejoin(group, ticket, request, now, out)


def _join_new(group: ClassicGroup, ticket: int, request: JoinRequest, now: Millis, out: GroupStep) -> None:
    holder = group.roster.statics.get(request.group_instance_id or "")
    if holder is not None:
        _replace_static(group, ticket, request, holder, now, out)
    elif request.requires_member_id and request.group_instance_id is None:
        group.roster.pending[request.new_member_id] = None
        group.deadlines.set(session(request.new_member_id), now + request.session_ms)
        raise MemberIdRequired("Join again with the member id given here.", member_id=request.new_member_id)
    else:
        group.add(ticket, request, request.new_member_id, now, out)


def _rejoin(group: ClassicGroup, ticket: int, request: JoinRequest, now: Millis, out: GroupStep) -> None:
    member = group.roster.check(request.member_id, request.group_instance_id)
    same = member.speaks_as_before(request.protocols)
    leads_stable = group.state is ClassicState.STABLE and member.member_id == group.roster.leader
    if group.state is not ClassicState.PREPARING and same and not leads_stable:
        group.keep_alive(member, now)
        out.answer(ticket, group.joined(member))
        return
    fresh = member_info(request, member.member_id)
    member.info = replace(fresh, client_id=member.info.client_id, client_host=member.info.client_host)
    member.park_join(ticket, out)
    group.deadlines.drop(session(member.member_id))
    group.rebalance(now, out)


def _replace_static(
    group: ClassicGroup, ticket: int, request: JoinRequest, old_id: str, now: Millis, out: GroupStep
) -> None:
    """A static member came back without its id: it takes its old place, and whoever holds it is fenced."""
    old = group.roster.members[old_id]
    old.refuse(FencedInstance(f"Another process joined as {request.group_instance_id!r}; stop this one."), out)
    member = Member(member_info(request, request.new_member_id))
    member.assignment = old.assignment
    led_by = group.roster.leader
    group.replace_member(old_id, member)
    if group.state is ClassicState.STABLE and group.roster.choose_protocol() == group.protocol:
        group.write(now, out)
        group.keep_alive(member, now)
        out.answer(ticket, _joined_again(group, member, request, led_by))
        return
    member.park_join(ticket, out)
    group.deadlines.drop(session(member.member_id))
    group.rebalance(now, out)


def _joined_again(group: ClassicGroup, member: Member, request: JoinRequest, led_by: str) -> JoinReply:
    """The generation goes on. An old client that led is not told so: it could not skip assigning."""
    if not request.supports_skipping_assignment:
        return replace(group.joined(member), leader=led_by, members=[])
    return replace(group.joined(member), skip_assignment=member.member_id == group.roster.leader)


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    most = group.settings.group_members_max
    known = group.roster.members.get(member_id)
    if group.state is ClassicState.PREPARING:
        waiting = group.roster.waiting + (0 if member_id else len(group.roster.pending))
        return (known is not None and known.join_ticket is not None) or waiting < most
    if known is None and member_id not in group.roster.pending:
        return len(group.roster.members) + len(group.roster.pending) < most
    return known is not None or len(group.roster.members) < most


def _check_bytes(group: ClassicGroup, request: JoinRequest) -> None:
    holder = group.roster.statics.get(request.group_instance_id or "", "")
    joined = classic_bytes(member_info(request, request.member_id or request.new_member_id))
    if joined + group.roster.bytes_besides(request.member_id, holder) > group.settings.group_bytes_max:
        raise GroupFull(f"Members would take more than {group.settings.group_bytes_max} bytes; use another group.")
