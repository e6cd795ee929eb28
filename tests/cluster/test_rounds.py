"""Three nodes and three members of etcd, each on a host of its own, under load of all kinds, while at random processes
are killed or stand still and links are cut, in one direction or both.

`GOQUEUE_LONG_TESTS=1` runs a hundred rounds; `ROUNDS` and `ROUNDS_SEED` choose otherwise.
"""

from __future__ import annotations

import faulthandler
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from signal import SIGSTOP
from typing import Final

import boto3
import httpx
import pytest

from bench.cluster_process import ClusterProcess
from tests.cluster.clients import Writer, check_kept, make_topic, read_all
from tests.cluster.histories import Leases
from tests.cluster.load import Client, RestSender, SqsReceiver, SqsSender, Tail, Transactor, Worker
from tests.cluster.netlab import NetLab, net_lab, require_lab
from tests.etcd import etcd_program
from tests.long import LONG
from tests.waiting import let_pass, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(3600)]
ROUNDS: Final = int(os.environ.get("ROUNDS", "100" if LONG else "3"))
NODES: Final = range(3)
ETCD: Final = range(3, 6)  # their hosts
DELAY_MS: Final = 1_500


@pytest.fixture(autouse=True)
def _takes_long() -> None:
    """Rounds have a time limit of their own."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def lab() -> Iterator[NetLab]:
    require_lab()
    with net_lab(6) as made:
        yield made


@pytest.fixture
def cluster(lab: NetLab, tmp_path: Path) -> Iterator[ClusterProcess]:
    etcd_program()
    hosts = lab.hosts(NODES), lab.hosts(ETCD)
    with ClusterProcess(tmp_path, etcd=3, hosts=hosts) as running:
        yield running


class Load:
    """All clients, and what has to be true when they have stopped."""

    def __init__(self, cluster: ClusterProcess, seed: int) -> None:
        self.cluster = cluster
        topics = [make_topic(cluster, 3) for _ in range(4)]
        self.kafka, self.rest, self.txn, self.delayed = topics
        self.queue = f"q-{seed}"
        known = {"region_name": "us-east-1", "aws_access_key_id": "x", "aws_secret_access_key": "x"}
        with closing(boto3.client("sqs", endpoint_url=cluster.nodes[0].sqs, **known)) as sqs:
            sqs.create_queue(QueueName=self.queue)
        self.writer = Writer(cluster, self.kafka, pause_s=0.01)
        self.sender = RestSender(cluster, seed, self.rest)
        self.late = RestSender(cluster, seed + 1, self.delayed, DELAY_MS)
        self.leases, self.sqs_leases = Leases(), Leases()
        self.workers = [Worker(cluster, seed + 2 + one, "workers", self.rest, self.leases) for one in range(2)]
        self.sqs_sender = SqsSender(cluster, seed + 4, self.queue)
        self.receivers = [SqsReceiver(cluster, seed + 5 + one, self.queue, self.sqs_leases) for one in range(2)]
        self.transactor = Transactor(cluster, seed + 7, self.txn, f"txn-{seed}")
        self.tail = Tail(cluster, seed + 8, self.delayed, lambda: self.late.delays)

    @property
    def senders(self) -> list[Client]:
        return [self.sender, self.late, self.sqs_sender, self.transactor]

    @property
    def takers(self) -> list[Client]:
        return [*self.workers, *self.receivers, self.tail]

    def start(self) -> None:
        for client in (*self.senders, *self.takers):
            client.start()
        self.writer.__enter__()

    @property
    def progress(self) -> list[int]:
        """Of everybody who writes."""
        sent = [len(self.sender.sends.acked), len(self.late.sends.acked), len(self.sqs_sender.sent)]
        return [len(self.writer.acknowledged), *sent, len(self.transactor.seen.committed), len(self.leases.done)]

    def stop(self) -> None:
        """Senders first; takers when everything is taken."""
        for client in self.senders:
            client.stop()
        self.writer.__exit__()
        self._drained()
        for client in self.takers:
            client.stop()

    def _drained(self) -> None:
        wait_until(
            lambda: self.sqs_leases.seen >= self.sqs_sender.sent and self.leases.seen >= set(self.sender.sends.acked),
            lambda: f"not handed out: {self._missing()}",
        )
        late = self.late
        wait_until(lambda: set(late.delays.seen_ms) >= set(late.sends.acked), lambda: f"not due: {self._missing()}")

    def _missing(self) -> dict[str, list[str]]:
        return {
            "sqs": sorted(self.sqs_sender.sent - self.sqs_leases.seen)[:10],
            "queue": sorted(set(self.sender.sends.acked) - self.leases.seen)[:10],
            "delayed": sorted(set(self.late.sends.acked) - set(self.late.delays.seen_ms))[:10],
        }

    def check(self) -> list[str]:
        wrong = [f"{type(one).__name__}: {one.failure!r}" for one in (*self.senders, *self.takers) if one.failure]
        wrong += [f"the producer failed: {one}" for one in self.writer.failed]
        check_kept(self.writer, read_all(self.cluster, self.kafka))
        wrong += self.sender.sends.check("REST", self._values(self.rest))
        wrong += self.late.sends.check("delayed", self._values(self.delayed))[:20]
        wrong += self.late.delays.check() + self.leases.check() + self.sqs_leases.check()
        wrong += self.transactor.seen.check(self._values(self.txn))
        return wrong

    def _values(self, topic: str) -> list[str]:
        """As a reader of committed data gets them, which is what the C client is unless it is told otherwise."""
        return [value.decode() for _, value in read_all(self.cluster, topic)]


class Havoc:
    """What is done to processes and links, by a seed, with a word about each."""

    def __init__(self, cluster: ClusterProcess, lab: NetLab, seed: int) -> None:
        self._cluster = cluster
        self._lab = lab
        self._chance = random.Random(seed)
        self._began = time.monotonic()
        self.told: list[str] = []
        kinds: list[Callable[[], str]] = [self._kill, self._pause, self._kill_etcd, self._pause_etcd]
        self._kinds = [*kinds, self._cut_pair, self._cut_pair_one_way, self._cut_store, self._cut_off]

    def round(self) -> None:
        for act in self._chance.sample(self._kinds, self._chance.choice([1, 1, 2])):
            self._tell(act())
            let_pass(self._chance.uniform(0, 1))
        let_pass(self._chance.uniform(0.5, 6))
        self._lab.heal()
        self._cluster.heal()
        self._tell("whole again")

    def _tell(self, what: str) -> None:
        self.told.append(f"{time.monotonic() - self._began:7.2f} s  {what}")

    def _node(self) -> int:
        return self._chance.choice(NODES)

    def _kill(self) -> str:
        node = self._node()
        self._cluster.kill(node)
        return f"node {node} is killed"

    def _pause(self) -> str:
        running = [node for node in NODES if node in self._cluster.running]
        node = self._chance.choice(running)
        self._cluster.pause(node)
        return f"node {node} stands still"

    def _kill_etcd(self) -> str:
        member = self._chance.randrange(3)
        self._cluster.etcd[member].kill()
        return f"etcd {member} is killed"

    def _pause_etcd(self) -> str:
        member = self._chance.choice([one for one in range(3) if self._cluster.etcd[one].is_running])
        self._cluster.etcd[member].signal(SIGSTOP)
        return f"etcd {member} stands still"

    def _cut_pair(self) -> str:
        one, other = self._chance.sample(NODES, 2)
        self._lab.cut(one, other)
        self._lab.cut(other, one)
        return f"nodes {one} and {other} are cut from each other"

    def _cut_pair_one_way(self) -> str:
        one, other = self._chance.sample(NODES, 2)
        self._lab.cut(one, other)
        return f"node {one} does not reach node {other}"

    def _cut_store(self) -> str:
        node, both = self._node(), self._chance.random() < 0.5
        for member in ETCD:
            self._lab.cut(node, member) if both or self._chance.random() < 0.5 else None
            self._lab.cut(member, node)
        return f"node {node} is cut from the store, {'both ways' if both else 'mostly one way'}"

    def _cut_off(self) -> str:
        node = self._node()
        for other in range(6):
            if other != node:
                self._lab.cut(node, other)
                self._lab.cut(other, node)
        return f"node {node} is cut from everybody"


def contents(cluster: ClusterProcess, topic: str) -> set[bytes]:
    """Of all logs of a topic on each node's disk."""
    found = set()
    for node in NODES:
        files = sorted((cluster.nodes[node].data_dir / "logs" / topic).glob("*/*.log"))
        found.add(b"".join(path.read_bytes() for path in files))
    return found


