"""The REST protocol: join, heartbeat, give back, leave, on the same machine as Kafka's server-side protocol.

A generation is the member's epoch. A heartbeat or a giving back may come with the current generation or with the one
the member showed before it, as it may have missed an answer; the answer carries the current one. Everything else,
and anything older, needs the current one. A member keeps its id for as long as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from goqueue.base.errors import InvalidField
from goqueue.base.ids import Millis
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.errors import IllegalGeneration, InconsistentProtocol, InvalidSessionTimeout, UnknownMember
from goqueue.core.groups.parts import Parts, both, listed, make, minus
from goqueue.core.groups.reconcile import released
from goqueue.core.groups.records import ConsumerMember
from goqueue.core.groups.replies import GroupDone, GroupStep, RestBeat, RestJoined
from goqueue.core.groups.requests import RestJoin
from goqueue.core.groups.settings import GroupSettings


def join(group: ConsumerGroup, ticket: int, request: RestJoin, now: Millis, out: GroupStep) -> None:
    """A new member, one that comes back, or one that changes what it reads."""
    member_id = request.member_id or request.new_member_id
    group.check_joiner(member_id, request.assignor)
    known = group.members.get(member_id) or ConsumerMember(member_id, door="rest", previous_epoch=-1)
    if known.door != "rest":
        raise InconsistentProtocol(f"{member_id!r} is a Kafka consumer; choose another member id.", field="member_id")
    if not request.topics:
        raise InvalidField("Name at least one topic to read.", field="topics")
    fresh = replace(
        known,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=tuple(sorted(set(request.topics))),
        style=request.protocol,
        assignor=request.assignor,
        session_ms=session_ms(request, group.settings),
        rebalance_ms=group.settings.rebalance_ms,
    )
    member = group.put(fresh, now, out, shown=known.epoch or -1, mode=request.mode)
    group.told[member_id] = {member.epoch: member.assigned}
    parts, beat_ms = listed(member.assigned), group.settings.heartbeat_ms
    mode, style = group.record.mode, member.style
    out.answer(ticket, RestJoined(member_id, member.epoch, parts, beat_ms, member.session_ms, mode, style))


def heartbeat(group: ConsumerGroup, ticket: int, member_id: str, generation: int, now: Millis, out: GroupStep) -> None:
    member = _known(group, member_id)
    _check_recent(member, generation)
    out.answer(ticket, _beat(group, group.put(member, now, out, shown=generation), generation))


def revoke(
    group: ConsumerGroup,
    ticket: int,
    member_id: str,
    generation: int,
    partitions: Sequence[tuple[str, Sequence[int]]],
    now: Millis,
    out: GroupStep,
) -> None:
    """The member stopped reading these. What it was not asked for is ignored, and so is a repeat from before."""
    member = _known(group, member_id)
    _check_recent(member, generation)
    if generation == member.epoch:
        member = released(member, both(make(partitions), member.pending))
    out.answer(ticket, _beat(group, group.put(member, now, out, shown=generation), generation))


def leave(group: ConsumerGroup, ticket: int, member_id: str, now: Millis, out: GroupStep) -> None:
    group.remove(_known(group, member_id).member_id, now, out)
    out.answer(ticket, GroupDone())


def readable(group: ConsumerGroup, member_id: str, generation: int) -> Parts:
    """What the member may read, if its generation is the current one."""
    member = _known(group, member_id)
    if generation != member.epoch:
        raise _stale(member, generation)
    return member.assigned


def session_ms(request: RestJoin, settings: GroupSettings) -> Millis:
    """The session asked for, or the node's."""
    asked = settings.session_ms if request.session_ms is None else request.session_ms
    check_session(asked, settings)
    return asked


def check_session(asked: Millis, settings: GroupSettings) -> None:
    if not settings.session_ms_min <= asked <= settings.session_ms_max:
        raise InvalidSessionTimeout(
            f"A session of {asked} ms is not from {settings.session_ms_min} to {settings.session_ms_max} ms.",
            field="session_ms",
        )


def _known(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.member(member_id)
    if member.door != "rest":
        raise UnknownMember(f"{member_id!r} is a Kafka consumer; join over REST first.")
    return member


def _check_recent(member: ConsumerMember, generation: int) -> None:
    if generation not in (member.epoch, member.previous_epoch):
        raise _stale(member, generation)


def _stale(member: ConsumerMember, generation: int) -> IllegalGeneration:
    return IllegalGeneration(
        f"Generation {generation} is not the member's ({member.epoch}); use the one of the last heartbeat.",
        generation=member.epoch,
    )


def _beat(group: ConsumerGroup, member: ConsumerMember, generation: int) -> RestBeat:
    """`gained` counts from what the member was told in the generation it shows."""
    told = group.told.get(member.member_id, {}).get(generation, {})
    group.told[member.member_id] = {generation: told, member.epoch: member.assigned}
    gained = listed(minus(member.assigned, told))
    return RestBeat(member.epoch, listed(member.assigned), listed(member.pending), gained, group.settings.heartbeat_ms)
