"""The load on a queue: `python -m bench.queue_load fill|drain|paced PEER PORT ...`, one line of JSON on stdout.

The same work for every broker, in one process of its own, so that its CPU time can be told from the broker's. Every
message is compared with what was sent, and counted, when the clock has stopped.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import resource
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress

import uvloop

from bench.compare.bodies import Ledger, body, number_of
from bench.compare.model import CheckFailed
from bench.peers.client import Client, Consumer
from bench.report import percentile

BATCH = 100
WAIT_MS = 1_000
DRAIN_S = 180.0
PACED_S = 60.0

Found = dict[str, float]


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def fill(client: Client, first: int, count: int) -> Found:
    """Puts a backlog there: confirmed batches, eight at a time."""
    await client.create()
    batches = iter(range(first, first + count, BATCH))
    began = time.perf_counter()

    async def run() -> None:
        for start in batches:
            await client.publish([body(number) for number in range(start, min(start + BATCH, first + count))])

    await asyncio.gather(*(run() for _ in range(8)))
    return {"rate": count / (time.perf_counter() - began)}


async def drain(client: Client, consumers: int, first: int, count: int) -> Found:
    """Takes and acknowledges the whole backlog in batches; each message has to come as it was sent, and once."""
    lines: list[Consumer] = [await client.consumer() for _ in range(consumers)]
    seen: list[list[bytes | str]] = []
    left = count
    ended = 0.0
    cpu, began = cpu_seconds(), time.perf_counter()

    async def run(line: Consumer) -> None:
        nonlocal left, ended
        while left > 0:
            taken = await line.take(BATCH, WAIT_MS)
            if not taken:
                continue
            await line.ack([handle for _, handle in taken])
            seen.append([value for value, _ in taken])
            left -= len(taken)
            ended = time.perf_counter()

    with suppress(TimeoutError):  # what did not come is told below
        async with asyncio.timeout(DRAIN_S):
            await asyncio.gather(*(run(line) for line in lines))
    used, spent = cpu_seconds() - cpu, ended - began
    require_all(first, count, (value for values in seen for value in values))
    for line in lines:
        await line.close()
    return {"rate": count / spent, "seconds": spent, "cpu": used}


def require_all(first: int, count: int, values: Iterable[bytes | str]) -> None:
    """Raises CheckFailed unless these are the messages from `first` on, as they were sent, each once."""
    ledger = Ledger(first, count)
    ledger.note(number_of(value) for value in values)
    ledger.close()


async def ticks(began: float, rate: int, total: int) -> AsyncIterator[int]:
    """Numbers from 1 on, each when it is due. The loop's own timers count in whole milliseconds, which would be half of
    what is measured here; a thread's sleep is exact to a tenth of one."""
    loop = asyncio.get_running_loop()
    due: asyncio.Queue[int] = asyncio.Queue()

    def tick() -> None:
        for number in range(1, total):
            if (early := began + number / rate - time.perf_counter()) > 0:
                time.sleep(early)
            loop.call_soon_threadsafe(due.put_nowait, number)

    threading.Thread(target=tick, daemon=True).start()
    for _ in range(1, total):
        yield await due.get()


async def paced(client: Client, consumers: int, rate: int, seconds: float) -> Found:
    """Latencies in ms from the moment each message was due until its ack is confirmed, waiting included.

    Messages are sent one by one when they are due, whether or not earlier ones are done. A first second is not counted.
    """
    await client.create()
    await client.publish([body(0)])
    lines: list[Consumer] = [await client.consumer() for _ in range(consumers)]
    warm, total = rate, int(rate * (seconds + 1))
    done: list[tuple[bytes | str, float]] = []
    began = time.perf_counter() + 0.2

    async def run(line: Consumer) -> None:
        while len(done) < total:
            taken = await line.take(1, WAIT_MS)
            if taken:
                await line.ack([handle for _, handle in taken])
                now = time.perf_counter()
                done.extend((value, now) for value, _ in taken)

    consuming = [asyncio.create_task(run(line)) for line in lines]
    publish = client.publish
    sending = [asyncio.create_task(publish([body(number)])) async for number in ticks(began, rate, total)]
    with suppress(TimeoutError):
        async with asyncio.timeout(PACED_S):
            await asyncio.gather(*sending, *consuming)
    require_all(0, total, (value for value, _ in done))
    for line in lines:
        await line.close()
    came = ((number_of(value), at) for value, at in done)
    latencies = sorted((at - began - number / rate) * 1000 for number, at in came if number >= warm)
    return {name: percentile(latencies, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))}


def client_of(peer: str, port: int) -> Client:
    client: Client = importlib.import_module(f"bench.peers.{peer}").Client(port)
    return client


async def main(arguments: Sequence[str]) -> Found:
    kind, peer, port, *rest = arguments
    client = client_of(peer, int(port))
    if kind == "fill":
        found = await fill(client, *map(int, rest))
    elif kind == "drain":
        found = await drain(client, *map(int, rest))
    else:
        consumers, rate, seconds = rest
        found = await paced(client, int(consumers), int(rate), float(seconds))
    await client.close()
    return found


if __name__ == "__main__":
    try:
        print(json.dumps(uvloop.run(main(sys.argv[1:]))))
    except CheckFailed as error:
        print(json.dumps({"failed": str(error)}))