def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(cluster: ClusterProcess, lab: NetLab) -> None:
    seed = int(os.environ.get("ROUNDS_SEED", random.randrange(1 << 20)))
    print(f"\nseed {seed}, {ROUNDS} rounds")
    load, havoc = Load(cluster, seed), Havoc(cluster, lab, seed)
    load.start()
    try:
        for number in range(ROUNDS):
            before = load.progress
            havoc.round()
            wait_until(
                lambda before=before: all(now > then for now, then in zip(load.progress, before, strict=True)),  # type: ignore[misc]
                lambda: f"somebody stands still after round {number}: {load.progress}",  # noqa: B023
            )
        load.stop()
        wrong = load.check()
        wait_until(
            lambda: all(len(contents(cluster, topic)) == 1 for topic in (load.kafka, load.rest, load.txn)),
            "replicas differ",
        )
    except BaseException:
        print("\n".join(havoc.told))
        raise
    finally:
        for client in (*load.senders, *load.takers):
            client.stopping.set()
    print(f"acknowledged: {load.progress}; refused: {[one.refusals[:3] for one in load.workers]}")
    assert not wrong, "\n".join([f"seed {seed}", *havoc.told, *wrong[:40]])


def test_the_lab_cuts_and_heals(cluster: ClusterProcess, lab: NetLab) -> None:
    for member in ETCD:
        lab.cut(0, member)
    wait_until(lambda: httpx.get(f"{cluster.nodes[0].url}/readyz", timeout=10).status_code == 503, "not cut off")
    lab.heal()
    cluster.heal()
