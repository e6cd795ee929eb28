"""A real node on a real file system of a few megabytes that fills up while it works."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess

TOPICS = 6
REFUSED = (503, 507)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own; only root can mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", place], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


class Ballast:
    """Takes all space there is, and gives some of it back."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fill(self, free_bytes: int) -> None:
        with contextlib.suppress(OSError), self._path.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4_096))
        with self._path.open("r+b") as file:
            file.truncate(max(0, self._path.stat().st_size - free_bytes))

    def drop(self) -> None:
        self._path.unlink()


class Life:
    """What was sent to a node, and what it promised."""

    def __init__(self) -> None:
        self.placed: dict[str, list[str]] = {f"t{n}": [] for n in range(TOPICS)}
        self.delayed: dict[str, set[str]] = {name: set() for name in self.placed}
        self.made: set[str] = set()
        self.refused = 0
        self.sent = 0

    def create(self, client: httpx.Client, name: str) -> None:
        answer = client.post("/topics", json={"name": name, "num_partitions": 1})
        assert answer.status_code in (201, 507), answer.text
        if answer.status_code == 201:
            self.made.add(name)
        else:
            self.refused += 1
            assert answer.json()["code"] == "disk-full"
            assert client.get(f"/topics/{name}").status_code == 404, "half made"

    def publish(self, client: httpx.Client, topic: str, delay_ms: int) -> None:
        for more in ({}, {"delay": delay_ms}):
            self.sent += 1
            value = f"{topic} {self.sent} {'.' * 200}"
            answer = client.post(f"/topics/{topic}/messages", json={"messages": [{"value": value, **more}]})
            (result,) = answer.json().get("results", [{"error": 1}])
            if "error" in result or answer.status_code >= 400:
                self.refused += 1
                assert answer.status_code in (200, 207, *REFUSED), answer.text
            elif more:
                self.delayed[topic].add(value)
            else:
                self.placed[topic].append(value)

    def work(self, client: httpx.Client, round_: int, delay_ms: int) -> None:
        for n in range(4):
            self.create(client, f"new-{round_}-{n}")
            for topic in self.placed:
                self.publish(client, topic, delay_ms)

    def check(self, client: httpx.Client) -> None:
        names = {one["name"] for one in client.get("/topics").json()["topics"]}
        assert self.made <= names
        for topic, placed in self.placed.items():
            seen = self.wait_for(client, topic, self.delayed[topic])
            assert len(set(seen)) == len(seen), "twice"
            assert [value for value in seen if value in set(placed)] == placed
            assert all(value.startswith(f"{topic} ") for value in seen), "delivered to another topic"

    def wait_for(self, client: httpx.Client, topic: str, wanted: set[str]) -> list[str]:
        deadline = time.monotonic() + 60
        seen: list[str] = []
        while not wanted <= set(seen):
            assert time.monotonic() < deadline, f"{len(wanted - set(seen))} delayed messages of {topic} are missing"
            path = f"/topics/{topic}/partitions/0/messages"
            answer = client.get(path, params={"offset": len(seen), "limit": 1000, "timeout": "1s"})
            assert answer.status_code == 200, answer.text
            seen += [one["value"] for one in answer.json()["messages"]]
        return seen


@pytest.mark.parametrize("ends_by", ["kill", "stop"])
def test_a_disk_that_fills_up_loses_nothing_and_sends_nothing_astray(small_disk: Path, ends_by: str) -> None:
    life, ballast = Life(), Ballast(small_disk / "ballast")
    node = NodeProcess(small_disk, settings={"GOQUEUE_LOG_FSYNC": "always"})
    with node, httpx.Client(base_url=node.url, timeout=30) as client:
        for topic in life.placed:
            life.create(client, topic)
        for round_, free_bytes in enumerate((0, 4_096, 24_576, 65_536)):
            ballast.fill(free_bytes)
            life.work(client, round_, 2_000)
            ballast.drop()
            life.work(client, 100 + round_, 2_000)
            ballast.fill(0)
            life.work(client, 200 + round_, 3_000)
            node.kill() if ends_by == "kill" else node.stop()
            ballast.drop()
            node.start()
            client.base_url = node.url
        assert life.refused > 20
        life.work(client, 999, 100)
        life.check(client)


def test_a_node_without_room_to_start_says_so(small_disk: Path) -> None:
    ballast = Ballast(small_disk / "ballast")
    ballast.fill(0)
    node = NodeProcess(small_disk)
    with pytest.raises(RuntimeError) as failed:
        node.start()
    assert "Traceback" not in str(failed.value)
    assert "disk-full" in str(failed.value) or "data-dir-unusable" in str(failed.value)
    node.kill()
    ballast.drop()
    with node:
        assert httpx.get(f"{node.url}/readyz").status_code == 200
