"""So many a second, and no more."""

from __future__ import annotations

import pytest

from goqueue.core.token_bucket import TokenBucket


@pytest.mark.parametrize("per_s", [1, 7, 100, 3_333, 1_000_000])
@pytest.mark.parametrize("delay_ms", [0, 3, 40])
def test_the_rate_is_kept_and_never_passed(per_s: int, delay_ms: int) -> None:
    now, given = 1_000, 0
    pace = TokenBucket(per_s, now)
    while now < 21_000:
        given += pace.take(500, now) if per_s < 10_000 else pace.take(per_s, now)
        assert given <= per_s * (now - 1_000) / 1_000 + 1e-6
        now += max(1, pace.wait_ms(500, now)) + delay_ms
    assert given >= 0.95 * per_s * 20 - 1


def test_a_pause_is_not_made_up_for() -> None:
    pace = TokenBucket(1_000, 0)
    assert pace.take(10_000, 60_000) == 100
    assert pace.take(10_000, 60_000) == 0
    assert pace.wait_ms(10_000, 60_000) == 50


def test_without_a_rate_there_is_no_bound() -> None:
    pace = TokenBucket(None, 0)
    assert (pace.take(500, 0), pace.wait_ms(500, 0)) == (500, 0)
