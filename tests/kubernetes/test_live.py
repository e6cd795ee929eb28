"""The chart with the real image on a real Kubernetes: installed, used from inside and outside, and what happens there.

`make test-kubernetes` runs it. The workloads of the chaos suite go on all the time, through node ports, and what they
saw is held against every promise at the end. `DRILLS=kill,scale` takes some of the drills.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

import pytest

from chaos import pods
from chaos.report import write_report
from chaos.running import Outcome, Plan, Run
from chaos.workloads import DOORS
from goqueue.client import Client
from tests.kubernetes.drills import DRILLS, Steps
from tests.kubernetes.lab import KubernetesLab
from tests.kubernetes.release import Release

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
SEED: Final = int(os.environ.get("CHAOS_SEED", "1"))
_CHOSEN: Final = os.environ.get("DRILLS", ",".join(DRILLS)).split(",")
ARTEFACTS: Final = Path(__file__).parents[2] / "build" / "artefacts"


def test_every_promise_is_kept_whatever_happens_to_pods_and_machines(lab: KubernetesLab, tmp_path: Path) -> None:
    release = Release(lab, tmp_path, pods.VALUES)
    with release.installed() as seconds:
        print(f"installed and ready after {seconds:.1f} s", flush=True)
        racks = {one["rack"] for one in release.ask("GET", "/cluster/nodes")["nodes"]}
        assert racks == {"zone-0", "zone-1", "zone-2"}
        outcome = drilled(lab, release)
        assert release.failed_hooks() == []
    write_report(outcome, ARTEFACTS / "kubernetes.html")
    assert not outcome.broken, "\n".join(outcome.broken[:40])


def drilled(lab: KubernetesLab, release: Release) -> Outcome:
    field = pods.PodField(lab, release)
    by_grpc(f"grpc://{lab.machines[0].address}:{release.ports()['grpc']}")
    run = Run(
        Plan(SEED, 0, (), DOORS, command="make test-kubernetes"),
        field,
        (),
        random.Random(SEED),
        lambda word: print(word, flush=True),
    )
    with run.running() as watch:
        run.wait_progress()
        steps = Steps(lab, release, run)
        for name in _CHOSEN:
            DRILLS[name](steps)
        findings = run.finish()
    return run.outcome(findings, watch, {})


def by_grpc(url: str) -> None:
    """Through a node port, as the workloads do it over the other doors."""
    with Client(url, timeout=30) as client:
        client.create_topic("by-grpc")
        client.publish("by-grpc", "through a node port")
        assert client.topic("by-grpc").messages == 1
