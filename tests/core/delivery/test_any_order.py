"""Everything that can happen to a view, in any order, against a naive model: one entry for each message."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.states import MessageState
from tests.core.delivery.views import GRAVE, Given, Queue, look

LANES = st.sampled_from([0, 2, 4])
KEYS = st.sampled_from([None, b"a", b"b", b"c"])
PICK = st.integers(0, 1 << 16)


@dataclass
class Fate:
    """What the model believes of one message."""

    lane: int
    key: bytes | None
    state: str = "ready"  # leased, waiting, dead, done
    handed: int = 0
    failed: int = 0
    until: int = 0
    owner: str = ""
    given: Given | None = None
    old: list[Given] = field(default_factory=list)  # receipts of leases that are over


class Views(RuleBasedStateMachine):
    """The naive model is a dict; time, lanes, limits and keys are the same for both."""

    @initialize(
        failures=st.integers(0, 3),
        deliveries=st.sampled_from([0, 0, 2, 4]),
        dead_letter_target=st.booleans(),
        ordered=st.booleans(),
        runs=st.booleans(),
    )
    def begin(self, failures: int, deliveries: int, dead_letter_target: bool, ordered: bool, runs: bool) -> None:
        self.policy = Policy(
            lease_ms=100,
            failures_max=failures,
            deliveries_max=deliveries,
            retry_ms=10,
            retry_ms_max=1_000,
            dead_letter_target=GRAVE if dead_letter_target else None,
            ordered=ordered,
        )
        self.queue = Queue(self.policy, runs)
        self.fates: dict[int, Fate] = {}
        self.copies: dict[int, int] = {}

    # --- what happens ----------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 6), lane=LANES, key=KEYS, gap=st.integers(0, 2))
    def publish(self, count: int, lane: int, key: bytes | None, gap: int) -> None:
        for offset in self.queue.publish(count, lane, key, gap):
            self.fates[offset] = Fate(lane, key)

    @rule(
        limit=st.integers(1, 5),
        lane=LANES,
        owner=st.sampled_from(["x", "y", "z"]),
        lease_ms=st.sampled_from([1, 40, 100, 5_000]),
    )
    def take(self, limit: int, lane: int, owner: str, lease_ms: int) -> None:
        free = [
            offset
            for offset, fate in sorted(self.fates.items())
            if fate.state == "ready" and fate.lane == lane and self.may_go(offset, fate)
        ]
        got = self.queue.take(limit, lane, owner, lease_ms)
        offsets = [one.offset for one in got]
        assert len(got) <= limit and len(set(offsets)) == len(offsets)
        for one in got:
            fate = self.fates[one.offset]
            assert fate.state == "ready" and fate.lane == lane, "was not free"
            assert one.offset in free, "its key is with somebody"
            fate.state, fate.handed, fate.until = "leased", fate.handed + 1, self.queue.now + lease_ms
            fate.owner, fate.given = owner, one
            assert one.attempt == fate.handed
            for limit_ in (self.policy.deliveries_max,):
                assert not limit_ or fate.handed <= limit_
        if not self.policy.ordered:
            assert sorted(offsets) == free[: len(offsets)], "not the first that are free"
            assert len(offsets) == min(limit, len(free)), "fewer than there are"
        for key in {self.fates[offset].key for offset in offsets} - {None}:
            ours = [offset for offset in free if self.fates[offset].key == key]
            mine = [offset for offset in offsets if self.fates[offset].key == key]
            assert not self.policy.ordered or mine == ours[: len(mine)], "out of order"

    def pick(self, number: int, state: str) -> list[int]:
        chosen = [offset for offset, fate in sorted(self.fates.items()) if fate.state == state]
        at = number % len(chosen) if chosen else 0
        return chosen[at : at + 1 + number % 3]

    @rule(number=PICK)
    def ack(self, number: int) -> None:
        if offsets := self.pick(number, "leased"):
            self.queue.ack(*offsets)
            for offset in offsets:
                self.over(offset, "done")

    @rule(number=PICK)
    def ack_late(self, number: int) -> None:
        """By somebody whose lease is over: whoever has the message now."""
        open_ = [
            (offset, one)
            for offset, fate in sorted(self.fates.items())
            for one in fate.old
            if self.queue.delivery.was_leased(offset, one.nonce) is not None
        ]
        if open_:
            offset, _ = open_[number % len(open_)]
            if self.fates[offset].state in ("ready", "waiting", "leased"):
                self.queue.ack_late(offset)
                self.over(offset, "done")

    @rule(number=PICK, delay=st.sampled_from([None, 0, 30]), chance=st.floats(0, 1))
    def nack(self, number: int, delay: int | None, chance: float) -> None:
        if offsets := self.pick(number, "leased"):
            self.queue.nack(*offsets, delay_ms=delay, chance=chance)
            for offset in offsets:
                self.fail(offset)
                fate, held = self.fates[offset], self.queue.book.held.get(offset)
                if fate.state == "waiting":
                    assert held is not None
                    fate.until = held.due_ms if held.state is MessageState.WAITING else self.queue.now
                    wait = min(10 << fate.failed - 1, 1_000) if delay is None else delay
                    assert self.queue.now + int(wait * (0.8 if delay is None else 1)) <= fate.until
                    assert fate.until <= self.queue.now + wait

    @rule(number=PICK)
    def release(self, number: int) -> None:
        if offsets := self.pick(number, "leased"):
            self.queue.release(*offsets)
            for offset in offsets:
                self.give_back(offset)

    @rule(number=PICK)
    def reject(self, number: int) -> None:
        if offsets := self.pick(number, "leased"):
            self.queue.reject(*offsets)
            for offset in offsets:
                self.over(offset, "dead" if self.policy.dead_letter_target else "done")

    @rule(number=PICK, lease_ms=st.sampled_from([5, 500]))
    def extend(self, number: int, lease_ms: int) -> None:
        if offsets := self.pick(number, "leased"):
            self.queue.extend(*offsets, until_ms=self.queue.now + lease_ms)
            for offset in offsets:
                self.fates[offset].until = self.queue.now + lease_ms

    @rule(owner=st.sampled_from(["x", "y", "z"]), is_failure=st.booleans())
    def owner_goes(self, owner: str, is_failure: bool) -> None:
        queue = self.queue
        queue.kept(queue.delivery.release_owner(owner, self.policy, queue.now, is_failure))
        for offset, fate in self.fates.items():
            if fate.state == "leased" and fate.owner == owner:
                if is_failure:
                    self.fail(offset)
                else:
                    self.give_back(offset)
        self.due()

    @rule(ms=st.sampled_from([1, 10, 50, 100, 2_000]))
    def wait(self, ms: int) -> None:
        self.queue.wait(ms)
        self.due()
        for offset, fate in self.fates.items():
            if fate.state == "leased" and fate.until <= self.queue.now:
                self.fail(offset)
        self.due()

    @rule()
    def bury(self) -> None:
        for offset in self.queue.bury():
            assert self.fates[offset].state in ("dead", "reopened")
            self.fates[offset].state = "done"
            self.copies[offset] = self.copies.get(offset, 0) + 1

    @rule(lane=LANES, buries=st.booleans(), count=st.integers(1, 4))
    def grow_old(self, lane: int, buries: bool, count: int) -> None:
        """The next messages of the lane that nobody looked at are too old."""
        queue = self.queue
        begin = queue.delivery.look_from(lane)
        chosen = [one.offset for one in queue.log if one.offset >= begin and one.lane == lane][:count]
        chosen = [offset for offset in chosen if self.fates[offset].state == "ready"]
        if buries:
            queue.kept(queue.delivery.dead_letter_unread(lane, chosen, self.policy, queue.now))
        else:
            queue.kept(queue.delivery.drop(lane, chosen))
        for offset in chosen:
            self.over(offset, "dead" if buries and self.policy.dead_letter_target else "done")

    @rule(number=PICK)
    def commit(self, number: int) -> None:
        offset = number % (self.queue.end + 1)
        self.queue.kept(self.queue.delivery.pass_to(offset))
        for at, fate in self.fates.items():
            if at < offset and fate.state != "dead":
                self.over(at, "done")

    @precondition(lambda self: self.queue.end > 0)
    @rule(number=PICK)
    def reset(self, number: int) -> None:
        offset = number % (self.queue.end + 1)
        self.queue.kept(self.queue.delivery.open_at(offset))
        for at, fate in self.fates.items():
            if fate.state == "dead":
                continue  # its copy is owed, and it is not handed out meanwhile
            self.over(at, "done" if at < offset else "ready")
            fate.handed = fate.failed = 0

    @rule()
    def checkpoint(self) -> None:
        self.queue.checkpoint()

    @rule(ms=st.sampled_from([0, 60, 10_000]))
    def restart(self, ms: int) -> None:
        self.queue.now += ms
        self.queue.restart()
        self.due()
        for offset, fate in self.fates.items():
            if fate.state == "leased" and fate.until <= self.queue.now:
                self.give_back(offset)
        self.queue.wait(0)

    # --- what the model makes of it --------------------------------------------------------------------------

    def may_go(self, offset: int, fate: Fate) -> bool:
        """Nothing of its key is with anybody; or it comes back, and what is before it is with nobody."""
        if not self.policy.ordered or fate.key is None:
            return True
        held = [at for at, one in self.fates.items() if one.key == fate.key and one.state in ("leased", "waiting")]
        return not held or (fate.handed > 0 and offset < min(held))

    def over(self, offset: int, state: str) -> None:
        fate = self.fates[offset]
        if fate.given is not None:
            fate.old.append(fate.given)
        fate.state, fate.given, fate.owner = state, None, ""

    def fail(self, offset: int) -> None:
        fate = self.fates[offset]
        fate.failed += 1
        if self.policy.gives_up(fate.failed, fate.handed):
            self.over(offset, "dead" if self.policy.dead_letter_target else "done")
        else:
            fate.until = self.queue.now
            self.over(offset, "waiting")

    def give_back(self, offset: int) -> None:
        fate = self.fates[offset]
        if self.policy.gives_up(0, fate.handed):
            self.over(offset, "dead" if self.policy.dead_letter_target else "done")
        else:
            self.over(offset, "ready")

    def due(self) -> None:
        for fate in self.fates.values():
            if fate.state == "waiting" and fate.until <= self.queue.now:
                fate.state = "ready"

    # --- what must hold --------------------------------------------------------------------------------------

    @invariant()
    def the_states_agree(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.due()
        book = self.queue.book
        for offset, fate in self.fates.items():
            held = book.held.get(offset)
            lane = book.lanes.get(fate.lane)
            if held is not None and held.state is MessageState.WAITING and held.due_ms <= self.queue.now:
                told = "ready"
            elif held is not None:
                told = held.state.name.lower()
            else:
                is_done = offset < book.base if lane is None else lane.is_done(offset)
                told = "done" if is_done else "ready"
            assert told == fate.state, f"{offset} is {told}, not {fate.state}"
            if held is not None and held.handed:
                assert (held.handed, held.failed if fate.state != "dead" else 0) == (
                    fate.handed,
                    fate.failed if fate.state != "dead" else 0,
                )
            if fate.given is not None:
                assert self.queue.delivery.is_leased(*fate.given)
            assert not any(self.queue.delivery.is_leased(*one) for one in fate.old), "a stale receipt"

    @invariant()
    def the_books_are_in_order(self) -> None:
        if not hasattr(self, "queue"):
            return
        book = self.queue.book
        for state in MessageState:
            assert book.counts[state] == sum(one.state is state for one in book.held.values()), state
        in_flight: dict[str, int] = {}
        for one in book.held.values():
            if one.lease is not None:
                assert one.state is MessageState.LEASED
                in_flight[one.lease.owner] = in_flight.get(one.lease.owner, 0) + 1
        assert book.in_flight == in_flight
        assert {offset for offset, one in book.held.items() if one.state is MessageState.DEAD} == set(book.dead)
        for number, lane in book.lanes.items():
            held = [offset for offset, one in book.held.items() if one.lane == number]
            assert lane.held == len(held)
            assert len(lane.done) <= len(held) + 1 + self.unseen_below(number), "done ranges do not merge"
            assert len(lane.ready) <= 4 * len(self.fates) + 8

    def unseen_below(self, number: int) -> int:
        """Dead messages from before a reset can lie above the cursor, and leave gaps until it gets there."""
        lane = self.queue.book.lanes[number]
        return sum(one.lane == number and one.offset >= lane.floor for one in self.queue.log) if self.copies else 0

    @invariant()
    def a_replay_and_a_snapshot_give_the_same(self) -> None:
        if not hasattr(self, "queue"):
            return
        now, book = self.queue.now, self.queue.book
        expected = look(book, now)
        assert look(self.queue.replayed()._state, now) == expected
        records, self.queue.records = self.queue.records, [book.snapshot()]
        assert look(self.queue.replayed()._state, now) == expected
        self.queue.records = records

    def teardown(self) -> None:
        """Who polls on gets everything."""
        if not hasattr(self, "queue"):
            return
        for _ in range(200):
            self.bury()
            if all(fate.state == "done" for fate in self.fates.values()):
                break
            for lane in (0, 2, 4):
                self.take(5, lane, "x", 1_000)
                while self.pick(0, "leased"):
                    self.ack(0)
            self.wait(2_000)
        assert all(fate.state == "done" for fate in self.fates.values()), "something waits for ever"
        book = self.queue.book
        keys = book.keys
        assert not book.held and not keys.locks and not keys.parked and not keys.behind and keys.parked_count == 0
        for lane in (0, 2, 4):  # one more of each moves every floor
            self.publish(1, lane, None, 0)
            self.take(5, lane, "x", 1_000)
            while self.pick(0, "leased"):
                self.ack(0)
            assert book.lane(lane).floor == self.queue.end and len(book.lane(lane).done) == 0


TestViews = Views.TestCase
TestViews.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
