"""Rates of shards, from counters."""

from __future__ import annotations

from goqueue.core.cluster.traffic import ShardTraffic, TrafficRates
from goqueue.core.replication.copy_rates import WINDOW_MS, CopyRates


def test_rates_follow_what_is_counted_and_forget_what_was() -> None:
    rates = TrafficRates()
    rates.counted({1: (0, 0)}, 1_000)
    assert rates.of(1) == ShardTraffic(), "one look says nothing"
    rates.counted({1: (5_000, 10_000), 2: (7, 7)}, 6_000)
    assert rates.of(1) == ShardTraffic(1_000, 2_000) and rates.of(2) == ShardTraffic()
    for look in range(20):
        rates.counted({1: (5_000, 10_000)}, 11_000 + 5_000 * look)
    assert rates.of(1).written < 1 and rates.of(2) == ShardTraffic(), "it is idle, and the other is gone"


def test_counters_that_begin_anew_are_no_traffic() -> None:
    rates = TrafficRates()
    rates.counted({1: (1_000_000, 0)}, 0)
    rates.counted({1: (10, 0)}, 5_000)
    assert rates.of(1) == ShardTraffic()


def test_a_copy_has_the_rate_of_the_last_seconds() -> None:
    rates = CopyRates()
    assert rates.per_s(0, 3, 0) == 0
    for step in range(300):
        rates.sent(0, 3, 100_000, 100 * step)
    assert 950_000 < rates.per_s(0, 3, 30_000) < 1_100_000
    assert rates.per_s(0, 2, 30_000) == 0
    assert rates.per_s(0, 3, 30_000 + 2 * WINDOW_MS) == 0, "nothing was sent lately"
