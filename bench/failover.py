"""How long writes stand still when the node that leads is killed, and when it is stopped as planned."""

from __future__ import annotations

import os
import statistics
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import httpx
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cluster_process import ClusterProcess
from bench.report import Figure
from goqueue.cli.etcd_program import EtcdMissing

ROUNDS = int(os.environ.get("FAILOVER_ROUNDS", "50"))
STOPS = int(os.environ.get("FAILOVER_STOPS", "10"))
MEDIAN_MS_MAX, WORST_MS_MAX, GAP_MS_MAX = 1_000, 3_000, 250
_TOPIC = "failover"
_PAUSE_S = 0.002
_ACK_S_MAX = 60.0


class Write(NamedTuple):
    begun: float
    acked: float


class Pulse(ABC):
    """One write after the other, in a thread of its own, and when each was acknowledged."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.failures = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run)

    @abstractmethod
    def write(self) -> bool:
        """Whether it was acknowledged; returns when that is known."""

    def _run(self) -> None:
        while not self._stopping:
            begun = time.perf_counter()
            if self.write():
                self.writes.append(Write(begun, time.perf_counter()))
            else:
                self.failures += 1
            time.sleep(_PAUSE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self._thread.join(_ACK_S_MAX)

    def next_after(self, moment: float) -> float:
        """Seconds until the first write that was begun later was acknowledged."""
        deadline = time.perf_counter() + _ACK_S_MAX
        while not (self.writes and self.writes[-1].begun > moment):
            if time.perf_counter() > deadline:
                raise RuntimeError(f"no write was acknowledged for {_ACK_S_MAX:.0f} s; {self.failures} failed")
            time.sleep(_PAUSE_S)
        return next(one.acked for one in self.writes if one.begun > moment) - moment

    def longest_gap(self, since: float) -> float:
        """Seconds between two acknowledged writes."""
        acked = [one.acked for one in self.writes if one.acked >= since]
        return max((later - earlier for earlier, later in pairwise(acked)), default=0.0)


class KafkaPulse(Pulse):
    """The stock C client, as it comes: idempotent, `acks=all`."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})
        self._told: list[KafkaError | None] = []

    def write(self) -> bool:
        self._told.clear()
        self._producer.produce(_TOPIC, b"x" * 100, partition=0, on_delivery=self._on_delivery)
        while not self._told:
            self._producer.poll(0.1)
        return self._told[0] is None

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        self._told.append(error)


class RestPulse(Pulse):
    """Publishes at one node, and asks the next one if it does not answer, as clients behind a balancer do."""

    def __init__(self, urls: list[str]) -> None:
        super().__init__()
        self._clients = [httpx.Client(base_url=url, timeout=5.0) for url in urls]
        self._body = {"messages": [{"value": "x" * 100, "partition": 0}]}

    def write(self) -> bool:
        try:
            self._clients[0].post(f"/topics/{_TOPIC}/messages", json=self._body).raise_for_status()
        except httpx.HTTPError:
            self._clients.append(self._clients.pop(0))
            return False
        return True


def failover_figures(root: Path) -> Iterator[Figure]:
    try:
        cluster = ClusterProcess(root / "cluster").__enter__()
    except EtcdMissing as error:
        yield Figure("failover", "left out", error.message.split(";")[0])
        return
    try:
        _make_topic(cluster)
        yield from _kills(cluster)
        yield from _stops(cluster)
    finally:
        cluster.__exit__(None, None, None)


def _make_topic(cluster: ClusterProcess) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(_TOPIC, 1)]).values():
        made.result(60)


def _kills(cluster: ClusterProcess) -> Iterator[Figure]:
    """Each round has clients of its own: to a node that was killed the C client waits longer and longer to connect
    again, and one that has been through several rounds measures that."""
    spent: dict[str, list[float]] = {"C client": [], "REST": []}
    for _ in range(ROUNDS):
        with KafkaPulse(cluster.bootstrap) as kafka, RestPulse([node.url for node in cluster.nodes]) as rest:
            leader = _settled(cluster, kafka, rest)
            moment = time.perf_counter()
            cluster.kill(leader)
            spent["C client"].append(kafka.next_after(moment))
            spent["REST"].append(rest.next_after(moment))
        cluster.heal()
    for name, seconds in spent.items():
        median, worst = statistics.median(seconds) * 1000, max(seconds) * 1000
        bars = f"under {MEDIAN_MS_MAX} ms", f"under {WORST_MS_MAX} ms"
        about = f"{len(seconds)} kills of the leader"
        yield Figure(
            f"kill -9 to the next write, {name}, median", f"{median:.0f} ms", about, bars[0], median < MEDIAN_MS_MAX
        )
        yield Figure(
            f"kill -9 to the next write, {name}, worst", f"{worst:.0f} ms", about, bars[1], worst < WORST_MS_MAX
        )


def _stops(cluster: ClusterProcess) -> Iterator[Figure]:
    gaps: list[float] = []
    failures = 0
    for _ in range(STOPS):
        with KafkaPulse(cluster.bootstrap) as kafka:
            leader = _settled(cluster, kafka)
            moment = time.perf_counter()
            cluster.stop(leader)
            kafka.next_after(time.perf_counter())
            gaps.append(kafka.longest_gap(moment - 0.1))
        failures += kafka.failures
        cluster.heal()
    worst, about = max(gaps) * 1000, f"{STOPS} planned stops of the leader"
    middle = f"{statistics.median(gaps) * 1000:.0f} ms (median)"
    yield Figure(
        "planned stop: longest gap, C client", f"{worst:.0f} ms", middle, f"under {GAP_MS_MAX} ms", worst < GAP_MS_MAX
    )
    yield Figure("planned stop: writes that failed, C client", f"{failures}", about, "none", failures == 0)


def _settled(cluster: ClusterProcess, *pulses: Pulse) -> int:
    """Who leads, when all write again."""
    for pulse in pulses:
        pulse.next_after(time.perf_counter())
    leader = cluster.leader_of(_TOPIC)
    assert leader is not None
    return leader
