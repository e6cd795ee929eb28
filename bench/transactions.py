"""Transactions under stock clients: what they cost a publisher, and what aborted ones cost a reader.

The C client waits a millisecond before it names a transaction's partitions, and its threads pass an end around: what it
reaches against a server that says yes to everything is printed beside, for its transactions and for its batches.
"""

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

from bench.node_process import NodeProcess
from bench.report import Figure
from bench.transactions_load import BATCH

KINDS = ("transactional", "waited", "idempotent", "aio-transactional", "aio-waited")
BARE_KINDS = ("transactional", "waited")
SIZE = 100
SIZES = (100, 1024)
SECONDS = 2.0
ROUNDS = 3
COMMITTED = 1_000  # transactions of 1,000 messages
ABORTED = 4  # before each of them


def publish_figures(root: Path) -> Iterator[Figure]:
    with NodeProcess(root / "publish") as node:
        for size in SIZES:
            yield from _publish(node, root / "bare", size)


def _publish(node: NodeProcess, bare: Path, size: int) -> Iterator[Figure]:
    """All kinds in turn, so that a slow moment of the machine hits them alike."""
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    limits: dict[str, list[float]] = {kind: [] for kind in BARE_KINDS}
    shares: list[float] = []
    for kind in KINDS:
        _create(node, f"{kind}-{size}", 3)
    for _ in range(ROUNDS):
        for kind in KINDS:
            cpu, began = node.cpu_seconds(), time.perf_counter()
            rates[kind].append(_load(kind, node.kafka, f"{kind}-{size}", size, SECONDS)["rate"])
            if kind == "transactional":
                shares.append((node.cpu_seconds() - cpu) / (time.perf_counter() - began))
        with _bare(bare) as address:
            for kind in BARE_KINDS:
                limits[kind].append(_load(kind, address, "bench", size, SECONDS)["rate"])
    yield from _asyncio_figures(rates, size)
    yield from _c_figures(rates, limits, statistics.median(shares), size)


def _asyncio_figures(rates: dict[str, list[float]], size: int) -> Iterator[Figure]:
    ratio = _ratio(rates["aio-transactional"], rates["aio-waited"])
    yield Figure(
        f"transactions of {BATCH:,} messages of {size} bytes, aiokafka",
        f"{statistics.median(rates['aio-transactional']):,.0f} msg/s",
    )
    yield Figure(
        f"  against idempotent batches of {BATCH:,}, each waited for",
        f"{ratio:.2f}",
        f"of {statistics.median(rates['aio-waited']):,.0f}",
        "at least 0.80",
        ratio >= 0.8,
    )


def _c_figures(
    rates: dict[str, list[float]], limits: dict[str, list[float]], share: float, size: int
) -> Iterator[Figure]:
    yield Figure(
        f"transactions of {BATCH:,} messages of {size} bytes, the C client",
        f"{statistics.median(rates['transactional']):,.0f} msg/s",
        f"node's share of a core {share:.0%}",
    )
    yield Figure(
        f"  against idempotent batches of {BATCH:,}, each waited for",
        f"{_ratio(rates['transactional'], rates['waited']):.2f}",
        f"of {statistics.median(rates['waited']):,.0f}; "
        f"{_ratio(limits['transactional'], limits['waited']):.2f} where the server says yes to everything",
    )
    yield Figure(
        "  against an idempotent producer that never waits",
        f"{_ratio(rates['transactional'], rates['idempotent']):.2f}",
        f"of {statistics.median(rates['idempotent']):,.0f}",
    )
    yield Figure(
        "  against a bare server that says yes to everything",
        f"{_ratio(rates['transactional'], limits['transactional']):.2f}",
        f"of {statistics.median(limits['transactional']):,.0f}, the client's limit",
    )


def read_figures(root: Path) -> Iterator[Figure]:
    """The same committed messages, with and without aborted transactions between them."""
    count = COMMITTED * BATCH
    seconds: dict[str, list[float]] = {"plain": [], "aborted": []}
    with NodeProcess(root / "read") as node:
        for topic, aborted in (("plain", 0), ("aborted", ABORTED)):
            _create(node, topic, 1)
            _load("fill", node.kafka, topic, SIZE, COMMITTED, aborted)
        for _ in range(ROUNDS):
            for topic, found in seconds.items():
                found.append(_load("read", node.kafka, topic, count)["seconds"])
    slower = _ratio(seconds["aborted"], seconds["plain"]) - 1
    yield Figure(
        f"read {count:,} committed messages among {COMMITTED * ABORTED:,} aborted transactions",
        f"{count / statistics.median(seconds['aborted']):,.0f} msg/s",
        f"{slower:+.1%} time, alone {count / statistics.median(seconds['plain']):,.0f}",
        "less than 10 % slower",
        slower < 0.1,
    )


def _ratio(mine: list[float], others: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(mine, others, strict=True))


def _create(node: NodeProcess, topic: str, partitions: int) -> None:
    httpx.post(f"{node.url}/topics", json={"name": topic, "num_partitions": partitions}).raise_for_status()


@contextmanager
def _bare(path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "bench.bare_transactions", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()
            path.unlink(missing_ok=True)


def _load(kind: str, address: str, topic: str, *numbers: float) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.transactions_load", kind, address, topic, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout)
    return found
