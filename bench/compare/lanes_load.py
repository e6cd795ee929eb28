"""Urgent messages beside a backlog: `python -m bench.compare.lanes_load PEER PORT BACKLOG`, one line of JSON on stdout.

Consumers work the backlog off as fast as they can; how long do urgent messages wait that are sent meanwhile?
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import uvloop

from bench.compare.bodies import Ledger, body, number_of
from bench.compare.model import CheckFailed
from bench.http_load import post
from bench.peers import goqueue, rabbitmq
from bench.peers.client import QUEUE, Client, Consumer
from bench.report import percentile

URGENT = 100
RATE = 50
CONSUMERS = 4
BATCH = 10
WORK_S = 0.01  # for a batch: a millisecond of work for a message


class GoQueueLanes(goqueue.Client):
    async def publish_urgent(self, message: bytes) -> None:
        asked = {"messages": [{"value": message.decode(), "priority": "critical"}]}
        await self._send(post(f"{self.url}/topics/{QUEUE}/messages", msgspec.json.encode(asked)))


class RabbitLanes(rabbitmq.Client):
    """A classic queue: quorum queues of this version know no priorities. Prefetched messages cannot be overtaken."""

    def __init__(self, port: int) -> None:
        super().__init__(port, {"x-max-priority": 5})

    async def publish_urgent(self, message: bytes) -> None:
        await self.publish([message], priority=5)


LANES: dict[str, Any] = {"goqueue": GoQueueLanes, "rabbitmq": RabbitLanes}


async def urgent(client: Client, send: Any, backlog: int) -> dict[str, float]:
    """Milliseconds from when an urgent message was due until it was acknowledged. All messages have to come, once."""
    await client.create()
    for first in range(0, backlog, 100):
        await client.publish([body(number) for number in range(first, first + 100)])
    ledger = Ledger(0, backlog + URGENT)
    done: dict[int, float] = {}
    lines: list[Consumer] = [await client.consumer() for _ in range(CONSUMERS)]
    consuming = [asyncio.create_task(_work(line, ledger, done, backlog)) for line in lines]
    began = time.perf_counter() + 0.2
    for number in range(URGENT):
        await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
        await send(body(backlog + number))
    left = ledger.count < backlog
    async with asyncio.timeout(120):
        await asyncio.gather(*consuming)
    ledger.close()
    if not left:
        raise CheckFailed("the backlog was gone before the last urgent message: nothing had to be overtaken")
    waited = sorted((at - began - (number - backlog) / RATE) * 1000 for number, at in done.items())
    return {"urgent-p50": percentile(waited, 0.5), "urgent-p99": percentile(waited, 0.99)}


async def _work(line: Consumer, ledger: Ledger, done: dict[int, float], backlog: int) -> None:
    while not ledger.is_whole:
        taken = await line.take(BATCH, 200)
        await asyncio.sleep(WORK_S)
        if not taken:
            continue
        await line.ack([handle for _, handle in taken])
        numbers = [number_of(one) for one, _ in taken]
        ledger.note(numbers)
        now = time.perf_counter()
        done.update((number, now) for number in numbers if number >= backlog)
    await line.close()


async def main(arguments: Sequence[str]) -> dict[str, float]:
    peer, port, backlog = arguments
    client = LANES[peer](int(port))
    try:
        return await urgent(client, client.publish_urgent, int(backlog))
    finally:
        await client.close()


if __name__ == "__main__":
    try:
        print(json.dumps(uvloop.run(main(sys.argv[1:]))))
    except CheckFailed as error:
        print(json.dumps({"failed": str(error)}))
