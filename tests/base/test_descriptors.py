"""Descriptors are shared out so that the logs always have theirs."""

from __future__ import annotations

import pytest

from goqueue.base.descriptors import share_out
from goqueue.base.limits import DESCRIPTORS_MIN, DESCRIPTORS_SPARE
from goqueue.base.startup_errors import TooFewDescriptors


@pytest.mark.parametrize("allowed", [DESCRIPTORS_MIN, 160, 256, 1024, 4096, 65_536, 1 << 20])
def test_all_together_never_take_more_than_is_allowed(allowed: int) -> None:
    plan = share_out(allowed, 40)
    assert plan.connections + plan.active_segments + plan.sealed_segments + 40 + DESCRIPTORS_SPARE <= allowed
    assert min(plan.connections, plan.active_segments, plan.sealed_segments) >= 4


def test_too_few_are_refused_at_start() -> None:
    with pytest.raises(TooFewDescriptors, match="ulimit"):
        share_out(DESCRIPTORS_MIN - 1, 10)
