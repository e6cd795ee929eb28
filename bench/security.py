"""What security costs, and whether a tenant that floods harms another: `python -m bench.security [--rounds N]`.

1. Kafka produce to a node with SCRAM, rules and quotas, beside one without: messages a second, and CPU of the node for
   each message. 2. The same over TLS, beside a bare echo over TLS. 3. How long one tenant's requests take alone, and
   while another sends as much as its quota lets it.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Producer

from bench.node_process import NodeProcess
from bench.report import Figure, percentile, show
from bench.storage import scratch
from goqueue.cli.cert import Authority

ADMIN = ("admin", "admin password")
PASSWORD = "a password"
PRODUCER = {"linger.ms": 5, "batch.num.messages": 10_000, "batch.size": 1_000_000, "acks": "all", "log_level": 0}
SIZE = 100
FLOOD_BYTES_S = 1_000_000
ECHO_BYTES = 65_536


def secured(folder: Path) -> dict[str, str]:
    (folder / "users").write_text(":".join(ADMIN) + "\n")
    return {
        "GOQUEUE_SECURITY_AUTHENTICATION": "required",
        "GOQUEUE_SECURITY_AUTHORIZATION": "acl",
        "GOQUEUE_SECURITY_BOOTSTRAP_FILE": str(folder / "users"),
        "GOQUEUE_SECURITY_SUPER_USERS": "admin",
    }


def sasl(name: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": name,
        "sasl.password": password,
    }


def produce(node: NodeProcess, more: dict[str, Any], seconds: float) -> tuple[float, float]:
    """Messages a second, and the node's CPU seconds for a million of them."""
    producer = Producer({"bootstrap.servers": node.kafka, **PRODUCER, **more})
    chunk = [{"value": b"x" * SIZE} for _ in range(1_000)]
    producer.produce("load", b"first")
    if producer.flush(30):
        raise SystemExit("cannot produce")
    began, cpu, sent = time.perf_counter(), node.cpu_seconds(), 0
    while time.perf_counter() - began < seconds:
        for message in chunk:
            message.pop("_error", None)
        sent += producer.produce_batch("load", chunk)
        producer.poll(0.01 if len(producer) > 50_000 else 0)
    sent -= producer.flush(60)
    return sent / (time.perf_counter() - began), (node.cpu_seconds() - cpu) / sent * 1e6


def paired(
    plain: NodeProcess,
    other: NodeProcess,
    more: dict[str, Any],
    rounds: int,
    seconds: float,
    least: float | None = None,
) -> Iterator[Figure]:
    rates, cpus = [], []
    for _ in range(rounds):
        without, with_it = produce(plain, {}, seconds), produce(other, more, seconds)
        rates.append(with_it[0] / without[0])
        cpus.append(without[1] / with_it[1])
    rate, cpu = statistics.median(rates), statistics.median(cpus)
    yield Figure("messages a second, of those without", f"{rate:.3f}", bar=_bar(least), ok=_fits(rate, least))
    yield Figure("messages for CPU time of the node, of those without", f"{cpu:.3f}")


def _bar(least: float | None) -> str:
    return "" if least is None else f"at least {least}"


def _fits(rate: float, least: float | None) -> bool | None:
    return None if least is None else rate >= least


# --- a bare echo ---------------------------------------------------------------------------------------------------


