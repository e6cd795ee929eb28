"""One classic group, as Kafka's coordinator runs it: members join, the leader assigns, all sync.

Who is in a rebalance is not durable: only what it ends with is written (the leader's assignment, an empty group, a
static member under a new id), so a crash in the middle finds the last settled generation, and members that are
past it are told to join again. A join waits until all have come or time is up, a sync until the leader's came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis
from goqueue.core.groups.classic_roster import Member, Roster, member_info
from goqueue.core.groups.classic_state import JOIN, MOVES, SYNC, ClassicState, session
from goqueue.core.groups.deadlines import GroupDeadlines
from goqueue.core.groups.errors import (
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.core.groups.records import GroupState, Kind
from goqueue.core.groups.replies import GroupDone, GroupStep, JoinReply, LeaveReply, SyncReply
from goqueue.core.groups.requests import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.timing import RebalanceTiming


class ClassicGroup:
    """The machine. Entries raise an error word, or answer into the step they are given."""

    kind: Final[Kind] = "classic"

    def __init__(
        self,
        name: str,
        settings: GroupSettings,
        generation: int = 0,
        since_ms: Millis = 0,
        timing: RebalanceTiming | None = None,
    ) -> None:
        self.name = name
        self.state = ClassicState.EMPTY
        self.generation = generation
        self.protocol = ""
        self.since_ms = since_ms
        self.roster = Roster()
        self.deadlines = GroupDeadlines()
        self.timing = timing or RebalanceTiming()
        self.settings = settings
        self._unsynced: dict[str, None] = {}
        self._initial_left_ms: Millis | None = None  # set while the first rebalance waits for more members
        self._came_late = False

    # --- settled generations ---------------------------------------------------------------------------

    def adopt(self, record: GroupState) -> None:
        """A settled generation, just decided or read back. Parked requests of members that stay are kept."""
        self.state = ClassicState.STABLE if record.classic else ClassicState.EMPTY
        self.generation, self.protocol, self.since_ms = record.generation, record.protocol, record.since_ms
        roster = Roster()
        roster.pending = self.roster.pending
        for name, info in record.classic.items():
            member = self.roster.members.get(name) or Member(info)
            member.info, member.assignment = info, info.assignment
            roster.add(member, record.protocol_type)
        roster.leader, roster.protocol_type = record.leader, record.protocol_type
        self.roster = roster

    def recovered(self, now: Millis) -> None:
        """Every member gets a fresh session."""
        for member in self.roster.members.values():
            self.keep_alive(member, now)

    def parked(self) -> list[int]:
        """The tickets of those who wait."""
        members = self.roster.members.values()
        tickets = [ticket for member in members for ticket in (member.join_ticket, member.sync_ticket)]
        return [ticket for ticket in tickets if ticket is not None]

    def write(self, now: Millis, out: GroupStep) -> None:
        """Writes the group as it stands, settled."""
        members = {
            name: replace(member.info, assignment=member.assignment) for name, member in self.roster.members.items()
        }
        kind, leader = self.roster.protocol_type, self.roster.leader
        after = ClassicState.STABLE if members else ClassicState.EMPTY
        since = self.since_ms if self.state is after else now
        record = GroupState(self.name, "classic", self.generation, since, kind, self.protocol, leader, members)
        self._check_move(after)
        out.records.append(record)
        self.adopt(record)

    # --- members ---------------------------------------------------------------------------------------

    def add(self, ticket: int, request: JoinRequest, member_id: str, now: Millis, out: GroupStep) -> None:
        """A new member, who waits for the rebalance that it causes."""
        member = Member(member_info(request, member_id))
        self._came_late = True
        self.roster.add(member, request.protocol_type)
        member.park_join(ticket, out)
        self.deadlines.set(session(member_id), now + self.settings.new_member_join_ms)
        self.rebalance(now, out)

    def replace_member(self, old_id: str, new: Member) -> None:
        """A static member under its new id, in the old one's place."""
        self.deadlines.drop(session(old_id))
        self.roster.replace(old_id, new)
        if old_id in self._unsynced:
            del self._unsynced[old_id]
            self._unsynced[new.member_id] = None

    def joined(self, member: Member) -> JoinReply:
        """What the member is told of the generation."""
        generation, protocol, leader = self.generation, self.protocol, self.roster.leader
        others = self.roster.seen_by_leader(protocol) if member.member_id == leader else []
        return JoinReply(generation, self.roster.protocol_type, protocol, leader, member.member_id, False, others)

    # --- sync, heartbeat, leave ------------------------------------------------------------------------

    def sync(self, ticket: int, request: SyncRequest, now: Millis, out: GroupStep) -> None:
        member = self.roster.check(request.member_id, request.group_instance_id)
        self._check_generation(request.generation)
        for asked, ours in ((request.protocol_type, self.roster.protocol_type), (request.protocol_name, self.protocol)):
            if asked is not None and asked != ours:
                raise InconsistentProtocol(f"The group uses {ours!r}, not {asked!r}; join again.")
        if self.state is ClassicState.PREPARING:
            raise RebalanceInProgress("The group is rebalancing; join again.")
        self._unsynced.pop(member.member_id, None)
        if not self._unsynced:
            self.deadlines.drop(SYNC)
        if self.state is ClassicState.STABLE:
            self.keep_alive(member, now)
            out.answer(ticket, self._synced(member))
            return
        leads = member.member_id == self.roster.leader
        if leads:
            self._check_assigned_bytes(dict(request.assignments))
        member.park_sync(ticket, out)
        self.deadlines.drop(session(member.member_id))
        if leads:
            self._assign(request, now, out)

    def _assign(self, request: SyncRequest, now: Millis, out: GroupStep) -> None:
        given = dict(request.assignments)
        for member in self.roster.members.values():
            member.assignment = bytes(given.get(member.member_id, b""))
        self.write(now, out)
        self.timing.end(now)
        for member in self.roster.members.values():
            if member.answer_sync(self._synced(member), out):
                self.keep_alive(member, now)

    def _synced(self, member: Member) -> SyncReply:
        return SyncReply(self.roster.protocol_type, self.protocol, member.assignment)

    def heartbeat(self, ticket: int, request: HeartbeatRequest, now: Millis, out: GroupStep) -> None:
        member = self.roster.check(request.member_id, request.group_instance_id)
        self._check_generation(request.generation)
        self.keep_alive(member, now)
        if self.state is ClassicState.PREPARING:
            raise RebalanceInProgress("The group is rebalancing; join again.")
        out.answer(ticket, GroupDone())

    def leave(self, ticket: int, request: LeaveRequest, now: Millis, out: GroupStep) -> None:
        results: list[tuple[str, str | None, GoQueueError | None]] = []
        before = len(self.roster.members)
        for member_id, instance_id in request.members:
            try:
                self._leave_one(member_id, instance_id, out)
            except GoQueueError as error:
                results.append((member_id, instance_id, error))
            else:
                results.append((member_id, instance_id, None))
        if len(self.roster.members) < before:
            self._after_removal(now, out)
        else:
            self._complete_if_all_joined(now, out)
        out.answer(ticket, LeaveReply(results))

    def _leave_one(self, member_id: str, instance_id: str | None, out: GroupStep) -> None:
        if member_id in self.roster.pending:
            self._drop_pending(member_id)
            return
        if not member_id and instance_id is not None:
            member_id = self.roster.statics.get(instance_id, "")
        self._remove(self.roster.check(member_id, instance_id), out)

    # --- the rebalance ---------------------------------------------------------------------------------

    def rebalance(self, now: Millis, out: GroupStep) -> None:
        """Everybody has to join again."""
        if self.state is ClassicState.PREPARING:
            self._complete_if_all_joined(now, out)
        else:
            self._prepare(now, out)

    def _prepare(self, now: Millis, out: GroupStep) -> None:
        for member in self.roster.members.values():
            if self.state is ClassicState.COMPLETING:
                member.assignment = b""
            if member.answer_sync(RebalanceInProgress("The group is rebalancing again; join again."), out):
                self.keep_alive(member, now)
        self._unsynced.clear()
        self.deadlines.drop(SYNC)
        initial, delay = self.state is ClassicState.EMPTY, self.settings.initial_rebalance_delay_ms
        self._move(ClassicState.PREPARING)
        self.timing.begin(now)
        if initial and delay > 0:
            self._came_late = False
            self._initial_left_ms = max(self.roster.rebalance_ms - delay, 0)
            self.deadlines.set(JOIN, now + delay)
        elif initial or self.roster.all_joined:
            self._complete(now, out)
        else:
            self.deadlines.set(JOIN, now + self.roster.rebalance_ms)

    def _complete_if_all_joined(self, now: Millis, out: GroupStep) -> None:
        if self.state is ClassicState.PREPARING and self._initial_left_ms is None and self.roster.all_joined:
            self._complete(now, out)

    def _first_wait_over(self, now: Millis, out: GroupStep) -> None:
        """The first rebalance waits again while members keep coming, up to the rebalance time-out."""
        delay, left = self.settings.initial_rebalance_delay_ms, self._initial_left_ms or 0
        if self._came_late and left > 0:
            self._came_late = False
            self._initial_left_ms = max(left - delay, 0)
            self.deadlines.set(JOIN, now + min(delay, left))
        else:
            self._complete(now, out)

    def _complete(self, now: Millis, out: GroupStep) -> None:
        """Next generation, with those who came and the static members, who may be away for a moment."""
        self.deadlines.drop(JOIN)
        self._initial_left_ms = None
        for member in list(self.roster.members.values()):
            if member.join_ticket is None and member.info.instance_id is None:
                self._remove(member, out)
        if self.roster.members and not self.roster.elect():
            self.deadlines.set(JOIN, now + max(self.roster.rebalance_ms, 1))
            return
        self.generation += 1
        if not self.roster.members:
            self.protocol = ""
            self.write(now, out)
            self.timing.end(now)
            return
        self.protocol = self.roster.choose_protocol()
        self._move(ClassicState.COMPLETING)
        for member in self.roster.members.values():
            member.answer_join(self.joined(member), out)
            self.keep_alive(member, now)
            self._unsynced[member.member_id] = None
        self.deadlines.set(SYNC, now + self.roster.rebalance_ms)

    def _after_removal(self, now: Millis, out: GroupStep) -> None:
        if self.state in (ClassicState.STABLE, ClassicState.COMPLETING):
            self._prepare(now, out)
        else:
            self._complete_if_all_joined(now, out)

    # --- time ------------------------------------------------------------------------------------------

    def tick(self, now: Millis, out: GroupStep) -> None:
        for key in self.deadlines.due(now):
            if self.deadlines.take(key, now):
                self._fall_due(key, now, out)
        self.deadlines.refresh()

    def _fall_due(self, key: tuple[str, str], now: Millis, out: GroupStep) -> None:
        if key == SYNC:
            for name in list(self._unsynced):
                self._remove(self.roster.members[name], out)
            self._after_removal(now, out)
        elif key == JOIN:
            if self._initial_left_ms is not None:
                self._first_wait_over(now, out)
            else:
                self._complete(now, out)
        else:
            self.drop(key[1], now, out)

    # --- small moves -----------------------------------------------------------------------------------

    def _move(self, to: ClassicState) -> None:
        self._check_move(to)
        self.state = to

    def _check_move(self, to: ClassicState) -> None:
        assert to in MOVES[self.state], f"{self.state} to {to}"

    def _check_assigned_bytes(self, assigned: Mapping[str, bytes]) -> None:
        given = sum(len(data) for name, data in assigned.items() if name in self.roster.members)
        if given + self.roster.bytes_besides() > self.settings.group_bytes_max:
            most = self.settings.group_bytes_max
            raise GroupFull(f"The members and what they are assigned would take more than {most} bytes.")

    def drop(self, member_id: str, now: Millis, out: GroupStep) -> None:
        """Removes a member and rebalances, or an id that was given out, so that a rebalance stops waiting for it."""
        member = self.roster.members.get(member_id)
        if member is not None:
            self._remove(member, out)
            self._after_removal(now, out)
        elif member_id in self.roster.pending:
            self._drop_pending(member_id)
            self._complete_if_all_joined(now, out)

    def _drop_pending(self, member_id: str) -> None:
        self.roster.remove(member_id)
        self.deadlines.drop(session(member_id))

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise IllegalGeneration(f"Generation {generation} is not the current one ({self.generation}); join again.")

    def keep_alive(self, member: Member, now: Millis) -> None:
        """A parked request is as good as a heartbeat, so a member that waits has no deadline, unless it is new."""
        if member.join_ticket is None and member.sync_ticket is None:
            self.deadlines.set(session(member.member_id), now + member.info.session_ms)

    def _remove(self, member: Member, out: GroupStep) -> None:
        member.refuse(UnknownMember("The member was removed from the group; join again."), out)
        self.roster.remove(member.member_id)
        self._unsynced.pop(member.member_id, None)
        self.deadlines.drop(session(member.member_id))
