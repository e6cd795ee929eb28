"""A cluster of real processes under all workloads, while faults are done to it on purpose: every promise is kept.

The short form takes some kinds of faults once each. `GOQUEUE_LONG_TESTS=1` takes all, for minutes, and shows that rules
which are broken on purpose are noticed. `CHAOS_SEED` and `CHAOS_MINUTES` choose otherwise.
"""

from __future__ import annotations

import faulthandler
import os
import random
from pathlib import Path
from typing import Final

import httpx
import pytest

from chaos.field import open_field
from chaos.histories import LOST, ONE_LEASE, REPLICAS
from chaos.nemeses import NEMESES
from chaos.netlab import no_lab
from chaos.report import write_report
from chaos.running import Outcome, Plan, run
from chaos.workloads import DOORS, workloads_here
from tests.etcd import etcd_program
from tests.long import LONG, only_long
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(3600)]
SECONDS: Final = 60 * float(os.environ.get("CHAOS_MINUTES", "10" if LONG else "0.75"))
SEED: Final = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 20) if LONG else 20))
SHORT: Final = ("kill", "pause", "cut", "cut-one-way", "slow-network", "slow-disk", "etcd")
ARTEFACTS: Final = Path(__file__).parents[2] / "build" / "artefacts"


@pytest.fixture(autouse=True)
def _takes_long() -> None:
    """A run has time limits of its own."""
    faulthandler.cancel_dump_traceback_later()
    etcd_program()


def torment(plan: Plan, root: Path) -> Outcome:
    told: list[str] = []
    try:
        outcome = run(plan, root, told.append)
    finally:
        print("\n".join(["", *told]))
    write_report(outcome, ARTEFACTS / f"chaos{plan.bug and '-' + plan.bug}.html")
    return outcome


def test_every_promise_is_kept_whatever_is_done_to_the_cluster(tmp_path: Path) -> None:
    if why := no_lab():
        pytest.skip(why)
    nemeses, workloads = (tuple(NEMESES), workloads_here()) if LONG else (SHORT, DOORS)
    outcome = torment(Plan(SEED, SECONDS, nemeses, workloads), tmp_path)
    assert not outcome.broken, "\n".join([f"seed {SEED}", *outcome.broken[:40]])
    assert outcome.faults and all(len(ops) > 10 for ops in outcome.ops.values())


@only_long
@pytest.mark.parametrize(
    ("bug", "nemesis", "workload", "promise"),
    [
        ("leases", "kill", "queue", ONE_LEASE),
        ("acks", "cut", "log", LOST),
        ("stamp", "cut", "queue", REPLICAS),
    ],
)
def test_a_rule_that_is_broken_is_noticed(bug: str, nemesis: str, workload: str, promise: str, tmp_path: Path) -> None:
    if why := no_lab():
        pytest.skip(why)
    outcome = torment(Plan(3, 60, (nemesis,), (workload,), bug), tmp_path)
    assert outcome.findings[workload][promise], outcome.broken


def test_the_lab_cuts_and_heals(tmp_path: Path) -> None:
    if why := no_lab():
        pytest.skip(why)
    with open_field(tmp_path, has_clocks=False, has_disks=False) as field:
        assert field.lab is not None
        for member in field.etcd_hosts:
            field.lab.cut(0, member)
        url = f"{field.cluster.nodes[0].url}/readyz"
        wait_until(lambda: httpx.get(url, timeout=10).status_code == 503, "not cut off")
        field.heal()
