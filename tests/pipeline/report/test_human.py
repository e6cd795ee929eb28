"""Numbers as people read them."""

from __future__ import annotations

import pytest

from goqueue.pipeline import human


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (7, "7"),
        (9_999, "9,999"),
        (10_000, "10 k"),
        (12_345, "12.3 k"),
        (999_499, "999 k"),
        (999_500, "1 M"),
        (4_560_000, "4.56 M"),
        (1.5e12, "1.5 T"),
        (1.5e18, "1,500,000 T"),
        (0.25, "0.25"),
        (0.0004, "4e-04"),
        (13.94, "13.9"),
        (-20_000, "-20 k"),
    ],
)
def test_counts(number: float, shown: str) -> None:
    assert human.count(number) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (1_023, "1023 B"), (1_024, "1 KiB"), (1_536, "1.5 KiB"), (24_536_678, "23.4 MiB"), (2**50, "1 PiB")],
)
def test_sizes(size: int, shown: str) -> None:
    assert human.size(size) == shown


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (0, "0 us"),
        (17, "17 us"),
        (1_300, "1.3 ms"),
        (999_499, "999 ms"),
        (999_500, "1 s"),
        (2_500_000, "2.5 s"),
        (60_000_000, "1 min"),
        (90_000_000, "90 s"),
        (250_000_000, "4 min 10 s"),
        (3_600_000_000, "1 h"),
        (12_000_000_000, "3 h 20 min"),
        (180_000_000_000, "2 d 2 h"),
    ],
)
def test_spans(micros: float, shown: str) -> None:
    assert human.span(micros) == shown


def test_shares_and_moments() -> None:
    assert human.share(1, 8) == "12.5 %"
    assert human.share(1, 4) == "25 %"
    assert human.share(0, 0) == "0 %"
    assert human.moment(1_767_268_800_000) == "2026-01-01 12:00:00"
