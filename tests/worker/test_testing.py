"""`app.testing()`, options and workflows, without a broker."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from goqueue import App, Middleware, Reject, chain, chord, group
from goqueue.worker import InvalidCall, InvalidOption, TaskContext, TaskFailed, TaskTooLarge, current
from goqueue.worker.cron import cron_entry
from goqueue.worker.pace import Ahead, StartRate

app = App("http://127.0.0.1:1")  # nobody is there


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task
async def total(numbers: list[int]) -> int:
    await asyncio.sleep(0)
    return sum(numbers)


@app.task(retries=2, backoff="1h")
def fail_twice() -> int:
    context = current()
    assert context is not None
    if context.failures < 2:
        raise ValueError(f"failure {context.failures}")
    return context.attempt


@app.task(retries=1)
def broken(_: object = None) -> None:
    raise ValueError("broken")


@app.task(unique="1m")
def once(key: str) -> str:
    return key


def test_calls_run_at_once_and_retries_do_not_wait() -> None:
    with app.testing() as ran:
        assert add.delay(1, 2).get() == 3
        assert total.delay([1, 2, 3]).get() == 6
        assert add.at("1h", 1, 1).get() == 2
        assert add.send([(1, 1), (2, 2)]).get() == [2, 4]
        assert fail_twice.delay().get() == 3
        with pytest.raises(TaskFailed, match="ValueError: broken"):
            broken.delay().get()
        assert len(ran.calls) == 7
        assert [one.message for one in ran.dead] == ["broken"]


def test_workflows_run_whole() -> None:
    with app.testing():
        assert chain(add.s(1, 2), add.s(10), add.si(5, 5), add.s(1)).send().get() == 11
        assert chord([add.s(n, n) for n in range(5)], total.s()).send().get() == 20
        assert chord([add.s(1, 1)], total.s()).send().get() == 2, "a group of one is a list of one"
        assert chain(add.s(1, 1), group(add.s(1), add.s(2)), total.s(), add.s(100)).send().get() == 107
        assert group(add.s(1, 1), add.s(2, 2)).send().get() == [2, 4]


def test_who_waits_behind_a_failure_hears_of_it() -> None:
    with app.testing():
        with pytest.raises(TaskFailed, match=r"add did not run, since .*broken failed: broken"):
            chain(broken.s(), add.s(1)).send().get()
        with pytest.raises(TaskFailed, match="total did not run, since a member failed: broken"):
            chord([add.s(1, 1), broken.s()], total.s()).send().get()


def test_a_unique_call_is_made_once() -> None:
    with app.testing() as ran:
        first, second, other = once.delay("a"), once.delay(key="a"), once.delay("b")
        assert (first.id == second.id, first.id == other.id) == (True, False)
        assert len(ran.calls) == 2


@pytest.mark.asyncio
async def test_testing_works_inside_of_a_loop() -> None:
    with app.testing():
        assert await (await total.adelay([1])) == 1
        assert await chain(add.s(1, 1), add.s(1)).asend() is not None


def test_the_function_itself_is_still_one() -> None:
    assert add(1, 2) == 3
    assert asyncio.run(total([4])) == 4


def test_middleware_is_told_of_everything() -> None:
    told: list[str] = []

    class Telling(Middleware):
        def before(self, context: TaskContext, args: list[Any], kwargs: dict[str, Any]) -> None:
            told.append(f"before {context.task} {args}")
            if args == [13]:
                raise Reject("unlucky")

        def after(self, context: TaskContext, result: Any) -> None:
            told.append(f"after {result}")

        def failure(self, context: TaskContext, error: BaseException) -> None:
            told.append(f"failure {error}")

    mine = App()
    mine.use(Telling())
    shown = mine.task(name="shown")(lambda number: number + 1)
    with mine.testing():
        assert shown.delay(1).get() == 2
        with pytest.raises(TaskFailed):
            shown.delay(13).get()
    assert told == ["before shown [1]", "after 2", "before shown [13]", "failure unlucky"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retries": -1}, "retries cannot be negative"),
        ({"backoff": "soon"}, "soon"),
        ({"backoff": []}, "at least one wait"),
        ({"priority": "urgent"}, "priority is one of critical, high"),
        ({"rate_limit": "fast"}, "rate_limit is like 100/s"),
        ({"unique": "2d"}, "at most a day"),
        ({"queue": "a/b"}, "queue"),
        ({"queue": "results"}, "cannot be called results"),
        ({"retires": 3}, "retires"),
        ({"pool": "fork"}, "fork"),
    ],
)
def test_options_that_cannot_be_are_refused_where_they_are_written(options: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        App().task(**options)(lambda: None)


def test_two_tasks_of_one_name_are_refused() -> None:
    mine = App()
    mine.task(name="twice")(print)
    with pytest.raises(InvalidOption, match="two tasks called twice"):
        mine.task(name="twice")(print)


def test_calls_and_workflows_that_cannot_be_are_refused() -> None:
    with app.testing():
        with pytest.raises(TaskTooLarge, match="Put large data elsewhere"):
            total.delay(["x" * 2_000_000])  # type: ignore[list-item]
        with pytest.raises(InvalidCall, match="at least one call"):
            group()
        with pytest.raises(InvalidCall, match="ends with a single task"):
            chain(add.s(1, 1), group(add.s(1))).send()
        with pytest.raises(InvalidCall, match="Behind a group comes a single task"):
            chain(group(add.s(1, 1)), group(add.s(1)))


def test_waits_double_up_to_a_bound_or_are_as_listed() -> None:
    assert [broken.options.delay(n, 0) for n in (1, 2, 3, 20)] == [1, 2, 4, 300]
    listed = App().task(backoff=[1, "10s", 60])(lambda: None).options
    assert [listed.delay(n, 0) for n in (1, 2, 3, 4)] == [1, 10, 60, 60]


def test_short_tasks_are_taken_many_at_once_and_long_ones_as_many_as_can_run() -> None:
    ahead = Ahead(8)
    assert (ahead.room(0), ahead.room(7), ahead.room(8)) == (8, 1, 0)
    for _ in range(50):
        ahead.ended(10, 0.001)
    assert ahead.room(8) == 500
    assert ahead.room(400) == 0, "half of them is used up before more are taken"
    for _ in range(100):
        ahead.ended(1, 10.0)
    assert (ahead.room(7), ahead.room(8)) == (1, 0)


def test_workers_share_a_rate() -> None:
    rate = StartRate(10)
    assert [round(rate.wait(0, 1), 3) for _ in range(3)] == [0, 0.1, 0.2]
    assert [round(rate.wait(10, 2), 3) for _ in range(3)] == [0, 0.2, 0.4]


def test_cron_lines_are_in_their_time_zone() -> None:
    entry = cron_entry("nightly", "0 3 * * *", "Europe/Berlin")
    assert entry.after(datetime(2026, 1, 1, 12, tzinfo=UTC)) == datetime(2026, 1, 2, 2, tzinfo=UTC)
    with pytest.raises(InvalidOption, match="no cron line"):
        App().cron("61 * * * *")(lambda: None)
    with pytest.raises(InvalidOption, match="no time zone"):
        App().cron("0 3 * * *", timezone="Mars/Base")(lambda: None)
