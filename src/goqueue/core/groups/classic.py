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
    FencedInstance,
    GroupFull,
    IllegalGeneration,
    InconsistentProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from goqueue.core.groups.records import GroupState, Kind
from goqueue.core.groups.replies import GroupDone, GroupStep, JoinReply, LeaveReply, SyncReply
from goqueue.core.groups.requests import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.sizes import classic_bytes
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
        self._settings = settings
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
            self._keep_alive(member, now)

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

    # --- join ------------------------------------------------------------------------------------------

    def join(self, ticket: int, request: JoinRequest, now: Millis, out: GroupStep) -> None:
        if not self._has_room(request.member_id):
            self._drop(request.member_id, now, out)
            raise GroupFull(f"The group has {self._settings.group_members_max} members; use another group.")
        self._check_bytes(request)
        if not self.roster.supports(request.protocol_type, (name for name, _ in request.protocols)):
            raise InconsistentProtocol("The group's members have no protocol in common with this one; align assignors.")
        if not request.member_id:
            self._join_new(ticket, request, now, out)
        elif request.member_id in self.roster.pending:
            self._add(ticket, request, request.member_id, now, out)
        else:
            self._rejoin(ticket, request, now, out)

    def _join_new(self, ticket: int, request: JoinRequest, now: Millis, out: GroupStep) -> None:
        holder = self.roster.statics.get(request.group_instance_id or "")
        if holder is not None:
            self._replace_static(ticket, request, holder, now, out)
        elif request.requires_member_id and request.group_instance_id is None:
            self.roster.pending[request.new_member_id] = None
            self.deadlines.set(session(request.new_member_id), now + request.session_ms)
            raise MemberIdRequired("Join again with the member id given here.", member_id=request.new_member_id)
        else:
            self._add(ticket, request, request.new_member_id, now, out)

    def _add(self, ticket: int, request: JoinRequest, member_id: str, now: Millis, out: GroupStep) -> None:
        member = Member(member_info(request, member_id))
        self._came_late = True
        self.roster.add(member, request.protocol_type)
        member.park_join(ticket, out)
        self.deadlines.set(session(member_id), now + self._settings.new_member_join_ms)
        self._rebalance(now, out)

    def _rejoin(self, ticket: int, request: JoinRequest, now: Millis, out: GroupStep) -> None:
        member = self.roster.check(request.member_id, request.group_instance_id)
        same = member.speaks_as_before(request.protocols)
        leads_stable = self.state is ClassicState.STABLE and member.member_id == self.roster.leader
        if self.state is not ClassicState.PREPARING and same and not leads_stable:
            self._keep_alive(member, now)
            out.answer(ticket, self._joined(member))
            return
        self._update(member, request)
        member.park_join(ticket, out)
        self.deadlines.drop(session(member.member_id))
        self._rebalance(now, out)

    def _replace_static(self, ticket: int, request: JoinRequest, old_id: str, now: Millis, out: GroupStep) -> None:
        """A static member came back without its id: it takes its old place, and whoever holds it is fenced."""
        old = self.roster.members[old_id]
        old.refuse(FencedInstance(f"Another process joined as {request.group_instance_id!r}; stop this one."), out)
        self.deadlines.drop(session(old_id))
        member = Member(member_info(request, request.new_member_id))
        member.assignment = old.assignment
        led_by = self.roster.leader
        self.roster.replace(old_id, member)
        if old_id in self._unsynced:
            del self._unsynced[old_id]
            self._unsynced[member.member_id] = None
        if self.state is ClassicState.STABLE and self.roster.choose_protocol() == self.protocol:
            self.write(now, out)
            self._keep_alive(member, now)
            out.answer(ticket, self._joined_again(member, request, led_by))
            return
        member.park_join(ticket, out)
        self.deadlines.drop(session(member.member_id))
        self._rebalance(now, out)

    def _joined_again(self, member: Member, request: JoinRequest, led_by: str) -> JoinReply:
        """The generation goes on. An old client that led is not told so: it could not skip assigning."""
        if not request.supports_skipping_assignment:
            return replace(self._joined(member), leader=led_by, members=[])
        return replace(self._joined(member), skip_assignment=member.member_id == self.roster.leader)

    def _joined(self, member: Member) -> JoinReply:
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
            self._keep_alive(member, now)
            out.answer(ticket, self._synced(member))
            return
        leads = member.member_id == self.roster.leader
        if leads:
            self._check_assigned_bytes(dict(request.assignments))
        member.park_sync(ticket, out)
        self.deadlines.drop(session(member.member_id))
        if leads:
            self._wait_durable(request, now, out)

    def _wait_durable(self, request: SyncRequest, now: Millis, out: GroupStep) -> None:
        given = dict(request.assignments)
        for member in self.roster.members.values():
            member.assignment = bytes(given.get(member.member_id, b""))
        self.write(now, out)
        self.timing.end(now)
        for member in self.roster.members.values():
            if member.answer_sync(self._synced(member), out):
                self._keep_alive(member, now)

    def _synced(self, member: Member) -> SyncReply:
        return SyncReply(self.roster.protocol_type, self.protocol, member.assignment)

    def heartbeat(self, ticket: int, request: HeartbeatRequest, now: Millis, out: GroupStep) -> None:
        member = self.roster.check(request.member_id, request.group_instance_id)
        self._check_generation(request.generation)
        self._keep_alive(member, now)
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

    def rebalance(self, now: Millis, out: GroupStep) -> None:
        """Everybody has to join again."""
        self._rebalance(now, out)

    # --- the rebalance ---------------------------------------------------------------------------------

    def _rebalance(self, now: Millis, out: GroupStep) -> None:
        if self.state is ClassicState.PREPARING:
            self._complete_if_all_joined(now, out)
        else:
            self._prepare(now, out)

    def _prepare(self, now: Millis, out: GroupStep) -> None:
        for member in self.roster.members.values():
            if self.state is ClassicState.COMPLETING:
                member.assignment = b""
            if member.answer_sync(RebalanceInProgress("The group is rebalancing again; join again."), out):
                self._keep_alive(member, now)
        self._unsynced.clear()
        self.deadlines.drop(SYNC)
        initial, delay = self.state is ClassicState.EMPTY, self._settings.initial_rebalance_delay_ms
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
        delay, left = self._settings.initial_rebalance_delay_ms, self._initial_left_ms or 0
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
            member.answer_join(self._joined(member), out)
            self._keep_alive(member, now)
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
            self._drop(key[1], now, out)

    # --- small moves -----------------------------------------------------------------------------------

    def _move(self, to: ClassicState) -> None:
        self._check_move(to)
        self.state = to

    def _check_move(self, to: ClassicState) -> None:
        assert to in MOVES[self.state], f"{self.state} to {to}"

    def _has_room(self, member_id: str) -> bool:
        most = self._settings.group_members_max
        known = self.roster.members.get(member_id)
        if self.state is ClassicState.PREPARING:
            waiting = self.roster.waiting + (0 if member_id else len(self.roster.pending))
            return (known is not None and known.join_ticket is not None) or waiting < most
        if known is None and member_id not in self.roster.pending:
            return len(self.roster.members) + len(self.roster.pending) < most
        return known is not None or len(self.roster.members) < most

    def _check_bytes(self, request: JoinRequest) -> None:
        holder = self.roster.statics.get(request.group_instance_id or "", "")
        joined = classic_bytes(member_info(request, request.member_id or request.new_member_id))
        if joined + self.roster.bytes_besides(request.member_id, holder) > self._settings.group_bytes_max:
            raise GroupFull(f"Members would take more than {self._settings.group_bytes_max} bytes; use another group.")

    def _check_assigned_bytes(self, assigned: Mapping[str, bytes]) -> None:
        given = sum(len(data) for name, data in assigned.items() if name in self.roster.members)
        if given + self.roster.bytes_besides() > self._settings.group_bytes_max:
            most = self._settings.group_bytes_max
            raise GroupFull(f"The members and what they are assigned would take more than {most} bytes.")

    def _drop(self, member_id: str, now: Millis, out: GroupStep) -> None:
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

    def _update(self, member: Member, request: JoinRequest) -> None:
        fresh = member_info(request, member.member_id)
        member.info = replace(fresh, client_id=member.info.client_id, client_host=member.info.client_host)

    def _keep_alive(self, member: Member, now: Millis) -> None:
        """A parked request is as good as a heartbeat, so a member that waits has no deadline, unless it is new."""
        if member.join_ticket is None and member.sync_ticket is None:
            self.deadlines.set(session(member.member_id), now + member.info.session_ms)

    def _remove(self, member: Member, out: GroupStep) -> None:
        member.refuse(UnknownMember("The member was removed from the group; join again."), out)
        self.roster.remove(member.member_id)
        self._unsynced.pop(member.member_id, None)
        self.deadlines.drop(session(member.member_id))
