"""A node of several processes, for tests through its doors."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from confluent_kafka import Consumer, Producer

from bench.node_process import NodeProcess
from tests.waiting import has_come, wait_until


class Machine(NodeProcess):
    """`--processes N`; its processes by their numbers."""

    def __init__(self, data_dir: Path, processes: int, *flags: str, under: Sequence[str] = ()) -> None:
        super().__init__(data_dir, "--processes", str(processes), *flags, under=under)

    def children(self) -> list[int]:
        found = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return sorted(map(int, found), key=_data_dir_of)

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(f"{self.url}/cluster/state", timeout=30).raise_for_status().json()
        return found

    def wait_whole(self, nodes: int) -> None:
        """All are there, every shard is led, and none moves."""
        wait_until(lambda: self._is_whole(nodes), lambda: self.stderr[-3000:])

    def _is_whole(self, nodes: int) -> bool:
        try:
            state = self.state()
            moves = httpx.get(f"{self.url}/admin/reassignment", timeout=30).raise_for_status().json()
        except httpx.HTTPError:
            return False
        is_spread = all(one["leads"] for one in state["nodes"])
        return state["status"] == "ok" and len(state["nodes"]) == nodes and is_spread and not moves["moves"]

    def kill_process(self, number: int) -> None:
        """`kill -9`; returns when another one has its place."""
        old = self.children()[number]
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: old not in (now := self.children()) and len(now) > number, lambda: self.stderr[-3000:])


def _data_dir_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def all_gone(pids: Sequence[int]) -> bool:
    return has_come(lambda: all(map(is_gone, pids)))


class Writer:
    """A stock Kafka producer that knows what was acknowledged."""

    def __init__(self, servers: str) -> None:
        self.acked: list[str] = []
        self.failed: list[str] = []
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})

    def send(self, topic: str, values: Sequence[str]) -> None:
        for value in values:
            self._producer.produce(topic, value, key=value, on_delivery=self._told)
            self._producer.poll(0)

    def _told(self, error: object, message: Any) -> None:
        (self.acked if error is None else self.failed).append(message.value().decode())

    def flush(self) -> None:
        assert self._producer.flush(90) == 0
        assert self.failed == []


def read_all(servers: str, topic: str, count: int, distinct: bool = False) -> list[str]:
    """As a consumer group reads it, until so many (`distinct`: different ones) came or nothing comes any more."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": os.urandom(6).hex(), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[str] = []
    try:
        while len(set(found) if distinct else found) < count:
            message = consumer.poll(60)
            assert message is not None, f"{len(found)} of {count} came"
            assert message.error() is None, message.error()
            found.append((message.value() or b"").decode())
    finally:
        consumer.close()
    return found
