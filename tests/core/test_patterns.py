"""Patterns that clients send: the whole name has to match, and no pattern takes long."""

from __future__ import annotations

import random
import time

import pytest

from goqueue.base.limits import NAME_CHARS_MAX, PATTERN_STEPS_MAX
from goqueue.core.patterns import InvalidPattern, compile_pattern

EVIL = [
    "(a+)+$",
    "(a|a)*b",
    "(a|aa)+b",
    "(.*)*x",
    ".*.*.*.*.*.*.*.*.*x",
    "(x+x+)+y",
    "([a-zA-Z]+)*!",
    "(a?){100}a{100}",
    "[ab]*a[ab]{400}",
    "(.*a){20}x",
    "((a{0,50}){0,8})x",
]
NAMES = [
    "a" * (NAME_CHARS_MAX - 1) + "!",
    *("".join(random.Random(7).choices("ab", k=NAME_CHARS_MAX)) for _ in range(9)),
]


@pytest.mark.parametrize("text", EVIL)
def test_an_evil_pattern_takes_milliseconds_of_processor_time(text: str) -> None:
    began = time.process_time()
    pattern = compile_pattern(text)
    for name in NAMES:
        pattern.matches(name)
    assert time.process_time() - began < 0.5  # Python's own engine needs minutes for most of them


@pytest.mark.parametrize("text", ["(.{0,100}a){100}x", "(((a{30}){30}){30}){30}", r"(\p{L}{1,100}){1,10}"])
def test_a_pattern_of_too_many_steps_is_refused_soon(text: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidPattern):
        compile_pattern(text)
    assert time.process_time() - began < 0.5


def test_the_bound_of_steps_leaves_room_for_long_lists_of_names() -> None:
    text = "|".join(f"orders-of-region-{number:02}" for number in range(40))
    assert compile_pattern(text).matches("orders-of-region-07")
    assert PATTERN_STEPS_MAX >= 1_000


@pytest.mark.parametrize("text", ["(", "[", "a**", r"(.)\1", "(?<=a)b", "\\", "x" * 1_001])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern(text)


def test_a_pattern_matches_whole_names() -> None:
    pattern = compile_pattern("orders|clicks.*")
    assert [name for name in ("orders", "orders2", "my-orders", "clicks.eu", "Größe") if pattern.matches(name)] == [
        "orders",
        "clicks.eu",
    ]
    assert compile_pattern("Gr.ße").matches("Größe")


def test_topics_that_come_and_go_are_found_and_forgotten() -> None:
    pattern = compile_pattern("come-and-go-.*")
    assert pattern.among({"come-and-go-1": 1, "other": 1}) == {"come-and-go-1"}
    assert pattern.among({"come-and-go-1": 1, "come-and-go-2": 1}) == {"come-and-go-1", "come-and-go-2"}
    assert pattern.among({"come-and-go-2": 1, "new": 4}) == {"come-and-go-2"}
    assert pattern.among({}) == frozenset()


def test_looking_can_pause_and_be_broken_off() -> None:
    topics = {f"paused-{number}": 1 for number in range(10)}
    pattern = compile_pattern("paused-[0-4]")
    looking = pattern.look(topics)
    next(looking)
    looking.close()
    assert pattern.among(topics) == {f"paused-{number}" for number in range(5)}
    assert list(pattern.look(topics)) == []  # nothing is looked at twice
