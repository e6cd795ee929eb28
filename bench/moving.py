"""A move of much data at a throttle: how well it keeps to that, and what producers beside it notice."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cluster_process import ClusterProcess
from bench.report import Figure, percentile
from goqueue.base.limits import KIB, MIB
from goqueue.cli.etcd_program import EtcdMissing

SIZE = int(os.environ.get("MOVE_MIB", "2048")) * MIB
THROTTLE = int(os.environ.get("MOVE_BYTES_PER_S", "50000000"))
BEFORE_S = float(os.environ.get("MOVE_BEFORE_S", "15"))
PER_S = 200  # messages of the producer beside it
FACTOR_MAX = 2.0
_BULK, _BESIDE = "bulk", "beside"


class SteadyProducer:
    """So many messages a second, idempotent, `acks=all`, in a thread of its own, and how long each took."""

    def __init__(self, bootstrap: str) -> None:
        self.failures = 0
        self._took: list[tuple[float, float]] = []  # when it was sent, seconds
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        self._producer = Producer(settings)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        due = time.perf_counter()
        while not self._stopping.is_set():
            sent = time.perf_counter()
            self._producer.produce(_BESIDE, b"x" * 100, on_delivery=partial(self._told, sent))
            due += 1 / PER_S
            while (left := due - time.perf_counter()) > 0:
                self._producer.poll(left)

    def _told(self, sent: float, why: KafkaError | None, _: Message) -> None:
        self.failures += why is not None
        self._took.append((sent, time.perf_counter() - sent))

    def took_ms(self, began: float, ended: float) -> list[float]:
        return sorted(1000 * took for sent, took in self._took if began <= sent < ended)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join(30)
        self._producer.flush(30)


def moving_figures(root: Path) -> Iterator[Figure]:
    try:
        cluster = ClusterProcess(root / "cluster", nodes=4).__enter__()
    except EtcdMissing as error:
        yield Figure("a move", "left out", error.message.split(";")[0])
        return
    try:
        yield from _figures(cluster)
    finally:
        cluster.__exit__(None, None, None)


def _figures(cluster: ClusterProcess) -> Iterator[Figure]:
    shard, holder = _fill(cluster)
    with SteadyProducer(cluster.bootstrap) as beside:
        began = time.perf_counter()
        time.sleep(BEFORE_S)
        target = (holder + 1) % 4
        used, move = _processor(cluster, holder, target), time.perf_counter()
        seen = _move(cluster, shard, target)
        ended, after_move = time.perf_counter(), _processor(cluster, holder, target)
        time.sleep(BEFORE_S)
        after = time.perf_counter()
    rate, size = SIZE / (ended - move), f"{SIZE / MIB:,.0f} MiB in {ended - move:.1f} s"
    off = abs(rate / THROTTLE - 1)
    name = f"a move at {THROTTLE / 1e6:.0f} MB/s"
    yield Figure(name, f"{rate / 1e6:.1f} MB/s", size, "within 10 %", off <= 0.1)
    told = [one for one in seen if one["bytes_per_s"] and one["seconds_left"]]
    if told:
        half = told[len(told) // 2]
        words = f"{half['bytes_left'] / MIB:,.0f} MiB left, {half['seconds_left']:.0f} s"
        yield Figure(f"{name}: what it says half way", f"{half['bytes_per_s'] / 1e6:.1f} MB/s", words)
    shares = [(now - before) / (ended - move) for before, now in zip(used, after_move, strict=True)]
    yield Figure("a core's share meanwhile, from and to", f"{shares[0]:.0%}, {shares[1]:.0%}")
    quiet = [*beside.took_ms(began, move), *beside.took_ms(ended + 1, after)]
    alone, busy = percentile(sorted(quiet), 0.99), percentile(beside.took_ms(move, ended), 0.99)
    against = f"{busy / alone:.2f} of {alone:.2f} without it"
    yield Figure(
        f"p99 of {PER_S} messages a second beside it", f"{busy:.2f} ms", against, "under 2.0", busy < FACTOR_MAX * alone
    )
    yield Figure("writes that failed meanwhile", f"{beside.failures}", "", "none", not beside.failures)


def _processor(cluster: ClusterProcess, *numbers: int) -> list[float]:
    return [cluster.nodes[number].cpu_seconds() for number in numbers]


def _fill(cluster: ClusterProcess) -> tuple[int, int]:
    """One shard that has it all, on one node: its number, and the node's."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    bulk = NewTopic(_BULK, 1, 1, config={"min.insync.replicas": "1"})
    for made in admin.create_topics([bulk, NewTopic(_BESIDE, 8, 3)]).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20, "batch.size": MIB, "log_level": 0})
    value = os.urandom(64 * KIB)
    for _ in range(SIZE // len(value)):
        while True:
            try:
                producer.produce(_BULK, value)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} messages were not acknowledged")
    place = _get(cluster, "/cluster/metadata", topic=_BULK)["topics"][0]["partitions"][0]
    return place["shard"], place["leader"]


def _move(cluster: ClusterProcess, shard: int, node: int) -> list[dict[str, Any]]:
    """What the cluster said while it went on."""
    ask = {"shards": {str(shard): [node]}, "throttle": THROTTLE}
    httpx.post(f"{cluster.nodes[0].url}/admin/reassignment", json=ask, timeout=30).raise_for_status()
    seen: list[dict[str, Any]] = []
    deadline = time.monotonic() + 10 * SIZE / THROTTLE + 60
    while (told := _get(cluster, "/admin/reassignment"))["moves"]:
        seen.append(told)
        if time.monotonic() > deadline:
            raise RuntimeError(f"the move does not end: {told}")
        time.sleep(0.2)
    return seen


def _get(cluster: ClusterProcess, path: str, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = (
        httpx.get(f"{cluster.nodes[0].url}{path}", params=query, timeout=30).raise_for_status().json()
    )
    return found
