"""Delayed messages: how exactly they come, how fast they are taken in, what a million of them cost."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import msgspec
import uvloop
from confluent_kafka import Consumer, TopicPartition

from bench.http_load import connect, post
from bench.node_process import NodeProcess
from bench.report import Figure, percentile
from goqueue.base.limits import MIB

RATE = 10_000
SECONDS = 6
LEAD_MS = 12_000
PENDING = 1_000_000
CROWD = 1_000
BATCH = 500
VALUE = "x" * 100
DAY_MS = 86_400_000


def fire_figures(root: Path) -> Iterator[Figure]:
    """Ten thousand messages fall due every second, in an order that has nothing to do with how they were sent."""
    for fsync in ("interval", "always"):
        with NodeProcess(root / f"fire-{fsync}", "--fsync", fsync) as node:
            _create(node, "bench", 1)
            count = RATE * SECONDS
            start = time.time_ns() // 1_000_000 + LEAD_MS
            dues = [start + n * 1000 // RATE for n in range(count)]
            random.Random(7).shuffle(dues)
            uvloop.run(_send(node, "bench", dues))
            if time.time_ns() // 1_000_000 > start:
                raise RuntimeError("the machine is too busy: the first messages were due before all were sent")
            cpu, began = node.cpu_seconds(), time.perf_counter()
            fired, seen = _arrivals(node, "bench", count)
            share = (node.cpu_seconds() - cpu) / (time.perf_counter() - began)
            told = httpx.get(f"{node.url}/delay/stats").json()
        if not len(fired) == count == told["delivered"]:
            raise RuntimeError(f"{count} sent, {len(fired)} came: {told}")
        if fired[0] < 0:
            raise RuntimeError("one came early")
        yield Figure(
            f"{RATE:,} due a second, fsync={fsync}: in the log after",
            f"p99 {percentile(fired, 0.99):.0f} ms",
            f"p50 {percentile(fired, 0.5):.0f}, max {fired[-1]:.0f} ms",
            "max under 20 ms" if fsync == "interval" else "",
            fired[-1] < 20 if fsync == "interval" else None,
        )
        yield Figure(
            "  seen by a consumer after",
            f"p99 {percentile(seen, 0.99):.1f} ms",
            f"p50 {percentile(seen, 0.5):.1f}, max {seen[-1]:.1f} ms; node {share:.0%} of a core",
        )


def pending_figures(root: Path) -> Iterator[Figure]:
    """A million messages wait, from an hour to sixty days, beside many topics and groups."""
    chance = random.Random(7)
    now = time.time_ns() // 1_000_000
    dues = [now + chance.randrange(3_600_000, 60 * DAY_MS) for _ in range(PENDING)]
    node = NodeProcess(root / "pending").start()
    _create(node, "bench", 8)
    _crowd(node)
    began = time.perf_counter()
    uvloop.run(_send(node, "bench", dues))
    rate = PENDING / (time.perf_counter() - began)
    yield Figure("taken in with a delay, batches of 500", f"{rate:,.0f} msg/s", "", "at least 10,000", rate >= 10_000)
    told = httpx.get(f"{node.url}/delay/stats", timeout=60).json()
    assert told["pending"] == PENDING, told
    yield _memory("the node's memory with a million pending", node)
    for how in ("kill -9", "a clean stop"):
        if how == "kill -9":
            node.kill()
        else:
            node.stop()
        began = time.perf_counter()
        node.start()
        spent = time.perf_counter() - began
        told = httpx.get(f"{node.url}/delay/stats", timeout=60).json()
        assert told["pending"] == PENDING, told
        name = f"start after {how} with a million pending, {CROWD:,} topics and groups"
        yield Figure(name, f"{spent:.2f} s", f"{node.cpu_seconds():.1f} s of processor", "under 3 s", spent < 3)
    yield _memory("its memory after the start", node)
    began = time.perf_counter()
    httpx.get(f"{node.url}/topics/bench/delayed?limit=100&skip=500000", timeout=60).raise_for_status()
    yield Figure("a page of 100 from the middle of the list", f"{(time.perf_counter() - began) * 1000:.0f} ms")
    node.stop()


def _crowd(node: NodeProcess) -> None:
    with httpx.Client(base_url=node.url, timeout=60) as client:
        for number in range(CROWD):
            client.post("/topics", json={"name": f"t{number}", "num_partitions": 1}).raise_for_status()
            offsets = [{"topic": f"t{number}", "partition": 0, "offset": 0}]
            client.post(f"/groups/g{number}/offsets", json={"offsets": offsets}).raise_for_status()


def _memory(name: str, node: NodeProcess) -> Figure:
    used = node.rss_bytes() / MIB
    return Figure(name, f"{used:,.0f} MiB", "", "under 300 MiB", used < 300)


def _create(node: NodeProcess, topic: str, partitions: int) -> None:
    httpx.post(f"{node.url}/topics", json={"name": topic, "num_partitions": partitions}).raise_for_status()


async def _send(node: NodeProcess, topic: str, dues: Sequence[int], connections: int = 4) -> None:
    lines = await connect(node.url, connections)
    url = f"{node.url}/topics/{topic}/messages"

    async def run(number: int) -> None:
        for at in range(number * BATCH, len(dues), connections * BATCH):
            messages = [{"value": f"{due} {VALUE}", "deliverAt": due} for due in dues[at : at + BATCH]]
            await lines[number].send(post(url, msgspec.json.encode({"messages": messages})))

    await asyncio.gather(*(run(number) for number in range(connections)))
    for line in lines:
        line.close()


def _arrivals(node: NodeProcess, topic: str, count: int) -> tuple[list[float], list[float]]:
    """How many milliseconds after its time each message entered its log, and reached a consumer; both sorted."""
    consumer = Consumer({"bootstrap.servers": node.kafka, "group.id": "bench"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    fired: list[float] = []
    seen: list[float] = []
    until = time.monotonic() + 60
    while len(fired) < count and time.monotonic() < until:
        for message in consumer.consume(1000, 0.001):
            due = int((message.value() or b"0").partition(b" ")[0])
            seen.append(time.time() * 1000 - due)
            fired.append(message.timestamp()[1] - due)
    consumer.close()
    return sorted(fired), sorted(seen)
