"""Leaders that lack something, deleted heads, lost disks and late messages, at random: whatever is acknowledged stays,
and all replicas become equal."""

from __future__ import annotations

import asyncio
import os
from typing import Final

import pytest

from goqueue.sim.time import VirtualLoop, run_virtually
from tests.drive.unclean_world import UncleanCluster
from tests.long import LONG

WALKS: Final = int(os.environ.get("UNCLEAN_WALKS", "3000" if LONG else "300"))
STEPS: Final = 300


def walk(seed: int, steps: int = STEPS) -> UncleanCluster:
    async def main(loop: VirtualLoop) -> UncleanCluster:
        cluster = UncleanCluster(loop, seed)
        try:
            await cluster.walk(steps)
        finally:
            for background in cluster.background.values():
                background.slow.die()
            await asyncio.sleep(0)
        return cluster

    return run_virtually(main)


@pytest.mark.timeout(60 + WALKS)
def test_what_is_acknowledged_stays_and_replicas_become_equal() -> None:
    acknowledged = unclean = 0
    for seed in range(WALKS):
        try:
            cluster = walk(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        unclean += cluster.unclean
        acknowledged += sum(len(one.acknowledged) for one in cluster.ledger.logs.values())
    assert acknowledged > 5 * WALKS and unclean > WALKS, "the walks went somewhere"
