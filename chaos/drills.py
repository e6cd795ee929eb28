"""Drills of the runbook: one thing breaks, it is seen as the runbook says, and what the runbook says mends it.

Clients write and take leases all the while, and what they saw is checked at the end.
"""

from __future__ import annotations

import random
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

from bench.node_process import NodeProcess
from chaos.field import Field, no_disks, open_field
from chaos.netlab import no_lab
from chaos.running import Plan, Run, Tell
from tests.certificates import Authority
from tests.waiting import wait_until

_WORKLOADS: Final = ("log", "queue")
_STILL_S: Final = 1.5
_LOOK_AT: Final = "openssl s_client -connect NODE:8080 </dev/null 2>/dev/null | openssl x509 -noout -enddate"


class Drill:
    """A cluster under load, and somebody who looks and types."""

    def __init__(self, field: Field, tell: Tell) -> None:
        self.field = field
        self.cluster = field.cluster
        self.load = Run(Plan(1, 0, (), _WORKLOADS), field, (), random.Random(1), tell)
        self.say = self.load.say

    def status(self, node: int) -> int:
        try:
            return httpx.get(f"{self.cluster.nodes[node].url}/readyz", timeout=10).status_code
        except httpx.HTTPError:
            return 0

    def metric(self, node: int, name: str) -> float:
        """The sum of a metric's series."""
        text = httpx.get(f"{self.cluster.nodes[node].url}/metrics", timeout=30).text
        found = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def type(self, *words: str) -> str:
        """What the runbook says, word by word. What it showed."""
        self.say(f"typed: goqueue {' '.join(words)}")
        program = [sys.executable, "-c", "from goqueue.cli import main; main()", "--server", self.cluster.nodes[0].url]
        done = subprocess.run([*program, *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def see(self, holds: Callable[[], object], what: str) -> None:
        began = time.monotonic()
        wait_until(holds, what)
        self.say(f"seen: {what}, after {time.monotonic() - began:.1f} s")

    def goes_on(self) -> None:
        self.load.wait_progress()
        assert not self.load.stuck, self.load.stuck
        self.say("clients go on")

    def stands_still(self) -> None:
        """What was acknowledged before may still be told: then nothing comes for a while."""
        time.sleep(_STILL_S)
        before = self.acknowledged()
        time.sleep(_STILL_S)
        assert self.acknowledged() == before, f"{self.acknowledged() - before} acknowledged, and nobody may lead"
        self.say("seen: nothing is acknowledged")

    def acknowledged(self) -> int:
        return sum(one.progress for one in self.load.workloads)


def etcd_quorum(drill: Drill) -> None:
    """Two of three members of etcd are lost."""
    for member in drill.cluster.etcd[:2]:
        member.kill()
    drill.say("two members of etcd are killed")
    drill.see(lambda: all(drill.status(node) == 503 for node in range(3)), "no node is ready")
    drill.stands_still()
    drill.cluster.etcd[0].start()
    drill.say("one of them is started: a majority is back")
    drill.see(lambda: all(drill.status(node) == 200 for node in range(3)), "all nodes are ready")
    drill.type("cluster", "status")
    drill.goes_on()


def lost_disk(drill: Drill) -> None:
    """A machine comes back with an empty disk."""
    drill.cluster.kill(1)
    for path in drill.field.disk(1).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    drill.say("node 1 is killed, and its data is gone")
    under = "goqueue_cluster_under_replicated"
    drill.see(lambda: drill.metric(0, under) + drill.metric(2, under) > 0, "shards are under-replicated")
    drill.goes_on()
    drill.cluster.start(1)
    drill.say("node 1 is started on the empty disk")
    drill.cluster.wait_whole()
    drill.see(lambda: drill.metric(0, under) + drill.metric(2, under) == 0, "every shard is whole again")
    drill.type("cluster", "shards")
    drill.goes_on()


def full_disk(drill: Drill) -> None:
    """A disk is full to the last byte, and a topic that nobody needs is deleted."""
    url = drill.cluster.nodes[0].url
    httpx.post(f"{url}/topics", json={"name": "archive", "num_partitions": 3}, timeout=30).raise_for_status()
    body = {"messages": [{"value": "x" * 100_000} for _ in range(8)], "acks": "all"}
    for _ in range(12):
        httpx.post(f"{url}/topics/archive/messages", json=body, timeout=60).raise_for_status()
    drill.cluster.wait_whole()
    drill.field.fill_disk(1)
    drill.say("the disk of node 1 is full")
    drill.see(lambda: drill.metric(1, "goqueue_storage_writable") == 0, "node 1 says that it takes no writes")
    assert "archive" in drill.type("topic", "list")
    drill.type("topic", "delete", "archive", "--yes")
    drill.see(lambda: drill.metric(1, "goqueue_storage_writable") == 1, "node 1 takes writes again")
    drill.goes_on()
    drill.cluster.wait_whole()
    drill.field.empty_disk(1)


def split_racks(drill: Drill) -> None:
    """The racks, of a node and a member of etcd each, lose each other: one of three first, then all."""
    lab, hosts = drill.field.lab, drill.field.etcd_hosts
    assert lab is not None
    racks = [{node, hosts[node]} for node in range(3)]
    for one, other in ((0, 1), (0, 2)):
        lab.part(racks[one], racks[other])
    drill.say("rack 0 is cut from racks 1 and 2")
    drill.see(lambda: drill.status(0) == 503, "node 0 is not ready")
    drill.goes_on()
    lab.part(racks[1], racks[2])
    drill.say("racks 1 and 2 are cut from each other, too")
    drill.see(lambda: all(drill.status(node) == 503 for node in range(3)), "no node is ready")
    drill.stands_still()
    lab.heal()
    drill.say("the network is whole")
    drill.cluster.wait_whole()
    drill.type("cluster", "nodes")
    drill.goes_on()


DRILLS: Final = {
    "etcd-quorum": etcd_quorum,
    "lost-disk": lost_disk,
    "full-disk": full_disk,
    "split-racks": split_racks,
}
EXPIRED: Final = "expired-certificate"  # a node by itself is enough for that
NAMES: Final = (*DRILLS, EXPIRED)


def unavailable(name: str) -> str:
    return "" if name == EXPIRED else no_lab() or no_disks()


def run_drill(name: str, root: Path, tell: Tell) -> list[str]:
    """What was broken."""
    root.mkdir(parents=True, exist_ok=True)
    if name == EXPIRED:
        expired_certificate(root, tell)
        return []
    with open_field(root, has_clocks=False, has_disks=True) as field:
        drill = Drill(field, tell)
        with drill.load.running():
            drill.goes_on()
            DRILLS[name](drill)
            findings = drill.load.finish()
    return [f"{who}: {why}: {one}" for who, all_ in findings.items() for why, wrong in all_.items() for one in wrong]


def expired_certificate(root: Path, tell: Tell) -> None:
    """Clients refuse a node whose certificate is over; the next one is put in its place, and the node goes on."""
    authority = Authority(root / "authority")
    made = authority.sign("node")
    trust = ssl.create_default_context(cafile=str(made.ca))
    settings = {"GOQUEUE_SECURITY_TLS_CERT_FILE": str(made.cert), "GOQUEUE_SECURITY_TLS_KEY_FILE": str(made.key)}
    authority.expire("node")
    with NodeProcess(root / "node", settings=settings) as node, httpx.Client(verify=trust, timeout=10) as client:
        tell("a node runs with a certificate that was over yesterday")
        assert "Jan  2 00:00:00 2020" in _shown(node.url, tell)
        try:
            client.get(f"{node.url}/readyz")
            raise AssertionError("a client takes a certificate that is over")
        except httpx.ConnectError as error:
            assert "expired" in str(error), error
            tell(f"seen: a client says {error}")
        authority.sign("node")
        tell("a new certificate is put in its place")
        began = time.monotonic()
        wait_until(lambda: _answers(node.url, trust), "the node shows its new certificate")
        tell(f"seen: clients come in again, after {time.monotonic() - began:.1f} s")
        assert "2020" not in _shown(node.url, tell)


def _shown(url: str, tell: Tell) -> str:
    """Until when the certificate holds that the node shows."""
    tell(f"typed: {_LOOK_AT}")
    command = _LOOK_AT.replace("NODE:8080", url.removeprefix("https://"))
    return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True).stdout


def _answers(url: str, trust: ssl.SSLContext) -> bool:
    try:
        return httpx.get(f"{url}/readyz", verify=trust, timeout=10).status_code == 200
    except httpx.ConnectError:
        return False
