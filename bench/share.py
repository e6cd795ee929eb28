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

from bench.bare_kafka import PARTITIONS
from bench.bare_share import TOPIC
from bench.maven import java_program
from bench.node_process import NodeProcess
from bench.report import Figure
from bench.share_load import has_client
from tests.door.kafka.apache import SHARE_VERSION, ApacheKafka, find_jars

SECONDS = 5.0  # of filling
COUNT = 1_500_000
ROUNDS = 3
BAR = 400_000
PROGRAM = Path(__file__).parent / "ShareLoad.java"
SETTINGS = {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": "10000"}

Load = Callable[[str, str, int], float]  # address, group, count: messages a second


class Taken(msgspec.Struct, frozen=True):
    rate: float
    node_us: float  # processor time of the node for a message
    limit: float  # what the same client takes from a server that does nothing


def share_figures(root: Path) -> Iterator[Figure]:
    with NodeProcess(root / "share") as node:
        body = {"name": TOPIC, "num_partitions": PARTITIONS}
        httpx.post(f"{node.url}/topics", json=body).raise_for_status()
        stored = 0
        while stored < COUNT:
            _run([sys.executable, "-m", "bench.kafka_load", "produce", node.kafka, TOPIC, "100", str(SECONDS)])
            stored = httpx.get(f"{node.url}/topics/{TOPIC}").json()["messages"]
        loads = _loads(root)
        yield from (Figure(name, "left out", "there are no jars") for name in ("the Java client",) if name not in loads)
        best = 0.0
        for name, load in loads.items():
            found = [_taken(node, f"{name}-{number}", load) for number in range(ROUNDS)]
            rate = statistics.median(one.rate for one in found)
            best = max(best, rate if name != "wire" else 0.0)
            yield _figure(name, found, rate)
        yield Figure("best of the stock clients", f"{best:,.0f} msg/s", "", f"at least {BAR:,}", best >= BAR)
    yield from _kafka_figures(root / "apache", {name: load for name, load in loads.items() if name != "wire"})


def _kafka_figures(root: Path, loads: dict[str, Load]) -> Iterator[Figure]:
    """Apache Kafka's own share groups, which sync when the system likes."""
    root.mkdir()
    jars = find_jars(root.resolve(), SHARE_VERSION)
    if jars is None:
        yield Figure("Apache Kafka's share groups", "left out", "there are no jars")
        return
    with ApacheKafka(jars, root.resolve()) as kafka:
        _make_topic(kafka.address)
        _run([sys.executable, "-m", "bench.kafka_load", "produce", kafka.address, TOPIC, "100", str(SECONDS)])
        for name, load in loads.items():
            rates = []
            for number in range(ROUNDS):
                configure(kafka.address, f"{name}-{number}", {"share.auto.offset.reset": "earliest"})
                rates.append(load(kafka.address, f"{name}-{number}", COUNT // 2))
            yield Figure(f"  Apache Kafka {SHARE_VERSION}, {name}", f"{statistics.median(rates):,.0f} msg/s")


def _make_topic(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for done in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
        done.result(60)


def _figure(name: str, found: list[Taken], rate: float) -> Figure:
    node_us = statistics.median(one.node_us for one in found)
    limit = statistics.median(one.limit for one in found)
    title = "  a socket that only asks and acknowledges" if name == "wire" else f"share consumption, {name}"
    return Figure(title, f"{rate:,.0f} msg/s", f"node {node_us:.2f} us each; own limit {limit:,.0f}")


def _taken(node: NodeProcess, group: str, load: Load) -> Taken:
    configure(node.kafka, group, SETTINGS)
    cpu = node.cpu_seconds()
    rate = load(node.kafka, group, COUNT)
    spent = node.cpu_seconds() - cpu
    with _bare() as address:
        return Taken(rate, spent / COUNT * 1e6, load(address, group, COUNT))


def configure(address: str, group: str, settings: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    admin = AdminClient({"bootstrap.servers": address})
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def _loads(root: Path) -> dict[str, Load]:
    loads: dict[str, Load] = {}
    if has_client():
        loads["the C client"] = _python("client")
    class_path = java_program(root / "java", PROGRAM)
    if class_path is not None:
        loads["the Java client"] = _java(class_path)
    loads["wire"] = _python("wire")
    return loads


def _python(kind: str) -> Load:
    def load(address: str, group: str, count: int) -> float:
        return _run([sys.executable, "-m", "bench.share_load", kind, address, group, TOPIC, str(count)])

    return load


def _java(class_path: str) -> Load:
    def load(address: str, group: str, count: int) -> float:
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", class_path, "ShareLoad"]
        return _run([*command, address, group, TOPIC, str(count)])

    return load


def _run(command: list[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(json.loads(done.stdout)["rate"])


@contextmanager
def _bare() -> Iterator[str]:
    with subprocess.Popen([sys.executable, "-m", "bench.bare_share"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()
