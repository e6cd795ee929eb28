"""Random walks over replication: all rules together lose nothing, and each of them is missed if it is not kept."""

from __future__ import annotations

import os
from typing import Final

import pytest

from goqueue.core.replication.rules import ALL_RULES, ReplicationRule
from tests.core.replication.world import Violation, World

STEPS: Final = 250
WALKS: Final = 20_000 if os.environ.get("GOQUEUE_LONG_TESTS") == "1" else 400
WALKS_TO_FIND: Final = 4_000
# What takes many walks to show: where to begin, so that it is shown soon, and how far each goes. A fetch that counts
# in a later epoch has to be late by two elections. How many walks each rule takes is in docs/cluster-tests.md.
RARE: Final = {
    ReplicationRule.EPOCH: (3_960, 800),
    ReplicationRule.CUT_AT_EPOCH: (1_470, STEPS),
    ReplicationRule.CAUGHT_UP: (795, STEPS),
}


@pytest.mark.parametrize("syncs", [True, False], ids=["always", "interval"])
def test_nothing_acknowledged_is_lost(syncs: bool) -> None:
    acknowledged = elections = 0
    for seed in range(WALKS):
        world = World(seed, syncs=syncs)
        try:
            world.walk(STEPS)
        except Violation as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        acknowledged += len(world.acknowledged)
        elections += world.elections
    assert acknowledged > 2 * WALKS and elections > WALKS, "the walks went somewhere"


@pytest.mark.parametrize("rule", ReplicationRule, ids=lambda rule: rule.name.lower())
def test_a_rule_that_is_not_kept_is_missed(rule: ReplicationRule) -> None:
    first, steps = RARE.get(rule, (0, STEPS))
    for seed in range(first, first + WALKS_TO_FIND):
        try:
            World(seed, ALL_RULES - {rule}).walk(steps)
        except Violation:
            return
    raise AssertionError(f"no walk shows what this is for: {rule.value}")
