"""Load beyond a limit is refused, on a real node."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.memory import far_reader, idle_partitions
from bench.node_process import NodeProcess
from goqueue.base.limits import MIB


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB, where this user may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def publish(node: NodeProcess, size: int) -> httpx.Response:
    return httpx.post(f"{node.url}/topics/t/messages", json={"messages": [{"value": "x" * size}]})


def test_a_full_disk_refuses_writes_and_serves_reads(small_disk: Path) -> None:
    with NodeProcess(small_disk / "data") as node:
        httpx.post(f"{node.url}/topics", json={"name": "t", "num_partitions": 1}).raise_for_status()
        stored = 0
        while (answer := publish(node, 300_000)).status_code == 200:
            stored += 1
        assert answer.status_code == 507 and answer.json()["code"] == "disk-full"
        page = httpx.get(f"{node.url}/topics/t/messages", params={"limit": 1000}).json()
        assert len(page["messages"]) == stored > 10
        assert publish(node, 10).status_code in (200, 507), "the node is well"


def test_writes_are_refused_above_the_limit_of_the_disk(small_disk: Path) -> None:
    settings = {"GOQUEUE_LOG_DISK_USED_PERCENT_MAX": "50"}
    with NodeProcess(small_disk / "data", settings=settings) as node:
        httpx.post(f"{node.url}/topics", json={"name": "t", "num_partitions": 1}).raise_for_status()
        while (answer := publish(node, 20_000)).status_code == 200:  # the disk is looked at once a second
            pass
        assert answer.status_code == 507 and "50 %" in answer.json()["detail"]
        ready = httpx.get(f"{node.url}/readyz")
        assert ready.status_code == 503 and not ready.json()["checks"]["disk space"]["ok"]
        assert "goqueue_storage_writable 0.0" in httpx.get(f"{node.url}/metrics").text


def test_bodies_beyond_the_total_get_a_503(tmp_path: Path) -> None:
    settings = {
        "GOQUEUE_REST_BODY_BYTES_MAX": "1MiB",
        "GOQUEUE_REST_BODY_BYTES_TOTAL_MAX": "2MiB",
        "GOQUEUE_REST_BODY_STALL_MS": "1h",  # bodies that stand still keep their room for a twentieth of this
    }
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        httpx.post(f"{node.url}/topics", json={"name": "t"}).raise_for_status()
        assert publish(node, 2_000_000).json()["code"] == "body-too-large"
        # Two bodies that have come but for their end hold the room that a third would need.
        head = b"POST /topics/t/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
        held = []
        for _ in range(2):
            line = socket.create_connection(("127.0.0.1", int(node.url.rpartition(":")[2])))
            line.sendall(head + b" " * 999_999)
            held.append(line)
        while publish(node, 500_000).status_code != 503:
            pass
        assert publish(node, 500_000).json()["code"] == "overloaded"
        assert publish(node, 10).status_code == 200
        for line in held:
            line.close()
        while publish(node, 500_000).status_code != 200:
            pass


def test_a_thousand_partitions_idle_in_less_than_200_mb(tmp_path: Path) -> None:
    figure = idle_partitions(tmp_path / "data", 1000)
    assert figure.ok, figure


@pytest.mark.slow
def test_a_reader_far_behind_adds_no_more_than_its_buffers(tmp_path: Path) -> None:
    figure = far_reader(tmp_path, 512 * MIB)
    assert figure.ok, figure
