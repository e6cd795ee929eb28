"""Which lane is next: shares, the guard, strict order."""

from __future__ import annotations

from collections import Counter

import pytest

from goqueue.core.lanes import GUARD_MS, WEIGHTS, LaneTurn

LANES = len(WEIGHTS)
FULL = [True] * LANES


def serve(
    lanes: LaneTurn, waiting: list[bool], now: int, size: int, counts: Counter[int], strict: bool = False
) -> None:
    """One poll of this size, as the queue does it."""
    left = size
    while left:
        chosen = lanes.next(waiting, now, strict)
        assert chosen is not None
        lane, most = chosen
        count = min(most, left)
        assert waiting[lane] and count > 0
        lanes.served(lane, count, now)
        counts[lane] += count
        left -= count


@pytest.mark.parametrize("size", [1, 7, 100])
def test_full_lanes_get_their_shares(size: int) -> None:
    lanes, counts = LaneTurn(), Counter[int]()
    while counts.total() < 10_000:
        serve(lanes, FULL, 0, size, counts)
    shares = [100 * counts[lane] / counts.total() for lane in range(LANES)]
    assert all(abs(share - weight) <= 2 for share, weight in zip(shares, WEIGHTS, strict=True)), shares


@pytest.mark.parametrize("size", [1, 7, 100])
def test_what_an_empty_lane_cannot_use_goes_to_the_others_by_weight(size: int) -> None:
    lanes, counts = LaneTurn(), Counter[int]()
    while counts.total() < 10_000:
        serve(lanes, [False, True, True, False, True], 0, size, counts)
    total = 25 + 15 + 3
    for lane in (1, 2, 4):
        assert abs(100 * counts[lane] / counts.total() - 100 * WEIGHTS[lane] / total) <= 2
    assert set(counts) == {1, 2, 4}


def test_no_lane_has_anything() -> None:
    assert LaneTurn().next([False] * LANES, 0) is None
    assert LaneTurn().next([False] * LANES, 0, strict=True) is None


def test_a_lane_that_waited_too_long_goes_first_once() -> None:
    lanes, counts = LaneTurn(weights=(1_000_000, 1, 1, 1, 1)), Counter[int]()
    for now in range(0, GUARD_MS, 1_000):
        serve(lanes, FULL, now, 10, counts)
    assert set(counts) == {0}
    assert lanes.next(FULL, GUARD_MS) == (1, 1)
    served = []
    for _ in range(5):
        chosen = lanes.next(FULL, GUARD_MS)
        assert chosen is not None
        served.append(chosen[0])
        lanes.served(chosen[0], 1, GUARD_MS)
    assert served == [1, 2, 3, 4, 0]


def test_nobody_waits_longer_than_the_guard_and_a_little() -> None:
    lanes = LaneTurn(weights=(1_000_000, 1, 1, 1, 1))
    last = [0] * LANES
    for now in range(0, 10 * GUARD_MS, 500):
        chosen = lanes.next(FULL, now)
        assert chosen is not None
        lanes.served(chosen[0], 1, now)
        last[chosen[0]] = now
        assert all(now - one <= GUARD_MS + 500 * LANES for one in last)


def test_a_lane_that_was_empty_did_not_wait() -> None:
    lanes = LaneTurn(weights=(1_000_000, 1, 1, 1, 1))
    lanes.next([True, True, False, False, False], 0)
    lanes.served(0, 1, 0)
    lanes.next([True, False, False, False, False], GUARD_MS - 1)
    lanes.served(0, 1, GUARD_MS - 1)
    chosen = lanes.next([True, True, False, False, False], GUARD_MS + 1)
    assert chosen is not None and chosen[0] == 0


def test_a_lane_that_had_none_after_all_loses_its_turn() -> None:
    lanes = LaneTurn()
    assert lanes.next(FULL, 0) == (0, 50)
    lanes.served(0, 0, 0)
    assert lanes.next(FULL, 0) == (1, 25)


def test_a_turn_goes_on_over_polls() -> None:
    lanes, counts = LaneTurn(), Counter[int]()
    for _ in range(49):
        serve(lanes, FULL, 0, 1, counts)
    assert lanes.next(FULL, 0) == (0, 1)
    serve(lanes, FULL, 0, 1, counts)
    assert lanes.next(FULL, 0) == (1, 25)


def test_strict_always_serves_the_highest() -> None:
    lanes, counts = LaneTurn(), Counter[int]()
    for now in range(0, 10 * GUARD_MS, 1_000):
        serve(lanes, [False, True, False, True, True], now, 7, counts, strict=True)
    assert set(counts) == {1}
    chosen = lanes.next([False, False, False, True, True], 0, strict=True)
    assert chosen is not None and chosen[0] == 3
