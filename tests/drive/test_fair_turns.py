"""Requests of several tenants take turns; those of one alone are not held up."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from time import perf_counter

import pytest

from goqueue.base.commands import Caller
from goqueue.base.errors import Overloaded
from goqueue.drive import fair_turns
from goqueue.drive.carry_on import carry_on
from goqueue.drive.fair_turns import ConnectionTurn, FairTurns

A, B = Caller("anna", "rest", tenant="a"), Caller("bert", "rest", tenant="b")


class Turns(FairTurns):
    """Knows how often somebody waited."""

    def __init__(self) -> None:
        self.waits: Counter[str] = Counter()
        super().__init__(lambda door, seconds: self.waits.update([door]))


def busy(seconds: float) -> None:
    until = perf_counter() + seconds
    while perf_counter() < until:
        pass


def work(seconds: float, steps: int = 3) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        for _ in range(steps):
            busy(seconds / steps)
            await asyncio.sleep(0)

    return run


async def flood(turns: FairTurns, caller: Caller, lines: int, until: asyncio.Event) -> int:
    """How many were served."""
    count = 0

    async def line() -> None:
        nonlocal count
        while not until.is_set():
            await turns.serve(caller, work(0.0005))
            count += 1
            await asyncio.sleep(0)

    await asyncio.gather(*(line() for _ in range(lines)))
    return count


@pytest.mark.asyncio
async def test_one_alone_never_waits() -> None:
    turns, over = Turns(), asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, over.set)
    assert await flood(turns, A, 20, over) > 0
    assert not turns.waits


@pytest.mark.asyncio
async def test_whoever_has_ten_times_as_many_requests_gets_no_more() -> None:
    turns, over = Turns(), asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, over.set)
    many, few = await asyncio.gather(flood(turns, A, 40, over), flood(turns, B, 4, over))
    assert turns.waits["rest"] > 0
    assert few > 0.25 * (many + few), (many, few)


@pytest.mark.asyncio
async def test_one_request_beside_many_is_served_before_them() -> None:
    turns, over = Turns(), asyncio.Event()
    await turns.serve(B, work(0))
    flooding = asyncio.ensure_future(flood(turns, A, 100, over))
    before = []
    for _ in range(20):
        await asyncio.sleep(0.01)
        passes, running = 0, asyncio.ensure_future(turns.serve(B, work(0.0001)))
        while not running.done():
            passes += 1
            await asyncio.sleep(0)
        before.append(passes)
    over.set()
    await flooding
    assert sorted(before)[10] <= 10, "passes of the loop until it was served, of which each has a bounded time"


@pytest.mark.asyncio
async def test_whoever_had_less_than_all_who_wait_begins_at_once() -> None:
    turns = Turns()
    await turns.serve(B, work(0))
    flooding = [asyncio.ensure_future(turns.serve(A, work(0.002, steps=1))) for _ in range(20)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not turns.waits["grpc"]
    one = asyncio.ensure_future(turns.serve(Caller("bert", "grpc", tenant="b"), _answer))
    await asyncio.sleep(0)
    assert one.done() and not turns.waits["grpc"]
    await asyncio.gather(*flooding)


@pytest.mark.asyncio
async def test_a_pass_without_requests_of_the_line_follows_one_with_some() -> None:
    """Who comes meanwhile does not wait for two of them."""
    turns, begun, now = Turns(), set[int](), 0

    async def run() -> None:
        begun.add(now)
        busy(0.0005)

    await turns.serve(B, work(0))
    flooding = [asyncio.ensure_future(turns.serve(A, run)) for _ in range(20)]
    while not all(one.done() for one in flooding):
        await asyncio.sleep(0)
        now += 1
    times = sorted(begun)
    assert len(times) >= 10 and all(later - earlier > 1 for earlier, later in pairwise(times[1:])), times


@pytest.mark.asyncio
async def test_users_without_a_tenant_have_a_share_each() -> None:
    turns = Turns()
    assert turns.share(Caller("ada")) is None
    assert turns.share(Caller("ada")) is None
    first, second = turns.share(Caller("bob")), turns.share(Caller("ada"))
    assert first is not None and second is not None and first is not second
    one, other = turns.share(Caller("anna", tenant="a")), turns.share(Caller("arno", tenant="a"))
    assert one is other is not None
    assert turns.share(Caller("a")) is not one, "a user that is called like the tenant"


@pytest.mark.asyncio
async def test_who_has_not_shown_who_it_is_is_nobody_to_share_with() -> None:
    turns = Turns()
    for _ in range(3):
        assert turns.share(A) is None
        assert turns.share(Caller()) is None


@pytest.mark.asyncio
async def test_after_a_while_without_others_one_is_alone_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_turns, "_SHARED_S", -1.0)
    turns = Turns()
    assert turns.share(A) is None
    assert turns.share(B) is not None
    assert turns.share(B) is None
    assert turns.share(B) is None


@pytest.mark.asyncio
async def test_whoever_waits_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_turns, "FAIR_WAIT_S_MAX", 0.0)
    turns = Turns()
    await turns.serve(B, work(0))
    results = await asyncio.gather(*(turns.serve(A, work(0.001)) for _ in range(20)), return_exceptions=True)
    assert any(isinstance(one, Overloaded) for one in results)
    monkeypatch.undo()
    assert await turns.serve(A, _answer) == "served", "it goes on after that"


@pytest.mark.asyncio
async def test_whoever_goes_away_leaves_its_place_to_the_next() -> None:
    turns = Turns()
    await turns.serve(B, work(0))
    waiting = [asyncio.ensure_future(turns.serve(A, work(0.002))) for _ in range(30)]
    await asyncio.sleep(0)
    for one in waiting[5:]:
        one.cancel()
    assert await asyncio.wait_for(turns.serve(B, _answer), 20) == "served"
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert done[:5] == [None] * 5


async def _answer() -> str:
    return "served"


@pytest.mark.asyncio
async def test_errors_and_cancellations_pass_through() -> None:
    turns = Turns()
    await turns.serve(B, work(0))

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cleaned.append(True)
            raise

    cleaned: list[bool] = []
    with pytest.raises(ValueError, match="mine"):
        await turns.serve(A, fails)
    running = asyncio.ensure_future(turns.serve(A, waits))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cleaned == [True]


@pytest.mark.asyncio
async def test_what_goes_on_in_a_task_of_its_own_counts_once() -> None:
    turns = Turns()
    await turns.serve(B, work(0))
    share = turns.share(A)
    assert share is not None
    before, began = share.used, perf_counter()

    async def outer() -> None:
        await turns.serve(A, inner)  # a request within a request takes no second turn

    async def inner() -> None:
        await carry_on(_busy())

    async def _busy() -> None:
        busy(0.02)

    await turns.serve(A, outer)
    assert 0.02 <= share.used - before <= perf_counter() - began


class Connection:
    """Begins a request of 0.2 ms at a time, as often as it may."""

    def __init__(self, turns: FairTurns, caller: Caller, requests: int) -> None:
        self.left = requests
        self.done = asyncio.Event()
        self._caller = caller
        self._turn = ConnectionTurn(turns, "kafka", self.pump)

    def pump(self) -> None:
        while self.left and self._turn.may_begin(self._caller):
            busy(0.0002)
            self.left -= 1
            self._turn.begun()
        if not self.left:
            self.done.set()


@pytest.mark.asyncio
async def test_connections_with_much_to_do_leave_half_to_the_other() -> None:
    turns = Turns()
    turns.share(B)
    many, few = [Connection(turns, A, 50) for _ in range(20)], Connection(turns, B, 20)
    for one in (*many, few):
        one.pump()
    await few.done.wait()
    assert sum(50 - one.left for one in many) < 500, "about as many as the other had, and what one pass allows"
    await asyncio.gather(*(one.done.wait() for one in many))
    assert turns.waits["kafka"] > 0
