"""One member's way to its target, a step at a time: give back first, then take what is free.

A member stays in its epoch while it holds something it was asked to give back. Then it goes on to the group's epoch
with what it keeps and what is free of its target; what others still hold comes with a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from goqueue.core.groups.parts import Parts, both, minus, plus
from goqueue.core.groups.records import ConsumerMember


class Surroundings(msgspec.Struct, frozen=True):
    """What a step depends on besides the member. `held` is None where partitions are shared.

    In an eager group a member gives everything back first, and nobody takes anything (`blocked`) before all have.
    """

    epoch: int
    held: Mapping[str, set[int]] | None
    eager: bool = False
    blocked: bool = False


def settled(member: ConsumerMember, epoch: int) -> bool:
    """Whether the member has all it is going to have."""
    return member.epoch == epoch and not member.pending and member.assigned == member.target


def released(member: ConsumerMember, given: Parts) -> ConsumerMember:
    """The member gave partitions back. With the last one it leaves its epoch."""
    left = minus(member.pending, given)
    if left or not member.pending:
        return replace(member, pending=left)
    return replace(member, pending={}, epoch=member.epoch + 1)


def advance(member: ConsumerMember, around: Surroundings, owned: Parts | None) -> ConsumerMember:
    """The next step. `owned` is all that the member says it holds; None if it did not say."""
    if member.pending and owned is not None:
        member = released(member, minus(member.pending, owned))
    if member.pending or settled(member, around.epoch):
        return member
    gives_all = around.eager and member.epoch != around.epoch
    kept = {} if gives_all else both(member.assigned, member.target)
    pending = minus(member.assigned, kept)
    if pending and (owned is None or both(owned, pending)):
        return replace(member, assigned=kept, pending=pending)
    return replace(member, epoch=around.epoch, assigned=plus(kept, _gain(member, kept, around)))


def _gain(member: ConsumerMember, kept: Parts, around: Surroundings) -> Parts:
    if around.blocked:
        return {}
    return minus(minus(member.target, kept), around.held or {})


def held_by_others(members: Mapping[str, ConsumerMember], member_id: str) -> dict[str, set[int]]:
    """Every partition that another member reads or has not given back."""
    held: dict[str, set[int]] = {}
    for other in members.values():
        if other.member_id != member_id:
            for parts in (other.assigned, other.pending):
                for topic, numbers in parts.items():
                    held.setdefault(topic, set()).update(numbers)
    return held
