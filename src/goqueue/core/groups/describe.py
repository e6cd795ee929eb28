"""Groups as administrators see them."""

from __future__ import annotations

from goqueue.core.groups.classic import ClassicGroup
from goqueue.core.groups.classic_roster import Member
from goqueue.core.groups.classic_state import ClassicState
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.consumer_protocol import assigned_partitions, subscribed_topics
from goqueue.core.groups.parts import listed
from goqueue.core.groups.records import ConsumerMember
from goqueue.core.groups.replies import GroupDescription, GroupListing, MemberDescription

CONSUMERS = "consumer"  # the protocol type of consumers, as opposed to, say, connect workers
SHARE_ASSIGNOR = "simple"  # everybody gets everything


def listing(name: str, group: ClassicGroup | ConsumerGroup | None) -> GroupListing:
    """None is a group that only has offsets."""
    if group is None:
        return GroupListing(name, "classic", "Empty", "", 0)
    if isinstance(group, ClassicGroup):
        return GroupListing(name, "classic", group.state.value, group.roster.protocol_type, len(group.roster.members))
    return GroupListing(name, group.kind, group.state, _protocol_type(group), len(group.members))


def description(name: str, group: ClassicGroup | ConsumerGroup | None) -> GroupDescription:
    if group is None:
        return GroupDescription(name, "classic", "Empty", 0, "", "", "", [])
    if isinstance(group, ClassicGroup):
        return _classic(name, group)
    members = [_consumer_member(member) for _, member in sorted(group.members.items())]
    mode, epoch = group.record.mode, group.epoch
    assignor = SHARE_ASSIGNOR if group.kind == "share" else group.assignor
    return GroupDescription(name, group.kind, group.state, epoch, _protocol_type(group), assignor, "", members, mode)


def _protocol_type(group: ConsumerGroup) -> str:
    return "share" if group.kind == "share" else CONSUMERS


def live_topics(group: ClassicGroup | ConsumerGroup) -> frozenset[str] | None:
    """Topics that members read now; None if nobody but the members can tell."""
    if isinstance(group, ConsumerGroup):
        return group.subscribed()
    if not group.roster.members:
        return frozenset()
    if group.roster.protocol_type != CONSUMERS or group.state is not ClassicState.STABLE:
        return None
    found: set[str] = set()
    for member in group.roster.members.values():
        topics = subscribed_topics(member.metadata(group.protocol))
        if topics is None:
            return None
        found.update(topics)
    return frozenset(found)


def _classic(name: str, group: ClassicGroup) -> GroupDescription:
    settled = group.state is ClassicState.STABLE
    members = [_classic_member(group, member, settled) for _, member in sorted(group.roster.members.items())]
    protocol = group.protocol if settled else ""
    kind, leader = group.roster.protocol_type, group.roster.leader
    return GroupDescription(name, "classic", group.state.value, group.generation, kind, protocol, leader, members)


def _classic_member(group: ClassicGroup, member: Member, settled: bool) -> MemberDescription:
    """Kafka shows metadata and assignments of a settled group only."""
    info, metadata = member.info, member.metadata(group.protocol) if settled else b""
    assignment = member.assignment if settled else b""
    consumer = group.roster.protocol_type == CONSUMERS
    return MemberDescription(
        info.member_id,
        info.instance_id,
        info.client_id,
        info.client_host,
        listed(assigned_partitions(assignment)) if consumer else [],
        epoch=group.generation,
        topics=(subscribed_topics(metadata) or []) if consumer else [],
        metadata=metadata,
        assignment_bytes=assignment,
    )


def _consumer_member(member: ConsumerMember) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        listed(member.assigned),
        door=member.door,
        rack=member.rack,
        epoch=member.epoch,
        topics=list(member.topics),
        regex=member.regex,
        target=listed(member.target),
        revoking=listed(member.pending),
        is_classic=member.is_classic,
    )
