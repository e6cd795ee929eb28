"""A server-assigned group under anything: Kafka and REST members, lost answers, silence, full disks and crashes in any
order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.base.errors import DiskFull, GoQueueError
from goqueue.core.groups import ConsumerHeartbeat, GroupStep, RestJoin
from goqueue.core.groups.errors import UnreleasedInstance
from goqueue.core.groups.parts import listed, make, minus
from goqueue.core.groups.records import Style
from tests.core.groups.world import World

SLOTS = st.integers(0, 5)
TOPICS = [("a",), ("a", "b")]


class Client:
    """One consumer and what it believes it may read. Slots 0 and 1 are static, 4 and 5 speak REST."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.rest = slot >= 4
        self.instance = f"i{slot}" if slot < 2 else None
        self.member_id = f"c{slot}"
        self.lives = 0
        self.drop()

    def drop(self) -> None:
        self.epoch = 0
        self.reads: dict[str, tuple[int, ...]] = {}
        self.gives: dict[str, tuple[int, ...]] = {}


class ConsumerGroups(RuleBasedStateMachine):
    @initialize(style=st.sampled_from(["cooperative", "cooperative", "eager"]))
    def begin(self, style: Style) -> None:
        self.style = style
        self.world = World({"a": 5, "b": 3})
        self.clients = [Client(slot) for slot in range(6)]
        self.epochs: dict[str, int] = {}
        self.group_epoch = 0

    def ask(self, client: Client, call: Callable[..., GroupStep], *arguments: Any, lost: bool = False) -> Any:
        """The answer, or None if it was lost on the way or was an error, after which the client starts over."""
        ticket = self.world.ask(call, *arguments)
        answer = self.world.answers[ticket]
        if lost:
            return None
        if isinstance(answer, GoQueueError):
            client.drop()
            return None
        return answer

    @rule(slot=SLOTS, topics=st.sampled_from(TOPICS), lost=st.booleans())
    def join(self, slot: int, topics: tuple[str, ...], lost: bool) -> None:
        client, coordinator = self.clients[slot], self.world.coordinator
        if client.epoch:
            return
        if client.rest:
            join = RestJoin("g", client.member_id, "unused", "c", topics, protocol=self.style)
            answer = self.ask(client, coordinator.rest_join, join, lost=lost)
            if answer is not None:
                client.epoch, client.reads = answer.generation, make(answer.assignment)
            return
        beat = ConsumerHeartbeat(
            "g", client.member_id, 0, client.instance, subscribed_topics=topics, rebalance_ms=20_000, owned=[]
        )
        ticket = self.world.ask(coordinator.consumer_heartbeat, beat)
        answer = self.world.answers[ticket]
        if not lost and not isinstance(answer, UnreleasedInstance | DiskFull):
            assert not isinstance(answer, GoQueueError)
            client.epoch, client.reads = answer.member_epoch, make(answer.assignment)

    @rule(slot=SLOTS, lost=st.booleans(), lets_go=st.booleans())
    def beat(self, slot: int, lost: bool, lets_go: bool) -> None:
        self.one_beat(self.clients[slot], lost, lets_go)

    def one_beat(self, client: Client, lost: bool, lets_go: bool) -> None:
        if not client.epoch:
            return
        if client.rest:
            self.rest_beat(client, lost, lets_go)
            return
        if lets_go:
            client.gives = {}
        owned = [*client.reads.items(), *client.gives.items()]
        beat = ConsumerHeartbeat("g", client.member_id, client.epoch, client.instance, owned=owned)
        answer = self.ask(client, self.world.coordinator.consumer_heartbeat, beat, lost=lost)
        if answer is not None:
            client.epoch = answer.member_epoch
            if answer.assignment is not None:
                after = make(answer.assignment)
                client.gives = make([*client.gives.items(), *minus(client.reads, after).items()])
                client.gives = minus(client.gives, after)
                client.reads = after

    def rest_beat(self, client: Client, lost: bool, lets_go: bool) -> None:
        coordinator = self.world.coordinator
        answer = self.ask(client, coordinator.rest_heartbeat, "g", client.member_id, client.epoch, lost=lost)
        if answer is not None and answer.revoke and lets_go:
            client.epoch, client.reads, client.gives = answer.generation, make(answer.assignment), {}
            parts = answer.revoke
            answer = self.ask(client, coordinator.rest_revoke, "g", client.member_id, client.epoch, parts, lost=lost)
        if answer is not None:
            client.epoch, client.reads = answer.generation, make(answer.assignment)
            client.gives = make(answer.revoke)

    @rule(slot=SLOTS)
    def leave(self, slot: int) -> None:
        client, coordinator = self.clients[slot], self.world.coordinator
        if not client.epoch:
            return
        client.drop()
        if client.rest:
            self.world.ask(coordinator.rest_leave, "g", client.member_id)
        else:
            beat = ConsumerHeartbeat("g", client.member_id, -1, client.instance)
            self.world.ask(coordinator.consumer_heartbeat, beat)

    @rule(slot=st.integers(0, 1))
    def static_restart(self, slot: int) -> None:
        client = self.clients[slot]
        if client.epoch:
            client.drop()
            beat = ConsumerHeartbeat("g", client.member_id, -2, client.instance)
            self.world.ask(self.world.coordinator.consumer_heartbeat, beat)
            client.lives += 1
            client.member_id = f"c{slot}-{client.lives}"

    @rule(ms=st.sampled_from([1, 5_000, 15_000]))
    def wait(self, ms: int) -> None:
        """Time passes, and clients that were thrown out notice before they read on."""
        self.world.run(ms)
        self.notice()

    def notice(self) -> None:
        known = self.world.coordinator.list_groups() and {
            member.member_id for member in self.world.coordinator.describe("g").members
        }
        for client in self.clients:
            if not known or client.member_id not in known:
                client.drop()

    @rule(a=st.integers(1, 6), b=st.integers(0, 4))
    def topics(self, a: int, b: int) -> None:
        self.world.topics = {"a": a, "b": b}
        self.world.take(self.world.coordinator.topics_changed(self.world.topics, self.world.now))

    @rule(is_full=st.booleans())
    def disk(self, is_full: bool) -> None:
        """What cannot be stored has not happened."""
        self.world.refuses = is_full

    @precondition(lambda self: self.world.stored)
    @rule(share=st.floats(0, 1))
    def crash(self, share: float) -> None:
        """Whatever part of the log is there, no partition is promised twice in it."""
        early = self.world.replayed(int(len(self.world.stored) * share))
        for each in early.list_groups():
            members = early.describe(each.group).members
            held = [
                (t, n) for who in members for parts in (who.assignment, who.revoking) for t, ns in parts for n in ns
            ]
            assert len(set(held)) == len(held)
        self.world.crash()

    @invariant()
    def no_partition_is_read_by_two(self) -> None:
        seen: set[tuple[str, int]] = set()
        for client in self.clients:
            mine = {(topic, n) for parts in (client.reads, client.gives) for topic, ns in parts.items() for n in ns}
            assert not seen & mine, (seen, mine)
            seen |= mine

    @invariant()
    def epochs_do_not_go_back(self) -> None:
        for each in self.world.coordinator.list_groups():
            described = self.world.coordinator.describe(each.group)
            assert described.generation >= self.group_epoch or not described.members
            self.group_epoch = described.generation

    @invariant()
    def the_log_says_what_memory_says(self) -> None:
        fresh = self.world.replayed()
        assert fresh.list_groups() == self.world.coordinator.list_groups()
        for each in fresh.list_groups():
            assert fresh.describe(each.group) == self.world.coordinator.describe(each.group)

    @invariant()
    def every_question_is_answered_at_once(self) -> None:
        assert len(self.world.answers) == self.world.asked

    def teardown(self) -> None:
        """Everybody who is left settles: all partitions read once, and evenly where all read the same."""
        if not hasattr(self, "world"):
            return
        self.world.refuses = False
        for _ in range(40):
            self.world.run(1_000)
            self.notice()
            for client in self.clients:
                self.one_beat(client, lost=False, lets_go=True)
                self.no_partition_is_read_by_two()
        if not self.world.coordinator.list_groups():
            return
        described = self.world.coordinator.describe("g")
        assert described.state in ("Stable", "Empty")
        reading = [member for member in described.members if member.assignment]
        found = sorted((t, n) for member in described.members for t, ns in member.assignment for n in ns)
        wanted = {topic for member in described.members for topic in member.topics}
        assert found == sorted((t, n) for t in wanted for n in range(self.world.topics[t]))
        for client in self.clients:
            held = [member.assignment for member in reading if member.member_id == client.member_id and client.epoch]
            assert listed(client.reads) == (held[0] if held else [])
        if len({tuple(member.topics) for member in described.members}) == 1:
            sizes = [sum(len(ns) for _, ns in member.assignment) for member in described.members]
            assert max(sizes) - min(sizes) <= 1


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
