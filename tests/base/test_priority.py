"""The five lanes by name, by number and by record header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.base.errors import InvalidField
from goqueue.base.priority import HEADER, NAMES, NORMAL, parse_priority, priority_of


@pytest.mark.parametrize("number", range(5))
def test_a_lane_is_named_by_word_number_or_digit(number: int) -> None:
    assert parse_priority(NAMES[number]) == parse_priority(number) == parse_priority(str(number)) == number


def test_zero_is_critical_and_not_unset() -> None:
    assert parse_priority(0) == 0 and NAMES[0] == "critical" and NAMES[NORMAL] == "normal"


@pytest.mark.parametrize("value", [-1, 5, True, False, "", "5", "-1", "urgent", "High", "1.0", " 1", 2**70])
def test_anything_else_is_refused(value: str | int) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_priority(value, "messages[0].priority")
    assert caught.value.field == "messages[0].priority"


def test_a_very_long_number_is_refused() -> None:
    with pytest.raises(InvalidField):
        parse_priority("1" * 5_000)


@pytest.mark.parametrize(
    ("value", "lane"),
    [
        (b"0", 0),
        (b"critical", 0),
        (b"4", 4),
        (b"background", 4),
        (b"9", NORMAL),
        (b"", NORMAL),
        (b"\xff", NORMAL),
        (None, NORMAL),
    ],
)
def test_a_header_names_the_lane_and_nonsense_means_normal(value: bytes | None, lane: int) -> None:
    assert priority_of((("other", b"0"), (HEADER, value))) == lane


def test_no_header_means_normal() -> None:
    assert priority_of(()) == NORMAL


@given(st.binary(max_size=20))
def test_any_header_value_gives_a_lane(value: bytes) -> None:
    assert priority_of(((HEADER, value),)) in range(5)


def test_a_very_long_header_value_means_normal() -> None:
    assert priority_of(((HEADER, b"1" * 5_000),)) == NORMAL
