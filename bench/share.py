"""Share groups under the stock clients: batches taken, and every message acknowledged by itself."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from bench.bare_kafka import PARTITIONS, TOPIC
from bench.maven import java_program
from bench.node_process import NodeProcess
from bench.report import Figure
from bench.share_load import has_client
from tests.door.kafka.apache import SHARE_VERSION, ApacheKafka, find_jars

SECONDS = 5.0  # of filling
COUNT = 1_500_000
SPARE = 100_000  # who is done has taken a little more than it wanted
WIRE = "wire"
ROUNDS = 3
BAR = 400_000
PROGRAM = Path(__file__).parent / "ShareLoad.java"
SETTINGS = {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": "10000"}

CONSUMERS = (1, 2)
Command = Callable[[str, str, int], list[str]]  # address, group and count: how to start one consumer


class Taken(msgspec.Struct, frozen=True):
    rate: float
    node_us: float  # processor time of the node for a message
    limit: float  # what the same client takes from a server that does nothing


def share_figures(root: Path) -> Iterator[Figure]:
    with NodeProcess(root / "share") as node:
        body = {"name": TOPIC, "num_partitions": PARTITIONS}
        httpx.post(f"{node.url}/topics", json=body).raise_for_status()
        stored = 0
        while stored < COUNT + SPARE:
            _fill(node.kafka)
            stored = httpx.get(f"{node.url}/topics/{TOPIC}").json()["messages"]
        loads = _loads(root)
        yield from (Figure(name, "left out", "there are no jars") for name in ("the Java client",) if name not in loads)
        best = 0.0
        for name, consumers in [
            (name, number) for name in loads for number in CONSUMERS if name != WIRE or number == 1
        ]:
            found = [_taken(node, f"{name}-{consumers}-{round_}", loads[name], consumers) for round_ in range(ROUNDS)]
            rate = statistics.median(one.rate for one in found)
            best = max(best, 0.0 if name == WIRE else rate)
            yield _figure(name, consumers, found, rate)
        yield Figure("  the best of the stock clients", f"{best:,.0f} msg/s", "", f"at least {BAR:,}", best >= BAR)
    yield from _kafka_figures(root / "apache", {name: load for name, load in loads.items() if name != WIRE})


def _kafka_figures(root: Path, loads: dict[str, Command]) -> Iterator[Figure]:
    """Apache Kafka's own share groups, which sync when the system likes."""
    root.mkdir()
    jars = find_jars(root.resolve(), SHARE_VERSION)
    if jars is None:
        yield Figure("Apache Kafka's share groups", "left out", "there are no jars")
        return
    with ApacheKafka(jars, root.resolve()) as kafka:
        _make_topic(kafka.address)
        _fill(kafka.address)
        for name, consumers in [(name, number) for name in loads for number in CONSUMERS]:
            rates = []
            for round_ in range(ROUNDS):
                group = f"{name}-{consumers}-{round_}"
                configure(kafka.address, group, {"share.auto.offset.reset": "earliest"})
                rates.append(_rate(loads[name], kafka.address, group, COUNT // 2, consumers))
            title = f"  Apache Kafka {SHARE_VERSION}, {name}, {_plural(consumers)}"
            yield Figure(title, f"{statistics.median(rates):,.0f} msg/s")


def _make_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        done.result(60)


def _figure(name: str, consumers: int, found: list[Taken], rate: float) -> Figure:
    node_us = statistics.median(one.node_us for one in found)
    limit = statistics.median(one.limit for one in found)
    title = f"share consumption, {name}, {_plural(consumers)}"
    if name == WIRE:
        title = "  a socket that only asks and acknowledges"
    return Figure(title, f"{rate:,.0f} msg/s", f"node {node_us:.2f} us each; own limit {limit:,.0f}")


def _plural(consumers: int) -> str:
    return f"{consumers} consumer{'s' if consumers > 1 else ''}"


def _taken(node: NodeProcess, group: str, load: Command, consumers: int) -> Taken:
    configure(node.kafka, group, SETTINGS)
    cpu = node.cpu_seconds()
    rate = _rate(load, node.kafka, group, COUNT, consumers)
    spent = node.cpu_seconds() - cpu
    with _bare() as address:
        return Taken(rate, spent / COUNT * 1e6, _rate(load, address, group, COUNT, consumers))


def configure(address: str, group: str, settings: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    admin = AdminClient({"bootstrap.servers": address})
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def _loads(root: Path) -> dict[str, Command]:
    loads: dict[str, Command] = {}
    if has_client():
        loads["the C client"] = _python("client")
    class_path = java_program(root / "java", PROGRAM)
    if class_path is not None:
        java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path, "ShareLoad"]
        loads["the Java client"] = lambda address, group, count: [*java, address, group, TOPIC, str(count)]
    loads[WIRE] = _python("wire")
    return loads


def _python(kind: str) -> Command:
    command = [sys.executable, "-m", "bench.share_load", kind]
    return lambda address, group, count: [*command, address, group, TOPIC, str(count)]


def _rate(load: Command, address: str, group: str, count: int, consumers: int) -> float:
    """Messages a second of all of them together, from the first moment to the last."""
    command = load(address, group, count // consumers)
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(consumers)
    ]
    found = [_told(one) for one in started]
    spent = max(one["ended"] for one in found) - min(one["began"] for one in found)
    return sum(one["count"] for one in found) / spent


def _told(process: subprocess.Popen[str]) -> dict[str, float]:
    with process:
        out, error = process.communicate(timeout=180)
    if process.returncode:
        raise RuntimeError(error)
    found: dict[str, float] = json.loads(out)
    return found


def _fill(address: str) -> None:
    command = [sys.executable, "-m", "bench.kafka_load", "produce", address, TOPIC, "100", str(SECONDS)]
    subprocess.run(command, check=True, capture_output=True, timeout=180)


@contextmanager
def _bare() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-m", "bench.bare_share"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()
