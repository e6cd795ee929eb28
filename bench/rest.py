"""The REST door: publish throughput and latency, beside a bare HTTP server that throws everything away."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import uvloop

from bench.http_load import paced, post, saturate
from bench.node_process import NodeProcess
from bench.report import Figure

BATCH = 100
VALUE = "x" * 100
SECONDS = 4.0
ROUNDS = 3

# The same HTTP machinery, with nothing behind it.
_DISCARD = """
import asyncio, socket, uvloop, uvicorn
async def app(scope, receive, send):
    while (await receive()).get("more_body"): pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})
sock = socket.socket(); sock.bind(("127.0.0.1", 0)); print(sock.getsockname()[1], flush=True)
server = uvicorn.Server(uvicorn.Config(app, http="httptools", lifespan="off", log_config=None, access_log=False))
uvloop.run(server.serve(sockets=[sock]))
"""


def publish_figures(root: Path) -> Iterator[Figure]:
    many = msgspec.json.encode({"messages": [{"value": VALUE}] * BATCH})
    keyed = msgspec.json.encode({"messages": [{"key": f"user-{n}", "value": VALUE} for n in range(BATCH)]})
    with NodeProcess(root / "rest") as node:
        _create(node, "bench")
        url = f"{node.url}/topics/bench/messages"
        yield from _throughput("publish, batches of 100", node, url, many, bar=100_000)
        yield from _throughput("publish, batches of 100 with keys", node, url, keyed)
        one = post(url, msgspec.json.encode({"messages": [{"value": VALUE}]}))
        figures = uvloop.run(paced(node.url, one, 1000, SECONDS))
        yield Figure(
            "publish one at a time, 1,000 a second",
            f"p99 {figures['p99']:.2f} ms",
            f"p50 {figures['p50']:.2f}, p99.9 {figures['p99.9']:.2f}",
            "p99 under 10 ms",
            figures["p99"] < 10,
        )
    with NodeProcess(root / "rest-always", "--fsync", "always") as node:
        _create(node, "bench")
        one = post(f"{node.url}/topics/bench/messages", msgspec.json.encode({"messages": [{"value": VALUE}]}))
        figures = uvloop.run(paced(node.url, one, 1000, SECONDS, connections=64))
        yield Figure(
            "the same with fsync=always",
            f"p99 {figures['p99']:.2f} ms",
            f"p50 {figures['p50']:.2f}, p99.9 {figures['p99.9']:.2f}",
        )


def _throughput(name: str, node: NodeProcess, url: str, body: bytes, bar: int | None = None) -> Iterator[Figure]:
    rates: list[float] = []
    bare: list[float] = []
    shares: list[float] = []
    for _ in range(ROUNDS):
        cpu, began = node.cpu_seconds(), time.perf_counter()
        rates.append(uvloop.run(saturate(node.url, post(url, body), 8, SECONDS)) * BATCH)
        shares.append((node.cpu_seconds() - cpu) / (time.perf_counter() - began))
        bare.append(_discarding(body) * BATCH)
    rate, floor = statistics.median(rates), statistics.median(bare)
    yield Figure(
        name,
        f"{rate:,.0f} msg/s",
        f"{rate / floor:.2f} of discarding ({floor:,.0f})",
        f"at least {bar:,}" if bar else "",
        rate >= bar if bar else None,
    )
    yield Figure("  the node's share of one core meanwhile", f"{statistics.median(shares):.0%}")


def _discarding(body: bytes) -> float:
    with subprocess.Popen([sys.executable, "-c", _DISCARD], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        asyncio.run(_reachable(url))
        rate = uvloop.run(saturate(url, post(f"{url}/", body), 8, SECONDS / 2))
        server.kill()
    return rate


async def _reachable(url: str) -> None:
    async with httpx.AsyncClient() as client:
        for _ in range(200):
            try:
                await client.get(url)
                return
            except httpx.ConnectError:
                await asyncio.sleep(0.02)


def _create(node: NodeProcess, topic: str) -> None:
    httpx.post(f"{node.url}/topics", json={"name": topic}).raise_for_status()
