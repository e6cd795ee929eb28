"""What it costs to be safe against a power cut: `fsync=always` beside a bare sync, beside `interval`, beside others."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import msgspec
import uvloop

from bench.bare_kafka import PARTITIONS
from bench.http_load import post, saturate
from bench.kafka import _load as kafka_load
from bench.node_process import NodeProcess
from bench.peers.server import PeerMissing
from bench.queue import MATCHES, RATE, ROUNDS, Running, bare_server, installed, load, run_load
from bench.report import Figure, percentile
from goqueue.base.limits import KIB, MIB

SYNCS = 500
PRODUCERS = 64
SECONDS = 3.0
SHORT_MS = 0.3  # the bars of latency are for a disk whose sync takes less
P50_MS, P99_MS = 1.0, 3.0
SHARE = 0.7


def bare_figures(root: Path) -> Iterator[Figure]:
    for name, prepared in (("a file that grows", False), ("a preallocated one", True)):
        found = bare_sync(root / "bare", prepared)
        yield Figure(
            f"write 4 KiB and fdatasync, {name}",
            f"p50 {percentile(found, 0.5):.2f} ms",
            f"p99 {percentile(found, 0.99):.2f} ms",
        )


def bare_sync(path: Path, prepared: bool, count: int = SYNCS) -> list[float]:
    """Sorted, in ms. A moment between two, as requests leave one."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    if prepared:
        for _ in range(4):
            os.write(fd, bytes(MIB))
        os.fsync(fd)
    taken: list[float] = []
    for number in range(count):
        began = time.perf_counter()
        os.pwrite(fd, bytes(4 * KIB), number * 4 * KIB % (4 * MIB))
        os.fdatasync(fd)
        taken.append((time.perf_counter() - began) * 1000)
        time.sleep(0.0005)
    os.close(fd)
    path.unlink()
    return sorted(taken)


def latency_figures(root: Path) -> Iterator[Figure]:
    """Everyone is up during all of it and only one works at a time, in turn; a bare sync before each."""
    yield Figure(f"publish, poll, ack one by one at {RATE} a second, fsync=always", "")
    with ExitStack() as stack:
        running: list[Running] = []
        for contender in MATCHES["always"]:
            try:
                running.append((contender, stack.enter_context(installed(contender, root))))
            except PeerMissing as error:
                yield Figure(f"  {contender.name}", "left out", str(error))
        floors = {
            "the same requests to a bare HTTP server": stack.enter_context(bare_server("bare_trips", root / "a", 0)),
            "  with the two syncs of a trip": stack.enter_context(bare_server("bare_trips", root / "b", 1)),
        }
        bare: list[float] = []
        found: dict[str, list[dict[str, float]]] = {contender.name: [] for contender, _ in running}
        least: dict[str, list[dict[str, float]]] = {name: [] for name in floors}
        for _ in range(ROUNDS):
            for contender, broker in running:
                bare.append(percentile(bare_sync(root / "bare", prepared=True), 0.5))
                found[contender.name].append(load("paced", contender, broker, 8, RATE, SECONDS))
            for name, port in floors.items():
                least[name].append(run_load("paced", "goqueue", port, 8, RATE, SECONDS))
    sync_ms = statistics.median(bare)
    yield Figure("  a bare sync meanwhile", f"p50 {sync_ms:.2f} ms")
    for name, rounds in least.items():
        middle = middle_of(rounds)
        yield Figure(f"  {name}", f"p50 {middle['p50']:.2f} ms", f"p99 {middle['p99']:.2f}")
    for (contender, _), rounds in zip(running, found.values(), strict=True):
        middle = middle_of(rounds)
        has_bar = contender is running[0][0] and sync_ms < SHORT_MS
        yield Figure(
            f"  {contender.name}",
            f"p50 {middle['p50']:.2f} ms",
            f"p99 {middle['p99']:.2f}, p99.9 {middle['p99.9']:.2f}",
            f"under {P50_MS:.0f}, p99 under {P99_MS:.0f} ms" if has_bar else "",
            middle["p50"] < P50_MS and middle["p99"] < P99_MS if has_bar else None,
        )


def middle_of(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {share: statistics.median(one[share] for one in rounds) for share in rounds[0]}


def many_figures(root: Path) -> Iterator[Figure]:
    """What one sync a round allows: each of the producers sends one message, all are worked on as fast as without
    syncs, and then there is one sync."""
    body = msgspec.json.encode({"messages": [{"value": "x" * 100}]})
    rates: dict[str, list[float]] = {"always": [], "interval": []}
    shares: list[float] = []
    with ExitStack() as stack:
        nodes = {fsync: stack.enter_context(NodeProcess(root / fsync, "--fsync", fsync)) for fsync in rates}
        for node in nodes.values():
            httpx.post(f"{node.url}/topics", json={"name": "many"}).raise_for_status()
        for _ in range(ROUNDS):
            for fsync, node in nodes.items():
                request = post(f"{node.url}/topics/many/messages", body)
                rates[fsync].append(uvloop.run(saturate(node.url, request, PRODUCERS, SECONDS)))
            sync_s = percentile(bare_sync(root / "bare", prepared=True), 0.5) / 1000
            allowed = PRODUCERS / (PRODUCERS / rates["interval"][-1] + sync_s)
            shares.append(rates["always"][-1] / allowed)
    share = statistics.median(shares)
    yield Figure(
        f"{PRODUCERS} producers of single messages, fsync=always",
        f"{statistics.median(rates['always']):,.0f} msg/s",
        f"{share:.2f} of one sync a round; interval {statistics.median(rates['interval']):,.0f}",
        f"at least {SHARE}",
        share >= SHARE,
    )


def batch_figures(root: Path) -> Iterator[Figure]:
    """Kafka's stock client with batches of up to a megabyte, in turn."""
    rates: dict[str, list[float]] = {"always": [], "interval": []}
    with ExitStack() as stack:
        nodes = {fsync: stack.enter_context(NodeProcess(root / fsync, "--fsync", fsync)) for fsync in rates}
        for node in nodes.values():
            body = {"name": "large", "num_partitions": PARTITIONS}
            httpx.post(f"{node.url}/topics", json=body).raise_for_status()
        for _ in range(ROUNDS):
            for fsync, node in nodes.items():
                rates[fsync].append(kafka_load("produce", node.kafka, "large", KIB, SECONDS)["rate"])
    ratio = statistics.median(one / other for one, other in zip(rates["always"], rates["interval"], strict=True))
    yield Figure(
        "produce 1,024-byte messages in large batches, fsync=always",
        f"{statistics.median(rates['always']):,.0f} msg/s",
        f"{ratio:.2f} of interval ({statistics.median(rates['interval']):,.0f})",
        f"at least {SHARE}",
        ratio >= SHARE,
    )
