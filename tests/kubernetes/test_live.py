"""The chart with the real image on a real Kubernetes: installed, used from inside and outside, and what happens there.

`make test-kubernetes` runs it. An idempotent C producer writes through node ports all the time; at the end everything
that it was told is safe is there, once and in order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.clients import Writer, check_kept, read_from
from tests.kubernetes.lab import KubernetesLab
from tests.kubernetes.programs import kube_program, require_programs, small_images
from tests.kubernetes.release import NAME, SPACE, Release
from tools.image.__main__ import build

pytestmark = [
    pytest.mark.skipif(os.environ.get("GOQUEUE_KUBERNETES_TESTS") != "1", reason="runs with make test-kubernetes"),
    pytest.mark.slow,
    pytest.mark.timeout(1500),
]
TOPIC: Final = "orders"
_IMAGE: Final = os.environ.get("GOQUEUE_IMAGE")  # a file that `make image` wrote; without, one is built


class Steps:
    """What was done, how long it took, and how long the producer waited at most meanwhile."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._began = time.monotonic()

    def done(self, what: str, seconds: float | None = None) -> None:
        took = time.monotonic() - self._began if seconds is None else seconds
        self._writer.wait_more(20)
        pause = self._writer.longest_s
        print(f"{what:<50} {took:7.1f} s   longest wait for an acknowledgement {pause:5.2f} s", flush=True)
        self._writer.longest_s, self._began = 0.0, time.monotonic()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesLab]:
    require_programs()
    kube_program()
    folder = tmp_path_factory.mktemp("kube")
    image = Path(_IMAGE) if _IMAGE else folder / "goqueue-image.tar"
    if _IMAGE is None:
        build(image, folder / "roots")
    began = time.monotonic()
    with KubernetesLab(folder / "lab", [image, *small_images(image, folder)]) as running:
        print(f"\nthree machines ready after {time.monotonic() - began:.1f} s", flush=True)
        running.volumes(6)
        yield running


def test_a_release_lives_through_what_happens(lab: KubernetesLab, tmp_path: Path) -> None:
    release = Release(lab, tmp_path)
    print(f"installed and ready after {release.install():.1f} s", flush=True)
    client = login(release)
    make_topic(release, client)
    racks = {one["rack"] for one in release.ask("GET", "/cluster/nodes")["nodes"]}
    assert racks == {"zone-0", "zone-1", "zone-2"}
    all_doors_inside(lab, release)
    with Writer(release, TOPIC, pause_s=0.01, client=client) as writer:
        writer.wait_more()
        steps = Steps(writer)
        kill_and_refuse_to_drain(release, steps)
        evict_gently(release, steps)
        steps.done("rolling upgrade of three nodes", release.upgrade({"podAnnotations": {"round": "2"}}))
        cut_a_machine_off(lab, release, steps)
        lose_a_volume(release, steps)
        roll_back_what_does_not_start(release, steps)
        scale(lab, release, steps)
        writer.wait_more(100)
    print(f"{len(writer.acknowledged)} messages acknowledged, {len(writer.failed)} failed", flush=True)
    assert writer.failed == []
    check_kept(writer, read_from(release.bootstrap, TOPIC, client))


def login(release: Release) -> dict[str, Any]:
    user, password = release.operator
    return {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


def make_topic(release: Release, client: dict[str, Any]) -> None:
    """By node ports."""
    admin = AdminClient({"bootstrap.servers": release.bootstrap, **client})
    told = admin.list_topics(timeout=60).brokers.values()
    assert sorted(f"{one.host}:{one.port}" for one in told) == sorted(release.bootstrap.split(","))
    assert sorted(one.port for one in told) == [31090, 31091, 31092]
    for made in admin.create_topics([NewTopic(TOPIC, 12)]).values():
        made.result(60)


def all_doors_inside(lab: KubernetesLab, release: Release) -> None:
    script = (Path(__file__).parent / "inside.py").read_text()
    host, key = f"{NAME}.{SPACE}.svc.cluster.local", ":".join(release.operator)
    command = ["/usr/bin/python3.11", "-c", script, host, key, release.signing_key()]
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "client", "image": "goqueue:0.1.0", "imagePullPolicy": "Never", "command": command}],
    }
    lab.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "namespace": SPACE}, "spec": spec})
    ended = ("Succeeded", "Failed")
    seconds = lab.wait(lambda: lab.phase(SPACE, "client") in ended, "the client in a pod did not end", 300)
    told = lab.kubectl("logs", "client", "--namespace", SPACE).stdout
    assert lab.phase(SPACE, "client") == "Succeeded", told
    assert "all doors answered" in told
    print(f"clients of all doors inside a pod: {seconds:.1f} s", flush=True)


def kill_and_refuse_to_drain(release: Release, steps: Steps) -> None:
    before = release.restarts(f"{NAME}-1")
    release.kill(f"{NAME}-1")
    release.wait_allowed(0)
    assert release.evict(f"{NAME}-0") == 429, "one node is away: no other may go"
    release.wait_ready(3)
    assert release.restarts(f"{NAME}-1") == before + 1
    steps.done("a node killed, until it is in sync again")


def evict_gently(release: Release, steps: Steps) -> None:
    release.wait_allowed(1)
    before = release.uid(f"{NAME}-2")
    assert release.evict(f"{NAME}-2") == 201
    assert release.evict(f"{NAME}-0") == 429, "not while the first is away"
    release.wait_new(f"{NAME}-2", before)
    release.wait_ready(3)
    steps.done("a pod evicted, as a drain does")


def cut_a_machine_off(lab: KubernetesLab, release: Release, steps: Steps) -> None:
    machine = lab.machines[1]
    lab.cut_off(machine)
    try:
        lab.wait(lambda: release.ask("GET", "/cluster/health")["nodes_gone"] == 1, "nobody notices", 120)
        steps.done("a machine cut off, until its node is taken for gone")
        lab.wait(lambda: len(release.ready()) == 2, "Kubernetes does not notice", 120)
    finally:
        lab.cut_off(machine, is_cut=False)
    release.wait_ready(3)
    steps.done("its cable in again, until everything is in sync")


def lose_a_volume(release: Release, steps: Steps) -> None:
    before = release.uid(f"{NAME}-0")
    release.lose_volume(f"{NAME}-0")
    release.wait_new(f"{NAME}-0", before)
    release.wait_ready(3)
    steps.done("a volume lost, until everything is copied")


def roll_back_what_does_not_start(release: Release, steps: Steps) -> None:
    """The last pod of the set is tried first; the others are left alone."""
    others = [release.uid(f"{NAME}-{number}") for number in (0, 1)]
    release.upgrade({"image": {"tag": "0.0.0-missing"}}, check=False, within="40s")
    assert len(release.ready()) == 2
    release.rollback()
    release.delete(f"{NAME}-2")
    release.wait_ready(3)
    assert [release.uid(f"{NAME}-{number}") for number in (0, 1)] == others
    steps.done("an image that does not start, rolled back")


def scale(lab: KubernetesLab, release: Release, steps: Steps) -> None:
    steps.done("from three nodes to five", release.upgrade({"replicas": 5}))
    lab.wait(lambda: min(release.held().values()) > 0 and len(release.held()) == 5, "new nodes hold nothing", 300)
    steps.done("until the new nodes hold shards")
    steps.done("from five nodes to three", release.upgrade({"replicas": 3}))
    assert release.held().keys() == {0, 1, 2}
    assert release.ask("GET", "/cluster/health")["status"] == "ok"
