"""A classic group under anything: joins, syncs, heartbeats, silence, leaving, full disks and crashes in any order."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.base.errors import GoQueueError
from goqueue.core.groups import JoinReply, LeaveRequest, SyncReply
from goqueue.core.groups.errors import MemberIdRequired
from tests.core.groups.world import World

SLOTS = st.integers(0, 4)


class Client:
    """What one consumer knows: its id, its generation, its parked request, what it reads."""

    def __init__(self, instance: str | None) -> None:
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.joining: int | None = None
        self.syncing: int | None = None
        self.leads: list[str] = []
        self.reads: bytes = b""

    def forget(self) -> None:
        self.__init__(self.instance)  # type: ignore[misc]


class ClassicGroups(RuleBasedStateMachine):
    @initialize(delay=st.sampled_from([0, 3_000]))
    def begin(self, delay: int) -> None:
        self.world = World(initial_rebalance_delay_ms=delay, group_members_max=4)
        self.clients = [Client(f"i{slot}" if slot < 2 else None) for slot in range(5)]
        self.generation = 0
        self.given: dict[int, set[bytes]] = {}
        self.lost: set[int] = set()
        self.refused = 0

    def hear_answers(self) -> None:
        for client in self.clients:
            if client.joining is not None and client.joining in self.world.answers:
                self.joined(client, self.world.answers[client.joining])
                client.joining = None
            if client.syncing is not None and client.syncing in self.world.answers:
                answer = self.world.answers[client.syncing]
                client.syncing = None
                if isinstance(answer, SyncReply):
                    client.reads = answer.assignment

    def joined(self, client: Client, answer: object) -> None:
        if isinstance(answer, JoinReply):
            assert answer.generation >= client.generation or self.world.refused
            assert (answer.leader == answer.member_id) or not answer.members
            client.member_id, client.generation = answer.member_id, answer.generation
            client.leads = [each.member_id for each in answer.members]
        elif isinstance(answer, MemberIdRequired):
            client.member_id = answer.member_id
        else:
            client.forget()

    @rule(slot=SLOTS, needs_id=st.booleans(), metadata=st.sampled_from([b"x", b"y"]))
    def join(self, slot: int, needs_id: bool, metadata: bytes) -> None:
        client = self.clients[slot]
        client.syncing, client.reads = None, b""
        client.joining = self.world.join(
            client.member_id,
            group_instance_id=client.instance,
            requires_member_id=needs_id,
            protocols=[("range", metadata)],
            new_member_id=f"m{self.world.asked}",
        )
        self.hear_answers()

    @rule(slot=SLOTS)
    def sync(self, slot: int) -> None:
        client = self.clients[slot]
        if client.generation < 0 or client.joining is not None:
            return
        given = [(name, name.encode()) for name in client.leads]
        client.syncing = self.world.sync(client.member_id, client.generation, *given, instance=client.instance)
        self.hear_answers()

    @rule(slot=SLOTS)
    def beat(self, slot: int) -> None:
        client = self.clients[slot]
        if client.generation >= 0 and client.joining is None:
            try:
                self.world.beat(client.member_id, client.generation, client.instance)
            except GoQueueError as error:
                if error.code != "rebalance-in-progress":
                    client.forget()

    @rule(slot=SLOTS)
    def restart(self, slot: int) -> None:
        """The process dies and comes back without its id."""
        self.clients[slot].forget()

    @rule(slot=SLOTS)
    def leave(self, slot: int) -> None:
        client = self.clients[slot]
        if client.member_id:
            self.world.ask(self.world.coordinator.leave, _leave(client))
            self.hear_answers()
            client.forget()

    @rule(ms=st.sampled_from([1, 2_000, 9_000, 21_000]))
    def wait(self, ms: int) -> None:
        self.world.run(ms)
        self.hear_answers()

    @rule(is_full=st.booleans())
    def disk(self, is_full: bool) -> None:
        """What cannot be stored has not happened: the group is as it was last stored, and nobody waits in vain."""
        self.world.refuses = is_full

    @precondition(lambda self: self.world.stored)
    @rule(share=st.floats(0, 1))
    def crash(self, share: float) -> None:
        """The node loses what was not stored; a stored prefix is always a group that works."""
        whole = len(self.world.stored)
        for upto in {int(whole * share), whole}:
            for listed in self.world.replayed(upto).list_groups():
                assert listed.state in ("Empty", "Stable")
        self.world.crash()
        self.lost |= {ticket for ticket in range(1, self.world.asked + 1) if ticket not in self.world.answers}
        self.generation = 0
        for client in self.clients:
            client.joining = client.syncing = None

    @invariant()
    def generations_do_not_go_back_and_nobody_reads_anothers_part(self) -> None:
        if self.refused != self.world.refused:
            self.refused, self.generation = self.world.refused, 0
        for listed in self.world.coordinator.list_groups():
            described = self.world.coordinator.describe(listed.group)
            assert described.generation >= self.generation
            self.generation = described.generation
            if described.state == "Stable":
                reading = [member.assignment_bytes for member in described.members if member.assignment_bytes]
                assert len(set(reading)) == len(reading)
                assert described.leader in {member.member_id for member in described.members}

    @invariant()
    def the_log_says_what_memory_says(self) -> None:
        fresh = self.world.replayed()
        for listed in self.world.coordinator.list_groups():
            described = self.world.coordinator.describe(listed.group)
            if described.state in ("Empty", "Stable"):
                assert fresh.describe(listed.group) == described

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.refuses = False
        self.world.run(400_000)
        parked = {ticket for ticket in range(1, self.world.asked + 1) if ticket not in self.world.answers}
        assert parked <= self.lost
        self.world.run(3_600_000)
        assert all(each.state == "Empty" for each in self.world.coordinator.list_groups())


def _leave(client: Client) -> LeaveRequest:
    return LeaveRequest("g", [(client.member_id, client.instance)])


TestClassicGroups = ClassicGroups.TestCase
TestClassicGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
