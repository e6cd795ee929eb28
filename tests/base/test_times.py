"""Durations and points in time as people write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms, parse_time_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1500", 1_500),
        (" 10s ", 10_000),
        ("1500ms", 1_500),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("0.0004s", 0),
        ("PT1.5S", 1_500),
        ("PT2H", 7_200_000),
        ("PT3M", 180_000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4S", 93_784_000),
    ],
)
def test_a_duration_is_read(text: str, ms: int) -> None:
    assert parse_duration_ms(text, "delay") == ms


@pytest.mark.parametrize(
    "text",
    ["", " ", "s", "ms", "-1s", "-1", "1.5", "1 s", "1w", "1S", "10 s", "P", "PT", "P1DT", "PT1", "1s2s", "inf", "nan"],
)
def test_a_bad_duration_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_duration_ms(text, "delay")
    assert caught.value.field == "delay"


@given(st.text(max_size=40) | st.from_regex(r"P?T?[0-9]{1,20}(\.[0-9]{1,5})?[a-zA-Z]{0,2}", fullmatch=True))
def test_any_text_is_a_duration_or_an_invalid_field(text: str) -> None:
    with contextlib.suppress(InvalidField):
        assert parse_duration_ms(text, "delay") >= 0


@pytest.mark.parametrize("text", ["9" * 400 + "s", "P" + "9" * 400 + "D", "PT" + "9" * 400 + "S"])
def test_a_duration_beyond_all_measure_is_refused(text: str) -> None:
    with pytest.raises(InvalidField):
        parse_duration_ms(text, "delay")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T01:00:01+01:00", 1_000),
        ("1970-01-01T00:00:01.234Z", 1_234),
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("1970-01-02", 86_400_000),
    ],
)
def test_a_point_in_time_is_read(text: str, ms: int) -> None:
    assert parse_time_ms(text, "deliverAt") == ms


@pytest.mark.parametrize(
    "text", ["", "now", "tomorrow", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "12:00", "1.5"]
)
def test_a_bad_point_in_time_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_time_ms(text, "deliverAt")
    assert caught.value.field == "deliverAt"


@given(st.text(max_size=40) | st.datetimes().map(lambda moment: moment.isoformat() + "+14:00"))
def test_any_text_is_a_time_or_an_invalid_field(text: str) -> None:
    with contextlib.suppress(InvalidField):
        assert isinstance(parse_time_ms(text, "deliverAt"), int)
