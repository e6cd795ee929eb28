"""Kafka's door under the stock C client: throughput both ways and latency, beside the client's own limits."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from bench.bare_kafka import PARTITIONS
from bench.node_process import NodeProcess
from bench.report import Figure

SECONDS = 4.0
ROUNDS = 3


def kafka_figures(root: Path) -> Iterator[Figure]:
    with NodeProcess(root / "kafka") as node:
        for size, bars in ((100, (500_000, 1_000_000)), (1024, (None, None))):
            topic = f"bench-{size}"
            body = {"name": topic, "num_partitions": PARTITIONS}
            httpx.post(f"{node.url}/topics", json=body).raise_for_status()
            yield from _produce(node, root, topic, size, bars[0])
            yield from _consume(node, topic, size, bars[1])
        body = {"name": "latency", "num_partitions": PARTITIONS}
        httpx.post(f"{node.url}/topics", json=body).raise_for_status()
        found = _load("latency", node.kafka, "latency", 1000, SECONDS)
        yield Figure(
            "acknowledged latency at 1,000 a second",
            f"p99 {found['p99']:.2f} ms",
            f"p50 {found['p50']:.2f}, p99.9 {found['p99.9']:.2f}",
            "p99 under 2 ms",
            found["p99"] < 2,
        )


def _produce(node: NodeProcess, root: Path, topic: str, size: int, bar: int | None) -> Iterator[Figure]:
    rates: list[float] = []
    shares: list[float] = []
    bare: list[float] = []
    limit: list[float] = []
    for _ in range(ROUNDS):
        cpu, began = node.cpu_seconds(), time.perf_counter()
        rates.append(_load("produce", node.kafka, topic, size, SECONDS)["rate"])
        shares.append((node.cpu_seconds() - cpu) / (time.perf_counter() - began))
        with _bare("append", root / "bare") as address:
            bare.append(_load("produce", address, "bench", size, SECONDS / 2)["rate"])
        with _bare("discard", root / "bare") as address:
            limit.append(_load("produce", address, "bench", size, SECONDS / 2)["rate"])
    rate = statistics.median(rates)
    ratio = statistics.median(mine / other for mine, other in zip(rates, bare, strict=True))
    yield Figure(
        f"produce {size}-byte messages, acks=all",
        f"{rate:,.0f} msg/s",
        f"client's own limit {statistics.median(limit):,.0f}",
        f"at least {bar:,}" if bar else "",
        rate >= bar if bar else None,
    )
    yield Figure(
        "  against a bare server that only appends",
        f"{ratio:.2f}",
        f"of {statistics.median(bare):,.0f}",
        "at least 0.90",
        ratio >= 0.9,
    )
    yield Figure("  the node's share of one core meanwhile", f"{statistics.median(shares):.0%}")


def _consume(node: NodeProcess, topic: str, size: int, bar: int | None) -> Iterator[Figure]:
    stored = httpx.get(f"{node.url}/topics/{topic}").json()["messages"]
    count = min(stored, 4_000_000 if size < 1000 else 1_000_000)
    rates: list[float] = []
    shares: list[float] = []
    for _ in range(ROUNDS):
        cpu, began = node.cpu_seconds(), time.perf_counter()
        rates.append(_load("consume", node.kafka, topic, PARTITIONS, count)["rate"])
        shares.append((node.cpu_seconds() - cpu) / (time.perf_counter() - began))
    rate = statistics.median(rates)
    yield Figure(
        f"consume {size}-byte messages",
        f"{rate:,.0f} msg/s",
        f"node's share of a core {statistics.median(shares):.0%}",
        f"at least {bar:,}" if bar else "",
        rate >= bar if bar else None,
    )


def _load(kind: str, address: str, topic: str, first: float, second: float) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.kafka_load", kind, address, topic, str(first), str(second)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


@contextmanager
def _bare(kind: str, path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.bare_kafka", kind, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()
            path.unlink(missing_ok=True)
