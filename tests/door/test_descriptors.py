"""Too many open files are load, not damage: connections are refused first, logs go on, and all is well again when
clients leave."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.kafka.raw import Line, batch, fetch_from, host_and_port, new_topic, produce_to
from tests.waiting import wait_until

ALLOWED = 160
WAIT_S = 60


class SmallNode(NodeProcess):
    """A node that may open few files."""

    def __init__(self, data_dir: Path, allowed: int, settings: dict[str, str] | None = None) -> None:
        super().__init__(data_dir, settings=settings)
        self.command = self._command = ["/bin/sh", "-c", f'ulimit -n {allowed} && exec "$@"', "sh", *self._command]

    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallNode]:
    with SmallNode(tmp_path / "data", ALLOWED) as running:
        yield running


def produced(line: Line, topic: str, partition: int) -> int:
    answer = line.ask(produce_to(topic, partition, batch(b"v")), 9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def accepts(line: Line, topic: str, partition: int) -> bool:
    return produced(line, topic, partition) == 0


def test_connections_are_refused_before_the_logs_run_out_and_all_recovers(small: SmallNode) -> None:
    with Line(small.kafka) as line:
        line.ask(new_topic("t", 8))
        crowd = [socket.create_connection(host_and_port(address)) for address in (small.kafka,) * ALLOWED * 2]
        try:
            before = small.cpu_seconds()
            # Partitions that were never written to need new files now.
            assert [produced(line, "t", number) for number in range(8)] == [0] * 8
            assert line.ask(fetch_from("t", 0, 0), 12).responses[0].partitions[0].error_code == 0
            assert small.open_files() < ALLOWED
            began = time.monotonic()
            while time.monotonic() - began < 1:
                assert produced(line, "t", 0) == 0
            assert small.cpu_seconds() - before < 20, "accepting spins"
        finally:
            for one in crowd:
                one.close()
        wait_until(lambda: httpx.get(f"{small.url}/readyz").status_code == 200, "the node is not ready again")
        view = httpx.get(f"{small.url}/topics/t").json()
        assert all(part["writable"] for part in view["partitions"])
        assert [produced(line, "t", number) for number in range(8)] == [0] * 8


def test_more_partitions_than_files_are_written_to_and_read(tmp_path: Path) -> None:
    """Handles are let go and opened again; nothing that was acknowledged is lost by that, nor by a crash."""
    settings = {"GOQUEUE_LOG_FSYNC_INTERVAL_MS": "20"}
    count = ALLOWED * 2
    with SmallNode(tmp_path / "data", ALLOWED, settings) as node:
        with Line(node.kafka) as line:
            assert line.ask(new_topic("wide", count)).topics[0].error_code == 0
            stored = [0] * count
            for _ in range(3):
                for number in range(count):
                    wait_until(partial(accepts, line, "wide", number), f"partition {number}")
                    stored[number] += 1
            assert node.open_files() < ALLOWED
            ends = _ends(line, count)
            assert ends == stored
        node.kill()
        node.start()
        with Line(node.kafka) as line:
            assert _ends(line, count) == stored
            wait_until(lambda: produced(line, "wide", count - 1) == 0, "writable after a crash")


def _ends(line: Line, count: int) -> list[int]:
    found = []
    for number in range(count):
        (part,) = line.ask(fetch_from("wide", number, 0), 12).responses[0].partitions
        assert part.error_code == 0
        found.append(part.high_watermark)
    return found


def test_a_node_that_may_open_almost_nothing_says_so_and_does_not_start(tmp_path: Path) -> None:
    node = SmallNode(tmp_path / "data", 64)
    ended = subprocess.run(node.command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert ended.returncode != 0 and "ulimit -n" in ended.stdout + ended.stderr