async def echo(server: ssl.SSLContext | None, client: ssl.SSLContext | None, seconds: float) -> float:
    """Bytes a second there and back."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(ECHO_BYTES):
            writer.write(data)
            await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
    port = listening.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
    data, count, began = b"x" * ECHO_BYTES, 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        writer.write(data)
        await reader.readexactly(ECHO_BYTES)
        count += ECHO_BYTES
    took = time.perf_counter() - began
    writer.close()
    await writer.wait_closed()
    listening.close()
    await listening.wait_closed()
    return count / took


def echo_ratio(certs: Path, seconds: float) -> float:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certs / "node.crt", certs / "node.key")
    client = ssl.create_default_context(cafile=certs / "ca.crt")
    return asyncio.run(echo(server, client, seconds)) / asyncio.run(echo(None, None, seconds))


# --- two tenants -----------------------------------------------------------------------------------------------------


def p99_ms(node: NodeProcess, seconds: float) -> float:
    took = []
    with httpx.Client(base_url=node.url, auth=("bert", PASSWORD), timeout=30) as client:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            since = time.perf_counter()
            client.post("/topics/load/messages", json={"messages": [{"value": "v"}]}).raise_for_status()
            took.append((time.perf_counter() - since) * 1000)
    return percentile(sorted(took), 0.99)


def flood(node: NodeProcess, over: threading.Event) -> None:
    producer = Producer(
        {"bootstrap.servers": node.kafka, **PRODUCER, **sasl("anna"), "queue.buffering.max.kbytes": 8_192}
    )
    while not over.is_set():
        try:
            producer.produce("load", b"x" * 1_000)
        except BufferError:
            producer.poll(0.05)
    producer.purge()
    producer.flush(1)


def two_tenants(node: NodeProcess, rounds: int, seconds: float) -> Iterator[Figure]:
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(p99_ms(node, seconds))
        over = threading.Event()
        flooding = threading.Thread(target=flood, args=(node, over))
        flooding.start()
        beside.append(p99_ms(node, seconds))
        over.set()
        flooding.join()
    ratio = statistics.median(beside) / statistics.median(alone)
    yield Figure("p99 alone, ms", f"{statistics.median(alone):.2f}")
    against = f"{ratio:.2f} times alone"
    yield Figure(
        "p99 beside a flood at its quota, ms", f"{statistics.median(beside):.2f}", against, "2 times", ratio <= 2
    )


def prepare(node: NodeProcess) -> None:
    """Users, rules and quotas; two tenants, of which one may send so much a second."""
    with httpx.Client(base_url=node.url, auth=ADMIN, timeout=30) as admin:
        for tenant in ("a", "b"):
            admin.post("/admin/tenants", json={"name": tenant}).raise_for_status()
        for name, tenant in (("ada", ""), ("anna", "a"), ("bert", "b")):
            asked = {"name": name, "password": PASSWORD, "tenant": tenant}
            admin.post("/admin/users", json=asked).raise_for_status()
        names = {"ada": "load", "anna": "a~load", "bert": "b~load"}
        rules = [
            {"principal": f"User:{user}", "permission": "allow", "operation": "all", "kind": "topic", "name": name}
            for user, name in names.items()
        ]
        rules.append({**rules[0], "kind": "cluster", "name": "kafka-cluster"})
        admin.post("/admin/acls", json={"rules": rules}).raise_for_status()
        for name in names.values():
            admin.post("/topics", json={"name": name, "num_partitions": 1}).raise_for_status()
        high = {"producer_byte_rate": 1e12, "request_rate": 1e9, "consumer_byte_rate": 1e12}
        admin.post("/admin/quotas", json={"user": "ada", "limits": high}).raise_for_status()
        limit = {"producer_byte_rate": FLOOD_BYTES_S}
        admin.post("/admin/quotas", json={"tenant": "a", "limits": limit}).raise_for_status()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1)
    given = parser.parse_args()
    rounds, seconds = given.rounds, given.seconds
    with scratch() as directory, ExitStack() as stack:
        plain = stack.enter_context(NodeProcess(directory / "plain"))
        httpx.post(f"{plain.url}/topics", json={"name": "load", "num_partitions": 1}).raise_for_status()
        secure = stack.enter_context(NodeProcess(directory / "secure", settings=secured(directory)))
        prepare(secure)
        show("SCRAM, rules and quotas", list(paired(plain, secure, sasl("ada"), rounds, seconds, 0.97)))
        show("two tenants", list(two_tenants(secure, rounds, seconds)))
        certs = directory / "certs"
        certs.mkdir()
        Authority(certs, 2).issue("node", "goqueue", ["localhost", "127.0.0.1"])
        settings = {
            "GOQUEUE_SECURITY_TLS_CERT_FILE": str(certs / "node.crt"),
            "GOQUEUE_SECURITY_TLS_KEY_FILE": str(certs / "node.key"),
        }
        tls = stack.enter_context(NodeProcess(directory / "tls", settings=settings))
        over_tls = {"security.protocol": "SSL", "ssl.ca.location": str(certs / "ca.crt")}
        bare = Figure("bytes a second of a bare echo, of those without TLS", f"{echo_ratio(certs, seconds):.3f}")
        show("TLS", [*paired(plain, tls, over_tls, rounds, seconds), bare])


if __name__ == "__main__":
    main()
