"""gRPC's door by the Python client: publish and consume in batches, and raw batches, beside a gRPC server that only
answers."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import uvloop

from bench.node_process import NodeProcess
from bench.report import Figure
from goqueue.client import AsyncClient
from goqueue.format.batch import split
from goqueue.format.records import NewRecord, build
from goqueue.wire import goqueue_pb2 as pb

VALUE = b"x" * 100
BATCH = 500
CALLERS = 4
SECONDS = 3.0
ROUNDS = 3
MESSAGES = 200_000
POLLED = 2_000

# The same server machinery, with nothing behind it: a request's bytes come, a short answer goes.
_ECHO = """
import asyncio, grpc, uvloop
async def answer(data, context): return b"{}"
async def main():
    server = grpc.aio.server(options=(("grpc.max_receive_message_length", -1),))
    methods = {"Echo": grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench", methods),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()
uvloop.run(main())
"""


def grpc_figures(root: Path) -> Iterator[Figure]:
    with NodeProcess(root / "grpc") as node:
        for name in ("published", "raw", "consumed"):
            made = httpx.post(f"{node.url}/topics", json={"name": name, "num_partitions": 1})
            assert made.status_code == 201, made.text
        url = f"grpc://{node.grpc}"
        many = [VALUE] * BATCH
        body = pb.PublishRequest(topic="published", values=many).SerializeToString()
        yield _figure(
            f"publish, batches of {BATCH}",
            [_run(node, _calls(url, lambda one: one.publish_many("published", many))) for _ in range(ROUNDS)],
            _echoed(body),
            150_000,
        )
        uvloop.run(_fill(url, "consumed", many))
        rounds = [_run(node, _consume(url, f"g{number}")) for number in range(ROUNDS)]
        yield _figure("consume and ack, under leases", rounds, None, 150_000)
        batch = build([NewRecord(None, VALUE, (), time.time_ns() // 1_000_000) for _ in range(BATCH)])
        yield _figure(
            f"publish, raw batches of {BATCH}",
            [_run(node, _calls(url, lambda one: one.publish_batch("raw", 0, batch))) for _ in range(ROUNDS)],
            _echoed(batch),
            500_000,
        )
        rounds = [_run(node, _fetched(url)) for _ in range(ROUNDS)]
        yield _figure("fetch raw, 1 MiB at once", rounds, None, 500_000)


class _Round(NamedTuple):
    """Messages a second, and the time on a core that one took at the client and at the node: on a machine that does
    other things too, that says more."""

    rate: float
    client_us: float
    node_us: float


def _run(node: NodeProcess, work: Coroutine[Any, Any, tuple[int, float]]) -> _Round:
    client, served = time.process_time(), node.cpu_seconds()
    count, seconds = uvloop.run(work)
    client, served = time.process_time() - client, node.cpu_seconds() - served
    return _Round(count / seconds, client / count * 1e6, served / count * 1e6)


def _figure(name: str, rounds: list[_Round], bare: float | None, bar: int) -> Figure:
    rate, client, node = (statistics.median(column) for column in zip(*rounds, strict=True))
    alone = "" if bare is None else f"{rate / bare:.2f} of answering alone ({bare:,.0f}); "
    against = f"{alone}CPU {client:.1f} us client, {node:.1f} us node"
    return Figure(name, f"{rate:,.0f} msg/s", against, f"at least {bar:,}", rate >= bar)


async def _calls(address: str, call: Callable[[AsyncClient], Awaitable[Any]]) -> tuple[int, float]:
    """Messages and seconds, by callers that each have one request under way."""
    done = 0
    end = time.perf_counter() + SECONDS

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await call(client)
            done += BATCH

    async with AsyncClient(address) as client:
        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return done, time.perf_counter() - began


async def _fill(address: str, topic: str, many: list[bytes]) -> None:
    async with AsyncClient(address) as client:
        for _ in range(MESSAGES // BATCH):
            await client.publish_many(topic, many)


async def _consume(address: str, group: str) -> tuple[int, float]:
    """Every message is acknowledged, and that is safe, before the clock stops."""
    left = MESSAGES
    acks: set[asyncio.Task[None]] = set()
    async with (
        AsyncClient(address) as client,
        client.consumer(group, ["consumed"], mode="shared", visibility_timeout="10m") as consumer,
    ):
        began = time.perf_counter()
        while left:
            found = await consumer.poll(POLLED)
            left -= len(found)
            acks.add(asyncio.create_task(consumer.ack(*found)))
        await asyncio.gather(*acks)
        return MESSAGES, time.perf_counter() - began


async def _fetched(address: str) -> tuple[int, float]:
    async with AsyncClient(address) as client:
        offset = count = 0
        began = time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            batches, after = await client.fetch_batches("raw", 0, offset)
            count += after - offset
            offset = after if batches else 0
            assert not batches or next(split(batches))
        return count, time.perf_counter() - began


def _echoed(body: bytes) -> float:
    server = subprocess.Popen([sys.executable, "-c", _ECHO], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        return statistics.median(uvloop.run(_echo(port, body)) for _ in range(ROUNDS))
    finally:
        server.kill()
        server.communicate()


async def _echo(port: int, body: bytes) -> float:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask = channel.unary_unary("/bench/Echo")
        done, began = 0, time.perf_counter()

        async def caller() -> None:
            nonlocal done
            while time.perf_counter() - began < SECONDS:
                await ask(body)
                done += BATCH

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return done / (time.perf_counter() - began)
