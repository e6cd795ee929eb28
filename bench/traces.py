"""What tracing costs Kafka's door: off, looked for only, and 1 % of messages, in turn in one run; then all of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import httpx

from bench.bare_kafka import PARTITIONS
from bench.kafka import _load
from bench.node_process import NodeProcess
from bench.report import Figure, percentile

SIZE = 100
SECONDS = 1.5
ROUNDS = 24
LOSS_MAX = 0.03
GROWTH_MIB_MAX = 300
KINDS = {"off": "off", "looked-for": "default", "sampled": "0.01"}  # each topic's `trace`


def trace_figures(root: Path) -> Iterator[Figure]:
    with NodeProcess(root / "traces") as node:
        for topic, trace in {**KINDS, "all": "on"}.items():
            body = {"name": topic, "num_partitions": PARTITIONS, "config": {"trace": trace}}
            httpx.post(f"{node.url}/topics", json=body).raise_for_status()
        yield from _cost(node)
        yield from _all(node)


def _cost(node: NodeProcess) -> Iterator[Figure]:
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}  # the node's CPU time for a million messages
    for number in range(ROUNDS):
        first = number % len(KINDS)  # another one each time
        for kind in [*list(KINDS)[first:], *list(KINDS)[:first]]:
            cpu = node.cpu_seconds()
            found = _load("produce", node.kafka, kind, SIZE, SECONDS)
            rates[kind].append(found["rate"])
            costs[kind].append((node.cpu_seconds() - cpu) / found["count"] * 1e6)
    yield Figure(
        f"produce {SIZE}-byte messages, tracing off",
        f"{_undisturbed(rates['off']):,.0f} msg/s",
        f"{statistics.median(costs['off']):.2f} s CPU a million",
    )
    for kind, name in (("looked-for", "  producers' traces looked for"), ("sampled", "  1 % of messages traced")):
        loss = 1 - _undisturbed(rates[kind]) / _undisturbed(rates["off"])
        yield Figure(
            name,
            f"{_undisturbed(rates[kind]):,.0f} msg/s",
            f"{-loss:+.1%}, {statistics.median(costs[kind]):.2f} s CPU a million",
            f"less than {LOSS_MAX:.0%} lost",
            loss < LOSS_MAX,
        )


def _undisturbed(rates: list[float]) -> float:
    """Whatever else the machine does can only slow a round down: its better rounds are what tells kinds apart."""
    return percentile(sorted(rates), 0.75)


def _all(node: NodeProcess) -> Iterator[Figure]:
    """Far more events than anybody can keep: the node drops most of them, counts them, and stays as it is."""
    before = node.rss_bytes()
    rate = _load("produce", node.kafka, "all", SIZE, 3 * SECONDS)["rate"]
    stats = httpx.get(f"{node.url}/traces/stats").raise_for_status().json()
    grown = (node.rss_bytes() - before) / 2**20
    dropped = stats["dropped"] + sum(one["dropped"] for one in stats["exporters"])
    yield Figure(
        "  all messages traced",
        f"{rate:,.0f} msg/s",
        f"{stats['recorded']:,} events kept, {dropped:,} dropped",
    )
    yield Figure(
        "  the node's memory meanwhile",
        f"{node.rss_bytes() / 2**20:,.0f} MiB",
        f"{grown:+,.0f} MiB, {stats['traces']:,} traces in memory",
        f"less than {GROWTH_MIB_MAX} MiB more",
        grown < GROWTH_MIB_MAX,
    )
