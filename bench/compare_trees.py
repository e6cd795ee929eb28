"""Two checkouts side by side: `python -m bench.compare_trees OLD NEW [--rounds N] [CASE ...]`.

A node of each tree runs; every case loads one, then the other, in turn, with the load programs of this tree. Printed
are the medians of the rounds' ratios: of the rates, and of the node's CPU time for one message, which is less noisy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import msgspec
import uvloop

from bench.http_load import post, saturate
from bench.node_process import NodeProcess
from bench.report import Figure, show
from bench.storage import scratch

SECONDS = 3.0
ROUNDS = 5
BATCH = 100
BACKLOG = 100_000
HOUR_MS = 3_600_000


class Sample(msgspec.Struct, frozen=True):
    """One run: messages a second, and the node's CPU time for one."""

    rate: float
    cpu_us: float


Case = Callable[[NodeProcess, str], tuple[float, float]]  # a node and a fresh topic: messages a second, messages


def load(module: str, *arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def create(node: NodeProcess, topic: str, partitions: int = 3) -> None:
    body = {"name": topic, "num_partitions": partitions}
    httpx.post(f"{node.url}/topics", json=body, timeout=60).raise_for_status()


def produce(size: int) -> Case:
    def run(node: NodeProcess, topic: str) -> tuple[float, float]:
        create(node, topic)
        found = load("kafka_load", "produce", node.kafka, topic, size, SECONDS)
        return found["rate"], found["count"]

    return run


def consume(node: NodeProcess, topic: str) -> tuple[float, float]:
    create(node, topic)
    stored = load("kafka_load", "produce", node.kafka, topic, 100, SECONDS / 2)["count"]
    found = load("kafka_load", "consume", node.kafka, topic, 3, int(stored))
    return found["rate"], found["count"]


def transactions(node: NodeProcess, topic: str) -> tuple[float, float]:
    create(node, topic)
    found = load("transactions_load", "transactional", node.kafka, topic, 100, SECONDS)
    return found["rate"], found["count"]


def rest_publish(node: NodeProcess, topic: str) -> tuple[float, float]:
    create(node, topic)
    return _posted(node, topic, {"value": "x" * 100})


def delayed(node: NodeProcess, topic: str) -> tuple[float, float]:
    create(node, topic)
    return _posted(node, topic, {"value": "x" * 100, "delay": "10h"})


def _posted(node: NodeProcess, topic: str, message: dict[str, str]) -> tuple[float, float]:
    body = msgspec.json.encode({"messages": [message] * BATCH})
    rate = uvloop.run(saturate(node.url, post(f"{node.url}/topics/{topic}/messages", body), 8, SECONDS)) * BATCH
    return rate, rate * SECONDS


def queue(node: NodeProcess, topic: str) -> tuple[float, float]:
    """Leased and acknowledged in batches; the peer's program has one topic, so a backlog is added to it."""
    port = node.url.rpartition(":")[2]
    load("queue_load", "fill", "goqueue", port, 0, BACKLOG)
    found = load("queue_load", "drain", "goqueue", port, 4, 0, BACKLOG)
    return found["rate"], BACKLOG


CASES: dict[str, Case] = {
    "kafka produce, 100 bytes": produce(100),
    "kafka produce, 1 KiB": produce(1024),
    "kafka consume, 100 bytes (with its produce)": consume,
    "kafka transactions of 1,000": transactions,
    "rest publish, batches of 100": rest_publish,
    "rest delayed, batches of 100": delayed,
    "queue fill, lease and ack": queue,
}


def sample(case: Case, node: NodeProcess, topic: str) -> Sample:
    cpu = node.cpu_seconds()
    rate, count = case(node, topic)
    return Sample(rate, (node.cpu_seconds() - cpu) / count * 1e6)


def compared(name: str, case: Case, nodes: tuple[NodeProcess, NodeProcess], rounds: int) -> Iterator[Figure]:
    """Which of the two goes first changes with every round. A first round is not counted."""
    pairs: list[tuple[Sample, Sample]] = []
    for number in range(rounds + 1):
        topic = f"{''.join(c if c.isalnum() else '-' for c in name)}-{number}"
        order = (0, 1) if number % 2 else (1, 0)
        found = {side: sample(case, nodes[side], topic) for side in order}
        pairs.append((found[0], found[1]))
    counted = pairs[1:]
    rate = statistics.median(new.rate / old.rate for old, new in counted)
    cpu = statistics.median(new.cpu_us / old.cpu_us for old, new in counted)
    new_rate = statistics.median(new.rate for _, new in counted)
    new_cpu = statistics.median(new.cpu_us for _, new in counted)
    yield Figure(name, f"{rate:.3f} of before", f"{new_rate:,.0f} msg/s")
    yield Figure("  CPU of the node for one message", f"{cpu:.3f} of before", f"{new_cpu:.2f} us")


def idle_memory(nodes: tuple[NodeProcess, NodeProcess]) -> Figure:
    old, new = (node.rss_bytes() / 2**20 for node in nodes)
    return Figure("memory of an idle node", f"{new - old:+.1f} MiB", f"{new:.0f} MiB")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare_trees")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a GOQUEUE_* variable for NEW")
    parser.add_argument("cases", nargs="*", help="parts of names; all if none")
    chosen = parser.parse_intermixed_args(arguments)
    settings = dict(pair.split("=", 1) for pair in chosen.set)
    began = time.perf_counter()
    with scratch() as root, ExitStack() as stack:
        nodes = (
            stack.enter_context(NodeProcess(root / "old", tree=chosen.old)),
            stack.enter_context(NodeProcess(root / "new", tree=chosen.new, settings=settings)),
        )
        show("start", [idle_memory(nodes)])
        for name, case in CASES.items():
            if not chosen.cases or any(part in name for part in chosen.cases):
                show(name, list(compared(name, case, nodes, chosen.rounds)))
    print(f"\n{time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
