"""A member's life without a broker: what it asks for next, whatever it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from goqueue.client.calls import RestCall
from goqueue.client.errors import ConnectionFailed, ConsumerClosed, GoQueueClientError, MustJoinAgain
from goqueue.client.leases import Leased
from goqueue.client.member_calls import Beat, Joined, Joining, Polled
from goqueue.client.membership import Membership
from goqueue.client.replies import TopicParts
from goqueue.client.retry import Retries
from goqueue.client.steps import Pause, Rebalance, Step, Steps, persist

T = TypeVar("T")
P0, P1 = TopicParts("t", [0]), TopicParts("t", [1])
REFUSED = ConnectionFailed("refused", may_have_arrived=False)
LOST = ConnectionFailed("lost", may_have_arrived=True)
GONE = GoQueueClientError("unknown-member", "d", None, 404)


def joined(generation: int = 1) -> Joined:
    return Joined("", generation, [P0, P1], 3000, 30_000, "cooperative", "partition")


def polled(*values: str, generation: int = 1, rebalance: bool = False) -> Polled:
    return Polled([leased(value) for value in values], generation, rebalance)


def leased(value: str) -> Leased:
    return Leased("t", 0, 0, 0, None, value.encode(), receipt=value, attempt=1, failures=0, leased_until=0)


class Member:
    """Runs steps against scripted answers; `done` is what was asked, told and waited for. Waiting moves the clock."""

    def __init__(self, patience: float = 60.0, **asked: Any) -> None:
        self.now = 100.0
        self.done: list[str] = []
        joining = Joining(group="g", topics=["t"], client_id="c", member_id="m", **asked)
        self.membership = Membership(joining, patience, lambda: self.now)

    def run(self, steps: Steps[T], *answers: object) -> T:
        left = list(answers)
        try:
            step = next(steps)
            while True:
                answer = self._answer(step, left)
                step = steps.throw(answer) if isinstance(answer, Exception) else steps.send(answer)
        except StopIteration as end:
            assert not left
            found: T = end.value
            return found

    def _answer(self, step: Step, left: list[object]) -> object:
        if isinstance(step, Pause):
            self.done.append(f"pause {step.seconds:g}")
            self.now += step.seconds
            return None
        if isinstance(step, Rebalance):
            self.done.append(f"lost {len(step.lost)} gained {len(step.gained)}")
            return None
        assert isinstance(step, RestCall)
        self.done.append(_shown(step))
        answer = left.pop(0)
        if callable(answer):
            return answer()
        if step.wait_seconds and isinstance(answer, Polled) and not answer.messages and not answer.rebalance:
            self.now += step.wait_seconds
        return answer

    def enter(self, **answer: Any) -> None:
        self.run(self.membership.join(), joined(**answer))
        self.run(self.membership.poll(1, 0), polled())
        self.done.clear()

    def values(self, timeout: float, *answers: object, limit: int = 9) -> list[str | None]:
        return [one.text for one in self.run(self.membership.poll(limit, timeout), *answers)]


def _shown(call: RestCall[Any]) -> str:
    verb = call.path.rpartition("/")[2]
    return f"poll {call.query['generation']}" if verb == "poll" else verb


def test_a_poll_joins_first_tells_what_was_gained_and_hands_out() -> None:
    member = Member()
    assert member.values(10, joined(3), polled("a", "b", generation=3)) == ["a", "b"]
    assert member.done == ["join", "lost 0 gained 2", "poll 3"]


def test_a_poll_waits_in_stretches_until_its_time_is_over() -> None:
    member = Member()
    member.enter()
    began = member.now
    assert member.values(25, polled(), polled(), polled()) == []
    assert member.now - began == 25
    assert member.done == ["poll 1"] * 3


def test_a_rebalance_is_gone_along_with_before_the_next_poll() -> None:
    member = Member()
    member.enter()
    assert member.values(10, polled("a", rebalance=True)) == ["a"]
    assert member.done == ["poll 1"], "the caller works on it first"
    member.done.clear()
    revoke = Beat(1, [P0], [P1], [])
    assert member.values(10, revoke, Beat(2, [P0], [], []), polled("b", generation=2)) == ["b"]
    assert member.done == ["heartbeat", "lost 1 gained 0", "revoke", "poll 2"]
    assert member.membership.assignment == [P0]
    member.done.clear()
    gained = Beat(3, [P0, P1], [], [P1])
    assert member.values(10, polled(generation=2, rebalance=True), gained, polled("c", generation=3)) == ["c"]
    assert member.done == ["poll 2", "heartbeat", "lost 0 gained 1", "poll 3"]


@pytest.mark.parametrize("code", ["unknown-member", "illegal-generation", "unknown-group"])
def test_a_member_that_is_out_joins_again(code: str) -> None:
    member = Member()
    member.enter()
    out = GoQueueClientError(code, "d", None, 409)
    assert member.values(10, out, joined(5), polled("a", generation=5)) == ["a"]
    assert member.done == ["poll 1", "join", "lost 2 gained 2", "poll 5"]


def test_a_member_that_is_thrown_out_again_and_again_does_not_spin() -> None:
    member = Member()
    member.enter()
    assert member.values(60, GONE, joined(), GONE, joined(), GONE, joined(), polled("a")) == ["a"]
    assert [one for one in member.done if one.startswith("pause")] == ["pause 0.1", "pause 0.2"]


def test_a_lost_answer_means_joining_again_and_a_refused_connection_does_not() -> None:
    member = Member()
    member.enter()
    assert member.values(60, REFUSED, polled("a")) == ["a"]
    assert member.done == ["poll 1", "pause 0.1", "poll 1"]
    member.done.clear()
    assert member.values(60, LOST, joined(2), polled("b", generation=2)) == ["b"]
    assert [one for one in member.done if not one.startswith("lost")] == ["poll 1", "pause 0.1", "join", "poll 2"]


@pytest.mark.parametrize("code", ["peer-lost", "leader-changed"])
def test_an_answer_that_was_lost_between_nodes_is_a_lost_answer(code: str) -> None:
    """Where the broker acks, polling on would count it as read."""
    member = Member()
    member.enter()
    lost = GoQueueClientError(code, "d", None, 503)
    assert member.values(60, lost, joined(2), polled("b", generation=2)) == ["b"]
    assert [one for one in member.done if not one.startswith("lost")] == ["poll 1", "pause 0.1", "join", "poll 2"]
    out_of_reach = GoQueueClientError("peer-out-of-reach", "d", None, 503)
    assert member.values(60, out_of_reach, polled("c", generation=2)) == ["c"]


@pytest.mark.parametrize("why", [GONE, LOST])
def test_a_member_that_keeps_what_it_holds_does_not_join_again_by_itself(why: Exception) -> None:
    member = Member()
    member.enter()
    for answers in ([why], []):
        with pytest.raises(MustJoinAgain):
            member.run(member.membership.poll(9, 10, keep_held=True), *answers)
    assert member.membership.must_join
    member.now += 10
    member.run(member.membership.beat(), Beat(1, [P0, P1], [], []))
    assert member.done[-1] == "heartbeat", "or what it holds would go to others when its session ends"
    assert "join" not in member.done
    assert member.values(10, joined(2), polled("a", generation=2)) == ["a"]
    assert not member.membership.must_join


def test_a_poll_that_was_cut_off_by_the_caller_is_a_lost_answer() -> None:
    member = Member()
    member.enter()
    steps = member.membership.poll(9, 10)
    next(steps)
    steps.close()
    assert member.values(60, joined(2), polled("b", generation=2)) == ["b"]


def test_pauses_grow_up_to_the_patience() -> None:
    member = Member(patience=10)
    member.enter()
    with pytest.raises(ConnectionFailed):
        member.values(60, *[REFUSED] * 8)
    pauses = [one for one in member.done if one.startswith("pause")]
    assert pauses == [f"pause {seconds}" for seconds in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5)]


def test_an_outage_is_not_longer_than_the_poll_and_patience_counts_on() -> None:
    member = Member(patience=3)
    member.enter()
    assert member.values(0.05, REFUSED, REFUSED) == []
    assert member.done == ["poll 1", "pause 0.05", "poll 1"]
    member.now += 3
    with pytest.raises(ConnectionFailed):
        member.values(1, REFUSED)


@pytest.mark.parametrize("code", ["shutting-down", "overloaded"])
def test_what_passes_is_waited_for(code: str) -> None:
    member = Member()
    member.enter()
    assert member.values(10, GoQueueClientError(code, "d", None, 503), polled("a")) == ["a"]


def test_a_refusal_is_told_at_once_and_so_is_a_first_join_that_fails() -> None:
    with pytest.raises(ConnectionFailed):
        Member().values(10, REFUSED)
    member = Member()
    member.enter()
    with pytest.raises(GoQueueClientError, match="unknown-topic"):
        member.values(10, GONE, GoQueueClientError("unknown-topic", "d", None, 404))


def test_empty_answers_that_did_not_wait_are_not_asked_for_in_a_hurry() -> None:
    member = Member()
    member.enter()
    empty: Callable[[], Polled] = polled  # comes at once
    assert member.values(60, *[empty] * 6, polled("a")) == ["a"]
    assert [one for one in member.done if one.startswith("pause")] == ["pause 0.1", "pause 0.2", "pause 0.4"]


def test_what_was_taken_ahead_is_handed_out_before_the_next_poll() -> None:
    member = Member()
    member.enter()
    assert member.run(member.membership.next(3), polled("a", "b", "c")).text == "a"
    assert member.run(member.membership.next(3)).text == "b"
    assert member.values(10) == ["c"]
    assert member.done == ["poll 1"]


def test_a_heartbeat_notes_what_is_to_be_given_back_and_leaves_it_to_the_poll() -> None:
    member = Member()
    member.enter()
    member.run(member.membership.beat())
    assert member.done == [], "a poll was a heartbeat just now"
    member.now += 3
    member.run(member.membership.beat(), Beat(1, [P0], [P1], []))
    assert member.done == ["heartbeat"]
    member.done.clear()
    assert member.values(10, Beat(2, [P0], [], []), polled("a", generation=2)) == ["a"]
    assert member.done == ["lost 1 gained 0", "revoke", "poll 2"]


def test_a_heartbeat_never_joins_and_what_was_taken_ahead_is_void_when_the_member_is_out() -> None:
    member = Member()
    member.enter()
    assert member.run(member.membership.next(3), polled("a", "b")).text == "a"
    member.now += 3
    member.run(member.membership.beat(), REFUSED)
    member.run(member.membership.beat(), GONE)
    member.run(member.membership.beat())
    assert member.done == ["poll 1", "heartbeat", "heartbeat"]
    assert member.values(10, joined(2), polled("b", generation=2)) == ["b"]


def test_heartbeats_come_three_times_in_a_session() -> None:
    member = Member()
    member.run(member.membership.join(), Joined("", 1, [], 3000, 6000, "cooperative", "shared"))
    assert member.membership.beat_seconds == 2.0


CLOSING = [
    ({"auto_commit": True}, True, ["leave"]),
    ({"auto_commit": True}, False, ["join", "leave"]),
    ({}, False, ["join", "leave"]),
    ({"mode": "shared"}, False, ["leave"]),
    ({"auto_commit": False}, False, ["leave"]),
]


@pytest.mark.parametrize(("asked", "is_done", "calls"), CLOSING)
def test_what_was_not_done_is_not_counted_as_done_by_leaving(
    asked: dict[str, Any], is_done: bool, calls: list[str]
) -> None:
    member = Member(**asked)
    member.enter()
    assert member.values(10, polled("a")) == ["a"]
    member.done.clear()
    member.run(member.membership.close(is_done), *([joined()] if "join" in calls else []), None)
    assert member.done == calls
    member.run(member.membership.close(True))
    with pytest.raises(ConsumerClosed):
        member.values(1)


def test_messages_taken_ahead_or_lost_on_the_way_are_not_counted_as_done_by_leaving() -> None:
    for cut in (False, True):
        member = Member()
        member.enter()
        if cut:
            next(steps := member.membership.poll(9, 10))
            steps.close()
        else:
            member.run(member.membership.next(3), polled("a", "b"))
        member.done.clear()
        member.run(member.membership.close(True), joined(), None)
        assert member.done == ["join", "leave"]


def test_if_giving_back_fails_nothing_is_counted_as_done() -> None:
    member = Member()
    member.enter()
    member.run(member.membership.close(False), LOST)
    assert member.done == ["join"]


def test_who_answers_for_messages_does_so_after_joining_again() -> None:
    member = Member()
    member.enter()
    member.membership.answers()
    member.run(member.membership.close(False), None)
    assert member.done == ["leave"]


def test_leaving_does_not_mind_that_the_broker_is_away_or_knows_nobody() -> None:
    for why in (REFUSED, GONE):
        member = Member(mode="shared")
        member.enter()
        member.run(member.membership.close(True), why)
    Member().run(Member().membership.close(True))


def test_an_answer_that_surely_did_not_arrive_is_repeated() -> None:
    member = Member()
    call: RestCall[str] = RestCall("POST", "/messages/ack", lambda status, body: "")
    retries = Retries(seconds_max=5)
    assert member.run(persist(call, retries, lambda: member.now), REFUSED, REFUSED, "done") == "done"
    for why in (LOST, GONE):
        with pytest.raises(type(why)):
            member.run(persist(call, retries, lambda: member.now), why)
    with pytest.raises(ConnectionFailed):
        member.run(persist(call, retries, lambda: member.now), *[REFUSED] * 9)
