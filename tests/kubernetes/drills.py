"""What happens on a Kubernetes, one thing after the other, while clients of all kinds go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from chaos.ops import Op
from chaos.running import Fault, Run
from tests.kubernetes.lab import KubernetesLab
from tests.kubernetes.release import NAME, Release


class Steps:
    """What was done, how long it took, and how long clients of each kind waited at most meanwhile."""

    def __init__(self, lab: KubernetesLab, release: Release, run: Run) -> None:
        self.lab = lab
        self.release = release
        self._run = run
        self._began = time.monotonic()

    def done(self, nemesis: str, message: str) -> None:
        """Since the last step. Returns when everybody has made progress again."""
        ended = time.monotonic()
        self._run.wait_progress()
        assert not self._run.stuck, self._run.stuck
        whole_at = time.monotonic()
        pauses = {one.name: longest_pause_s(one.ops(), self._began, whole_at) for one in self._run.workloads}
        self._run.faults.append(Fault(nemesis, message, self._began, ended, whole_at))
        told = ", ".join(f"{name} {pause:.1f}" for name, pause in pauses.items())
        self._run.say(f"{message:<60} {ended - self._began:6.1f} s; longest pauses: {told}")
        self._began = time.monotonic()


def longest_pause_s(ops: Iterable[Op], began: float, ended: float) -> float:
    """Between two acknowledgements."""
    times = [began, *sorted(one.ended for one in ops if one.is_ok and began < one.ended < ended), ended]
    return max(later - earlier for earlier, later in pairwise(times))


def kill_and_refuse_to_drain(steps: Steps) -> None:
    release, pod = steps.release, f"{NAME}-1"
    before = release.restarts(pod)
    release.kill(pod)
    release.wait_allowed(0)
    assert release.evict(f"{NAME}-0") == 429, "one node is away: no other may go"
    release.wait_whole(3)
    assert release.restarts(pod) == before + 1
    steps.done("pod-kill", "a process killed, until it is in sync again")


def evict_gently(steps: Steps) -> None:
    release = steps.release
    release.wait_allowed(1)
    before = release.uid(f"{NAME}-2")
    assert release.evict(f"{NAME}-2") == 201
    assert release.evict(f"{NAME}-0") == 429, "not while the first is away"
    release.wait_new(f"{NAME}-2", before)
    release.wait_whole(3)
    steps.done("evict", "a pod evicted, until it is in sync again")


def drain_a_machine(steps: Steps) -> None:
    """`kubectl drain`: its volume is there, so the pod waits for the machine."""
    release, machine = steps.release, steps.lab.machines[0].name
    steps.lab.kubectl(
        *("drain", machine, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s"),
        *("--pod-selector", "app.kubernetes.io/component=node"),
    )
    assert len(release.ready()) == 2
    steps.done("drain", "a machine drained")
    steps.lab.kubectl("uncordon", machine)
    release.wait_whole(3)
    steps.done("drain", "the machine is open again, until its node is in sync")


def upgrade(steps: Steps) -> None:
    """No shard is without a leader for long: clients' pauses tell."""
    before = {name: steps.release.uid(name) for name in steps.release.ready()}
    steps.release.upgrade({"podAnnotations": {"round": "2"}})
    after = {name: steps.release.uid(name) for name in steps.release.ready()}
    assert before.keys() == after.keys() and all(before[name] != after[name] for name in before)
    steps.release.wait_whole(3)
    steps.done("rolling-upgrade", "rolling upgrade of three nodes")


def cut_a_machine_off(steps: Steps) -> None:
    lab, release = steps.lab, steps.release
    machine = lab.machines[1]
    lab.cut_off(machine)
    try:
        lab.wait(lambda: release.ask("GET", "/cluster/health")["nodes_gone"] == 1, "nobody notices", 120)
        steps.done("machine-cut", "a machine cut off, until its node is taken for gone")
        lab.wait(lambda: len(release.ready()) == 2, "Kubernetes does not notice", 120)
    finally:
        lab.cut_off(machine, is_cut=False)
    release.wait_whole(3)
    steps.done("machine-cut", "its cable in again, until everything is in sync")


def lose_a_volume(steps: Steps) -> None:
    pod = f"{NAME}-0"
    before = steps.release.uid(pod)
    steps.release.lose_volume(pod)
    steps.release.wait_new(pod, before)
    steps.release.wait_whole(3)
    steps.done("volume-lost", "a volume lost, until everything is copied")


def roll_back_a_missing_image(steps: Steps) -> None:
    _roll_back(steps, {"image": {"tag": "0.0.0-missing"}})
    steps.done("rollback", "an image that does not start, rolled back")


def roll_back_a_wrong_setting(steps: Steps) -> None:
    _roll_back(steps, {"settings": {"log": {"fsync": "sometimes"}}})
    steps.done("rollback", "a setting that no node takes, rolled back")


def _roll_back(steps: Steps, poison: Mapping[str, Any]) -> None:
    """The last pod of the set is tried first; the others are left alone."""
    release = steps.release
    others = [release.uid(f"{NAME}-{number}") for number in (0, 1)]
    release.upgrade(poison, check=False, within="30s")
    assert len(release.ready()) == 2
    release.rollback()
    release.delete(f"{NAME}-2")
    release.wait_whole(3)
    assert [release.uid(f"{NAME}-{number}") for number in (0, 1)] == others


def scale(steps: Steps) -> None:
    lab, release = steps.lab, steps.release
    release.upgrade({"replicas": 5})
    steps.done("scale", "from three nodes to five")
    lab.wait(lambda: min(release.held().values()) > 0 and len(release.held()) == 5, "new nodes hold nothing", 300)
    steps.done("scale", "until the new nodes hold shards")
    release.upgrade({"replicas": 3})
    assert release.held().keys() == {0, 1, 2}
    release.wait_whole(3)
    steps.done("scale", "from five nodes to three")


def lose_the_quorum_of_etcd(steps: Steps) -> None:
    """Nobody may lead without it; nodes come back by themselves when its pods do."""
    release, etcd = steps.release, ("statefulset", f"{NAME}-etcd", "--namespace", steps.release.space)
    steps.lab.kubectl("scale", *etcd, "--replicas=1")
    steps.lab.wait(lambda: release.ready() == [], "nodes are ready without an etcd", 120)
    steps.lab.kubectl("scale", *etcd, "--replicas=3")
    release.wait_whole(3)
    steps.done("etcd-quorum", "two of three pods of etcd gone, until all is back")


DRILLS: Final[dict[str, Callable[[Steps], None]]] = {
    "kill": kill_and_refuse_to_drain,
    "evict": evict_gently,
    "drain": drain_a_machine,
    "upgrade": upgrade,
    "cut": cut_a_machine_off,
    "volume": lose_a_volume,
    "rollback": roll_back_a_missing_image,
    "rollback-setting": roll_back_a_wrong_setting,
    "scale": scale,
    "etcd-quorum": lose_the_quorum_of_etcd,
}
