"""A group moves from the classic protocol to the server-side one while its members run, and back (KIP-848).

It moves when the first member of the server-side protocol joins: classic members go on in the same group, with what
they have, and are told to join again whenever their part changes. It moves back when the last such member is gone.
"""

from __future__ import annotations

from goqueue.base.ids import Millis
from goqueue.core.groups.classic import ClassicGroup
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.consumer_protocol import assigned_partitions, encode_assignment, parse_subscription
from goqueue.core.groups.describe import CONSUMERS
from goqueue.core.groups.errors import InconsistentProtocol
from goqueue.core.groups.records import ClassicMember, ConsumerMember, GroupState


def upgraded(group: ClassicGroup, now: Millis) -> GroupState:
    """The group in the form of the server-side protocol; `InconsistentProtocol` if not all members are consumers."""
    if group.roster.protocol_type != CONSUMERS:
        raise InconsistentProtocol(f"Group {group.name!r} has members that are no consumers; use another group.")
    members = {name: _consumer(group, member.info) for name, member in group.roster.members.items()}
    return GroupState(group.name, "consumer", group.generation, now, consumer=members)


def _consumer(group: ClassicGroup, info: ClassicMember) -> ConsumerMember:
    subscription = parse_subscription(info.protocols[0][1]) if info.protocols else None
    if subscription is None:
        raise InconsistentProtocol(
            f"Group {group.name!r} has members whose subscriptions cannot be read; use another group."
        )
    assigned = assigned_partitions(group.roster.members[info.member_id].assignment)
    return ConsumerMember(
        info.member_id,
        instance_id=info.instance_id,
        client_id=info.client_id,
        client_host=info.client_host,
        topics=subscription.topics,
        session_ms=info.session_ms,
        rebalance_ms=info.rebalance_ms,
        epoch=group.generation,
        assigned=assigned,
        target=assigned,
        protocols=info.protocols,
    )


def wants_downgrade(group: ConsumerGroup) -> bool:
    """Whether only classic members are left, who can agree on a protocol of theirs."""
    members = group.members.values()
    return bool(members) and all(member.is_classic for member in members) and bool(_common(group))


def downgraded(group: ConsumerGroup, now: Millis) -> GroupState:
    """The group in the form of the classic protocol, settled as it is.

    The generation is the one that members know, so that they hear of the rebalance to come and keep what they have.
    """
    generation = max(member.epoch for member in group.members.values())
    members = {name: _classic(member) for name, member in group.members.items()}
    return GroupState(
        group.name,
        "classic",
        generation,
        now,
        protocol_type=CONSUMERS,
        protocol=_common(group)[0],
        leader=next(iter(members)),
        classic=members,
    )


def _common(group: ConsumerGroup) -> list[str]:
    spoken = [[name for name, _ in member.protocols] for member in group.members.values()]
    return [name for name in spoken[0] if all(name in names for names in spoken)]


def _classic(member: ConsumerMember) -> ClassicMember:
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_ms,
        member.rebalance_ms,
        member.protocols,
        assignment_of(member),
    )


def assignment_of(member: ConsumerMember) -> bytes:
    """What a classic member reads now, in its own bytes."""
    subscription = parse_subscription(member.protocols[0][1])
    return encode_assignment(member.assigned, 0 if subscription is None else subscription.version)
