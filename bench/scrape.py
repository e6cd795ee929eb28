"""What a scrape of `/metrics` costs a node with many topics: time of the loop's own thread, and how long others wait.

The node runs in this process, so that the loop's thread can be measured. The client's share is in the figures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import uvloop

from bench.report import Figure
from goqueue.base.settings import load_settings
from goqueue.node import Node

TOPICS = 1_000
SCRAPES = 8
_TICK_S = 0.001
_IDLE_S = 0.05
_STALE_S = 1.1  # the page is kept for a second


class Scrape(NamedTuple):
    """One scrape. `loop_s` is processor time of the loop's thread; `late_s` the longest that a timer came late, and
    `held_s` how much processor time this process took meanwhile: the lateness that is not the machine's. `idle_late_s`
    is the former without a scrape, just before."""

    loop_s: float
    process_s: float
    late_s: float
    held_s: float
    idle_late_s: float
    size: int


def scrape_figures(root: Path) -> Iterator[Figure]:
    scrapes = uvloop.run(_measure(root / "scrape", TOPICS))
    loop = max(one.loop_s for one in scrapes)
    typical = sorted(one.loop_s for one in scrapes)[len(scrapes) // 2]
    whole = sorted(one.process_s for one in scrapes)[len(scrapes) // 2]
    held = sorted(one.held_s for one in scrapes)[len(scrapes) // 2]
    late = sorted(one.late_s for one in scrapes)[len(scrapes) // 2]
    idle = sorted(one.idle_late_s for one in scrapes)[len(scrapes) // 2]
    yield Figure(
        f"a scrape with {TOPICS:,} topics, loop time",
        f"{typical * 1e3:.1f} ms",
        f"worst {loop * 1e3:.1f} ms of {len(scrapes)}; {scrapes[-1].size / 1e6:.2f} MB of text",
        "under 50 ms",
        loop < 0.05,
    )
    yield Figure("the same, all threads", f"{whole * 1e3:.1f} ms")
    yield Figure(
        "the same, what a timer waits for this process",
        f"{held * 1e3:.1f} ms",
        f"medians of scrapes; timers were {late * 1e3:.1f} ms late by the clock, {idle * 1e3:.1f} ms without a scrape",
        "under 10 ms",
        held < 0.01,
    )


async def _measure(data_dir: Path, topics: int) -> list[Scrape]:
    flags = {
        "data.dir": str(data_dir),
        "rest.listen": "127.0.0.1:0",
        "kafka.listen": "off",
        "sqs.listen": "off",
        "log.disk_used_percent_max": "100",
    }
    node = Node(load_settings(None, {}, flags))
    url = (await node.start()).addresses["REST"]
    try:
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            await _fill(http, topics)
        return [await _scrape(url) for _ in range(SCRAPES)]
    finally:
        await node.stop()


async def _fill(http: httpx.AsyncClient, topics: int) -> None:
    """Every topic holds messages that were read once."""
    for number in range(topics):
        name = f"orders-{number:04}"
        (await http.post("/topics", json={"name": name})).raise_for_status()
        messages = [{"value": "x"}, {"value": "y"}]
        (await http.post(f"/topics/{name}/messages", json={"messages": messages})).raise_for_status()
        (await http.get(f"/topics/{name}/messages")).raise_for_status()


async def _scrape(url: str) -> Scrape:
    await asyncio.sleep(_STALE_S)
    ticks: list[tuple[float, float]] = []
    ticking = asyncio.create_task(_tick(ticks))
    await asyncio.sleep(_IDLE_S)
    idle_late = max(late for late, _ in ticks)
    ticks.clear()
    thread, process = time.thread_time(), time.process_time()
    size = await _get(url)
    loop_s, process_s = time.thread_time() - thread, time.process_time() - process
    await asyncio.sleep(2 * _TICK_S)  # the tick that was due meanwhile
    ticking.cancel()
    late, held = max(late for late, _ in ticks), max(held for _, held in ticks)
    return Scrape(loop_s, process_s, late, held, idle_late, size)


async def _tick(ticks: list[tuple[float, float]]) -> None:
    """How late each timer is, and how long this process worked meanwhile."""
    while True:
        began, worked = time.perf_counter(), time.process_time()
        await asyncio.sleep(_TICK_S)
        ticks.append((time.perf_counter() - began - _TICK_S, time.process_time() - worked))


async def _get(url: str) -> int:
    """Bytes of the page, read as cheaply as can be."""
    at = urlsplit(url)
    reader, writer = await asyncio.open_connection(at.hostname, at.port, limit=1 << 24)
    writer.write(f"GET /metrics HTTP/1.1\r\nHost: {at.netloc}\r\nConnection: close\r\n\r\n".encode())
    size = len(await reader.read())
    writer.close()
    return size
