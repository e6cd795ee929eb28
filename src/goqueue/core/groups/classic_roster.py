"""The members of a classic group: who they are, who leads, and which protocol they agree on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis
from goqueue.core.groups.errors import FencedInstance, RebalanceInProgress, UnknownMember
from goqueue.core.groups.records import ClassicMember
from goqueue.core.groups.replies import GroupStep, JoinedMember, JoinReply, SyncReply
from goqueue.core.groups.requests import JoinRequest
from goqueue.core.groups.sizes import classic_bytes


class Member:
    """A classic member at work. A ticket is a parked request: at most one join and one sync."""

    __slots__ = ("_counted", "_size", "assignment", "info", "join_ticket", "sync_ticket")

    def __init__(self, info: ClassicMember) -> None:
        self.info = info
        self.assignment = info.assignment
        self.join_ticket: int | None = None
        self.sync_ticket: int | None = None
        self._size = 0
        self._counted: object = None

    @property
    def member_id(self) -> str:
        return self.info.member_id

    @property
    def size(self) -> int:
        """What the member takes, without its assignment; counted once for each join."""
        if self._counted is not self.info.protocols:
            self._counted, self._size = self.info.protocols, classic_bytes(self.info)
        return self._size

    def names(self) -> list[str]:
        return [name for name, _ in self.info.protocols]

    def metadata(self, protocol: str) -> bytes:
        return next((metadata for name, metadata in self.info.protocols if name == protocol), b"")

    def speaks_as_before(self, protocols: Sequence[tuple[str, bytes]]) -> bool:
        return list(self.info.protocols) == [(name, bytes(metadata)) for name, metadata in protocols]

    def park_join(self, ticket: int, out: GroupStep) -> None:
        self.answer_join(RebalanceInProgress("The member joined again; only its last join counts."), out)
        self.join_ticket = ticket

    def park_sync(self, ticket: int, out: GroupStep) -> None:
        self.answer_sync(RebalanceInProgress("The member synced again; only its last sync counts."), out)
        self.sync_ticket = ticket

    def answer_join(self, result: JoinReply | GoQueueError, out: GroupStep) -> bool:
        """Answers a parked join; False if there is none."""
        ticket, self.join_ticket = self.join_ticket, None
        if ticket is not None:
            out.answer(ticket, result)
        return ticket is not None

    def answer_sync(self, result: SyncReply | GoQueueError, out: GroupStep) -> bool:
        """Answers a parked sync; False if there is none."""
        ticket, self.sync_ticket = self.sync_ticket, None
        if ticket is not None:
            out.answer(ticket, result)
        return ticket is not None

    def refuse(self, error: GoQueueError, out: GroupStep) -> None:
        """Answers whatever is parked."""
        self.answer_join(error, out)
        self.answer_sync(error, out)


def member_info(request: JoinRequest, member_id: str) -> ClassicMember:
    """What a join says about the member."""
    protocols = tuple((name, bytes(metadata)) for name, metadata in request.protocols)
    instance_id, session_ms, rebalance_ms = request.group_instance_id, request.session_ms, request.rebalance_ms
    client_id, client_host = request.client_id, request.client_host
    return ClassicMember(member_id, instance_id, client_id, client_host, session_ms, rebalance_ms, protocols)


class Roster:
    """Members in the order they came. `pending` were given an id and have not joined with it yet."""

    __slots__ = ("leader", "members", "pending", "protocol_type", "statics")

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.statics: dict[str, str] = {}
        self.pending: dict[str, None] = {}
        self.leader = ""
        self.protocol_type = ""

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        if member.info.instance_id is not None:
            self.statics[member.info.instance_id] = member.member_id
        self.leader = self.leader or member.member_id
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        self.pending.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is not None and member.info.instance_id is not None:
            self.statics.pop(member.info.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), "")

    def replace(self, old_id: str, new: Member) -> None:
        """A static member under its new id, in the old one's place."""
        self.members = {
            (new.member_id if name == old_id else name): (new if name == old_id else member)
            for name, member in self.members.items()
        }
        if new.info.instance_id is not None:
            self.statics[new.info.instance_id] = new.member_id
        if self.leader == old_id:
            self.leader = new.member_id

    def check(self, member_id: str, instance_id: str | None) -> Member:
        """The member, if it is who it says it is."""
        if instance_id is not None:
            holder = self.statics.get(instance_id)
            if holder is not None and holder != member_id:
                raise FencedInstance(f"Another process runs as {instance_id!r} now; stop this one or rename it.")
            if holder is None:
                raise UnknownMember(f"No static member {instance_id!r} in the group; join again.")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"No member {member_id!r} in the group; join again.")
        return member

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a joiner with these protocols can be in one group with all the others."""
        names = set(names)
        if not self.members:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and not names.isdisjoint(self.common())

    def common(self) -> list[str]:
        votes = Counter(name for member in self.members.values() for name in set(member.names()))
        return sorted(name for name, count in votes.items() if count == len(self.members))

    def choose_protocol(self) -> str:
        """Each votes for its first protocol that all speak; most votes win, then the first name."""
        common = set(self.common())
        votes = Counter(next(name for name in member.names() if name in common) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], name))

    def elect(self) -> bool:
        """Makes sure that the leader is one who came. False if nobody did."""
        leader = self.members.get(self.leader)
        if leader is not None and leader.join_ticket is not None:
            return True
        came = next((name for name, member in self.members.items() if member.join_ticket is not None), None)
        if came is not None:
            self.leader = came
        return came is not None

    def seen_by_leader(self, protocol: str) -> list[JoinedMember]:
        return [
            JoinedMember(member.member_id, member.info.instance_id, member.metadata(protocol))
            for member in self.members.values()
        ]

    def bytes_besides(self, *member_ids: str) -> int:
        """What members take, but for these, without assignments."""
        counted = [self.members[name] for name in sorted(set(member_ids)) if name in self.members]
        return (
            sum(map(len, self.pending))
            + sum([member.size for member in self.members.values()])
            - sum([member.size for member in counted])
        )

    @property
    def all_joined(self) -> bool:
        return not self.pending and all(member.join_ticket is not None for member in self.members.values())

    @property
    def waiting(self) -> int:
        return sum(member.join_ticket is not None for member in self.members.values())

    @property
    def rebalance_ms(self) -> Millis:
        return max((member.info.rebalance_ms for member in self.members.values()), default=0)
