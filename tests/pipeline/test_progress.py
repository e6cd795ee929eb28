"""What is seen of a pipeline while it runs."""

from __future__ import annotations

import io

import pytest

from goqueue.pipeline.live import watched
from goqueue.pipeline.progress import lines


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_step_is_told_when_it_is_over() -> None:
    out, clock = io.StringIO(), Clock()
    told = lines("archive", out, clock)
    told.step("looking")
    clock.now += 0.5
    told.step("reading", 0, 50_000)
    clock.now += 1.0
    told.step("reading", 20_000)
    assert out.getvalue() == "archive: looking  500 ms\n"
    clock.now += 1.0
    told.step("reading", 50_000)
    told.close()
    last = out.getvalue().splitlines()[-1]
    assert last == "archive: reading  50,000 of 50,000 rows  25 k/s  2 s"


def test_a_long_step_is_told_every_two_seconds() -> None:
    out, clock = io.StringIO(), Clock()
    told = lines("rates", out, clock)
    for done in range(0, 100, 10):
        told.step("counting", done, 100)
        clock.now += 0.5
    told.close()
    assert out.getvalue().splitlines() == [
        "rates: counting  40 of 100 rows  20/s  2 s …",
        "rates: counting  80 of 100 rows  20/s  4 s …",
        "rates: counting  90 of 100 rows  18/s  5 s",
    ]


def test_a_step_without_a_total_tells_its_rows() -> None:
    out, clock = io.StringIO(), Clock()
    told = lines("x", out, clock)
    told.step("moving", 5)
    clock.now += 1
    told.close()
    told.close()
    assert out.getvalue() == "x: moving  5 rows  5/s  1 s\n"


def test_what_fails_leaves_no_line_that_says_it_is_done() -> None:
    out = io.StringIO()
    with pytest.raises(ValueError, match="broken"), watched("x", out) as told:
        told.step("moving", 5)
        raise ValueError("broken")
    assert out.getvalue() == ""


def test_a_terminal_shows_a_bar_and_keeps_a_line_for_each_step() -> None:
    out = Terminal()
    with watched("archive", out) as told:
        told.step("looking [for] topics")
        told.step("reading", 10, 40)
        told.step("reading", 40, 40)
    shown = out.getvalue()
    assert "✓" in shown and "looking [for] topics" in shown
    assert "40 of 40 rows" in shown and "10 of 40 rows" not in shown.rsplit("✓", 1)[1]
