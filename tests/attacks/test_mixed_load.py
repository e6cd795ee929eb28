"""All attackers at once, and ordinary clients beside them: nobody else waits, and memory stays bounded."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.base.limits import MIB
from tests.attacks.attackers import ATTACKERS
from tests.attacks.probes import MemoryWatch, Probe, kafka_probe, queue_probe, rest_probe, sqs_probe
from tests.long import LONG

SECONDS = 600.0 if LONG else 10.0
P99_MS_MAX = 250.0
MEMORY_BYTES_MAX = 1024 * MIB

# What the machine itself makes a client wait: a server of one line under the same load.
ECHO = """
import asyncio
async def echo(reader, writer):
    while data := await reader.read(100):
        writer.write(data)
async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def echo_server() -> Iterator[socket.socket]:
    with subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = socket.create_connection(("127.0.0.1", int(server.stdout.readline())), timeout=30)
        try:
            yield line
        finally:
            line.close()
            server.kill()


def exchange(echo: socket.socket) -> Iterator[None]:
    echo.sendall(b"x")
    assert echo.recv(1) == b"x"
    yield


def prepare(node: NodeProcess) -> None:
    with httpx.Client(base_url=node.url, timeout=60) as client:
        for name, config in (
            ("bomb", {}),
            ("big", {}),
            ("empty", {}),
            ("compacted", {"cleanup.policy": "compact"}),
            ("checked", {"schema.validation": "latest"}),
        ):
            body = {"name": name, "num_partitions": 1, "config": config}
            client.post("/topics", json=body).raise_for_status()
        for _ in range(20):
            body = {"messages": [{"value": "x" * 100_000}] * 10}
            client.post("/topics/big/messages", json=body).raise_for_status()


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 200)
def test_other_clients_hardly_notice_all_attackers_at_once(tmp_path: Path) -> None:
    stop = threading.Event()
    with NodeProcess(tmp_path / "data") as node, echo_server() as echo, ExitStack() as stack:
        prepare(node)
        makers = {"rest": rest_probe, "queue": queue_probe, "kafka": kafka_probe, "sqs": sqs_probe}
        probes = [Probe(name, make(node, stack), stop) for name, make in makers.items()]
        bare = Probe("echo", lambda: exchange(echo), stop)
        memory = MemoryWatch(node.pid, stop)
        for thread in (*probes, bare, memory):
            thread.start()
        command = [sys.executable, "-m", "tests.attacks.attackers", node.url, node.kafka, node.sqs, str(SECONDS)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=SECONDS + 120)
        stop.set()
        for thread in (*probes, bare, memory):
            thread.join(30)
        assert httpx.get(f"{node.url}/readyz", timeout=20).status_code == 200
    struck = json.loads(done.stdout)
    assert all(struck.get(attack.__name__, 0) for attack in ATTACKERS), struck
    found = {probe.name: f"p99 {probe.p99_ms():.0f} ms of {len(probe.latencies_ms)}" for probe in (*probes, bare)}
    report = f"{found}, {memory.most_bytes / MIB:.0f} MiB, {struck}"
    print(report)
    for probe in probes:
        assert not probe.failures, (probe.name, probe.failures[:3], report)
        assert probe.p99_ms() < P99_MS_MAX + 4 * bare.p99_ms(), report
    assert memory.most_bytes < MEMORY_BYTES_MAX, report
