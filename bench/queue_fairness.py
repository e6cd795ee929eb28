"""Who gets what when consumers differ: a slow one, one that dies, one that never acks, and a thousand that wait."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import uvloop

from bench.compare.bodies import body
from bench.http_load import Refused
from bench.node_process import NodeProcess
from bench.peers.goqueue import Client, Consumer
from bench.report import Figure
from goqueue.base.limits import MIB

LEASE_MS = 2_000
RETRY_MS = 100
CROWD = 1_000
CROWD_RATE = 500
CONFIG = {
    "queue.lease.ms": LEASE_MS,
    "queue.max.failures": 0,
    "queue.retry.ms": RETRY_MS,
    "queue.retry.max.ms": RETRY_MS,
}
TICK_S = 0.02
POLL_MS = 20_000


class Worker(msgspec.Struct, frozen=True):
    """How a consumer behaves: it works so long on a message, and may die or forget to ack."""

    work_s: float = 0.0
    acks: bool = True
    dies_after: int | None = None  # messages taken
    limit: int = 10


class Shared(msgspec.Struct):
    """What a scenario found: messages acked by each worker, and how long each message waited for its ack."""

    done: list[int]
    waits_s: list[float]
    joined_s: float  # until all were in and had polled once

    def jain(self, workers: Sequence[int]) -> float:
        """1 if all got the same, 1/n if one got everything."""
        counts = [self.done[worker] for worker in workers]
        squares = sum(count * count for count in counts)
        return sum(counts) ** 2 / (len(counts) * squares) if squares else 0.0

    def spread(self, workers: Sequence[int]) -> str:
        counts = sorted(self.done[worker] for worker in workers)
        return f"{counts[0]:,} / {statistics.median(counts):,.0f} / {counts[-1]:,} each"


def fairness_figures(root: Path) -> Iterator[Figure]:
    """Acked messages: min / median / max of the sound consumers, and Jain's index of them."""
    sound = [Worker() for _ in range(3)]
    lease_s = (LEASE_MS + RETRY_MS) / 1000
    scenarios: list[tuple[str, Worker, float]] = [
        ("a slow one, 20 ms a message", Worker(work_s=0.02), 1.0),
        ("one that dies with messages", Worker(dies_after=500), lease_s + 1.0),
        ("one that never acks", Worker(acks=False), 8 * lease_s),  # it may get a message again and again
    ]
    for number, (name, odd, wait_bar) in enumerate(scenarios):
        with NodeProcess(root / f"fair-{number}") as node:
            found = uvloop.run(scenario(node, [odd, *sound], rate=1_000, seconds=5.0))
        others = range(1, 4)
        jain, longest = found.jain(others), max(found.waits_s)
        yield Figure(
            f"three sound consumers beside {name}",
            f"Jain {jain:.3f}",
            found.spread(others),
            "at least 0.9",
            jain >= 0.9,
        )
        yield Figure(
            f"  the longest wait for an ack, leases of {LEASE_MS / 1000:g} s",
            f"{longest:.2f} s",
            f"the odd one acked {found.done[0]:,}",
            f"under {wait_bar:g} s",
            longest < wait_bar,
        )
    yield from crowd_figures(root)


def crowd_figures(root: Path) -> Iterator[Figure]:
    with NodeProcess(root / "crowd") as node:
        before = node.rss_bytes()
        found = uvloop.run(scenario(node, [Worker(limit=1) for _ in range(CROWD)], rate=CROWD_RATE, seconds=10.0))
        added = node.rss_bytes() - before
    everyone = range(CROWD)
    jain, longest = found.jain(everyone), max(found.waits_s)
    name = f"{CROWD:,} consumers in long polls on 3 partitions"
    yield Figure(name, f"Jain {jain:.3f}", found.spread(everyone), "at least 0.9", jain >= 0.9)
    middle = f"median {statistics.median(found.waits_s) * 1000:.1f} ms"
    yield Figure("  the longest wait for an ack", f"{longest * 1000:.0f} ms", middle, "under 1 s", longest < 1)
    yield Figure("  until all had joined and polled once", f"{found.joined_s:.1f} s")
    each = f"{added / CROWD / 1024:.0f} KiB a consumer"
    yield Figure("  memory of the node meanwhile", f"+{added / MIB:.0f} MiB", each, "under 100 MiB", added < 100 * MIB)


async def scenario(node: NodeProcess, workers: Sequence[Worker], rate: int, seconds: float) -> Shared:
    """Messages come at a steady rate; it ends when every one of them is acked."""
    client = Client(urlsplit(node.url).port or 0, CONFIG)
    await client.create()
    came = time.perf_counter()
    lines = [await client.consumer() for _ in workers]
    await asyncio.gather(*(line.take(1, 0) for line in lines))
    joined_s = time.perf_counter() - came
    total = int(rate * seconds)
    acked: dict[int, float] = {}
    all_acked = asyncio.Event()
    found = Shared([0] * len(workers), [], joined_s)
    began = time.perf_counter()

    async def run(place: int) -> None:
        worker, line, taken_so_far = workers[place], lines[place], 0
        while True:
            taken = await line.take(worker.limit, POLL_MS)
            taken_so_far += len(taken)
            if worker.dies_after is not None and taken_so_far >= worker.dies_after:
                line.line.close()
                return
            for value, receipt in taken if worker.acks else ():
                await asyncio.sleep(worker.work_s)
                if await acknowledged(line, receipt):
                    acked[int(value[:8])] = time.perf_counter()
                    found.done[place] += 1
            if len(acked) == total:
                all_acked.set()

    running = [asyncio.create_task(run(place)) for place in range(len(workers))]
    running.append(asyncio.create_task(publish(client, total, rate, began)))
    for task in running:
        task.add_done_callback(lambda task: all_acked.set() if not task.cancelled() and task.exception() else None)
    async with asyncio.timeout(seconds + 60):
        await all_acked.wait()
    for task in running:
        task.cancel()
    ended = await asyncio.gather(*running, return_exceptions=True)
    if failed := [one for one in ended if isinstance(one, Exception)]:
        raise RuntimeError(node.stderr[-2_000:]) from failed[0]
    step = step_of(rate)
    found.waits_s = [at - began - (number - number % step) / rate for number, at in acked.items()]
    for line in lines:
        line.line.close()
    await client.close()
    return found


def step_of(rate: int) -> int:
    """Messages that are published together."""
    return max(1, int(rate * TICK_S))


async def publish(client: Client, total: int, rate: int, began: float) -> None:
    step = step_of(rate)
    for first in range(0, total, step):
        if (early := began + first / rate - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        await client.publish([body(number) for number in range(first, min(first + step, total))])


async def acknowledged(line: Consumer, receipt: str) -> bool:
    """False if the lease was over: somebody else has the message, or will."""
    try:
        await line.ack([receipt])
    except Refused as refused:
        if refused.status != 409:
            raise
        return False
    return True
