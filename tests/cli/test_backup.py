"""`goqueue backup` and `goqueue restore` with real nodes: what comes back is the node at one moment."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.cli.running import goqueue
from tests.waiting import wait_until

SETTINGS = {"GOQUEUE_TOPICS_SEGMENT_BYTES": "64KiB"}


def back_up(target: Path, server: str, *flags: str) -> dict[str, Any]:
    done = goqueue("backup", str(target), "-o", "json", *flags, server=server)
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def restored(source: Path | str, data: Path, *flags: str) -> Iterator[NodeProcess]:
    done = goqueue("restore", str(source), "--data", str(data), *flags)
    assert done.exit_code == 0, done.stderr
    with NodeProcess(data, settings=SETTINGS) as node:
        yield node


def publish(client: httpx.Client, topic: str, values: list[str]) -> None:
    body = {"messages": [{"value": value, "key": value} for value in values]}
    answer = client.post(f"/topics/{topic}/messages", json=body)
    assert all("offset" in one for one in answer.raise_for_status().json()["results"])


def values_of(client: httpx.Client, topic: str) -> list[str]:
    found: list[str] = []
    for view in client.get(f"/topics/{topic}/partitions").raise_for_status().json()["partitions"]:
        assert view["damaged"] == []
        offset = view["start_offset"]
        while offset < view["high_watermark"]:
            path = f"/topics/{topic}/partitions/{view['partition']}/messages"
            page = client.get(path, params={"offset": offset, "limit": 5000}).raise_for_status().json()
            found += [message["key"] for message in page["messages"]]
            offset = page["next_offset"]
    return found


class Worker:
    """A member of a group that answers message by message."""

    def __init__(self, client: httpx.Client, group: str, name: str) -> None:
        self._client = client
        self._poll = f"/groups/{group}/poll"
        body = {"client_id": name, "member_id": name, "topics": ["jobs"], "mode": "shared"}
        joined = client.post(f"/groups/{group}/join", json=body).raise_for_status().json()
        self._member = {"member_id": name, "generation": joined["generation"]}

    def take(self, count: int, lease: str = "10m", wait: str = "0s") -> list[dict[str, Any]]:
        query = {**self._member, "limit": count, "visibility_timeout": lease, "timeout": wait}
        found: list[dict[str, Any]] = self._client.get(self._poll, params=query).raise_for_status().json()["messages"]
        return found

    def ack(self, messages: list[dict[str, Any]]) -> None:
        body = {"receipts": [message["receipt"] for message in messages]}
        self._client.post("/messages/ack", json=body).raise_for_status()


def files_below(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*") if one.is_file())


def test_a_node_comes_back_as_it_was_at_that_moment(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", settings=SETTINGS) as node, httpx.Client(base_url=node.url) as client:
        for topic in ("jobs", "later"):
            client.post("/topics", json={"name": topic, "num_partitions": 2}).raise_for_status()
        for part in range(20):
            publish(client, "jobs", [f"{part}-{number}" + "." * 400 for number in range(50)])
        wait_until(lambda: len(list(tmp_path.glob("data/logs/jobs/*/*.seal"))) >= 6, "full segments are sealed")
        worker = Worker(client, "workers", "w")
        acked, leased = worker.take(3), worker.take(2)
        worker.ack(acked)
        delayed = {"messages": [{"value": "wake up", "delay": "1h"}]}
        client.post("/topics/later/messages", json=delayed).raise_for_status()
        schema = {"schema": '"string"'}
        client.post("/subjects/later-value/versions", json=schema).raise_for_status()
        client.post("/admin/users", json={"name": "ada", "password": "a password"}).raise_for_status()
        first = back_up(tmp_path / "copies", node.url)
        before = values_of(client, "jobs")
        publish(client, "jobs", ["after the backup"])
        client.delete("/topics/later").raise_for_status()
        second = back_up(tmp_path / "copies", node.url)
        assert not (tmp_path / "data/snapshots").exists() or not files_below(tmp_path / "data/snapshots")
    assert second["copied_bytes"] < first["copied_bytes"] / 2 and first["copied_bytes"] == first["size_bytes"]
    with (
        restored(tmp_path / "copies", tmp_path / "one", "--backup", first["name"]) as node,
        httpx.Client(base_url=node.url) as client,
    ):
        assert values_of(client, "jobs") == before
        assert [one["value"] for one in client.get("/topics/later/delayed").json()["delayed"]] == ["wake up"]
        assert client.get("/subjects/later-value/versions/1").json()["schema"] == '"string"'
        assert client.get("/admin/users/ada").status_code == 200
        client.post("/messages/ack", json={"receipts": [leased[0]["receipt"]]}).raise_for_status()
        gone = {(one["partition"], one["offset"]) for one in (*acked, *leased)}
        rest = Worker(client, "workers", "v").take(2000)  # w may hold its lease still
        assert len(rest) > 100 and not gone & {(one["partition"], one["offset"]) for one in rest}
    with restored(tmp_path / "copies", tmp_path / "two") as node, httpx.Client(base_url=node.url) as client:
        assert sorted(values_of(client, "jobs")) == sorted([*before, "after the backup"])
        assert client.get("/topics/later").status_code == 404


class Load:
    """Publishes, takes and acknowledges until it is told to stop; makes and deletes topics beside it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopping = threading.Event()
        self.published: list[str] = []
        self.acked: list[str] = []
        self._threads = [threading.Thread(target=one) for one in (self._publish, self._work, self._churn)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(120)

    def _publish(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            for number in range(1_000_000):
                if self._stopping.is_set():
                    return
                values = [f"{number}-{one}" + "." * 200 for one in range(20)]
                publish(client, "jobs", values)
                self.published += values

    def _work(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            worker = Worker(client, "workers", "w")
            while not self._stopping.is_set():
                messages = worker.take(50, "60s", "200ms")
                if messages:
                    worker.ack(messages)
                    self.acked += [message["key"] for message in messages]

    def _churn(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60) as client:
            for number in range(1_000_000):
                if self._stopping.is_set():
                    return
                client.post("/topics", json={"name": f"brief-{number}"}).raise_for_status()
                publish(client, f"brief-{number}", ["x"])
                client.delete(f"/topics/brief-{number}").raise_for_status()


def test_backups_under_load_are_whole_and_no_book_is_ahead_of_its_log(tmp_path: Path) -> None:
    """What was acknowledged before is there; who worked goes on where it was: every message is there or was done."""
    known: list[tuple[str, set[str], set[str]]] = []
    with NodeProcess(tmp_path / "data", settings=SETTINGS) as node, httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "jobs", "num_partitions": 3}).raise_for_status()
        load = Load(node.url)
        try:
            for round_ in range(3):
                wait_until(lambda wanted=400 * (round_ + 1): len(load.acked) >= wanted)  # type: ignore[misc]
                published, acked = set(load.published), set(load.acked)
                name = back_up(tmp_path / "copies", node.url)["name"]
                known.append((name, published, acked))
        finally:
            load.stop()
    everything = set(load.published)
    assert goqueue("backup", str(tmp_path / "copies"), "--verify").exit_code == 0
    for number, (name, published, acked) in enumerate(known):
        with (
            restored(tmp_path / "copies", tmp_path / f"data-{number}", "--backup", name) as node,
            httpx.Client(base_url=node.url) as client,
        ):
            values = values_of(client, "jobs")
            assert len(values) == len(set(values)) and published <= set(values)
            worker, delivered = Worker(client, "workers", "w"), set[str]()
            missing = set(values) - set(load.acked)
            assert set(values) <= everything

            def drained() -> bool:
                messages = worker.take(500, "10m", "100ms")  # noqa: B023 - used within the round
                delivered.update(message["key"] for message in messages)  # noqa: B023
                if messages:
                    worker.ack(messages)  # noqa: B023
                return delivered >= missing  # noqa: B023

            wait_until(drained, lambda: f"neither there nor done: {sorted(missing - delivered)[:5]}")  # noqa: B023
            assert not delivered & acked, "what was done before the backup is not done again"


def test_a_backup_that_a_kill_of_the_node_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = NodeProcess(tmp_path / "data", settings=SETTINGS).start()
    try:
        with httpx.Client(base_url=node.url) as client:
            client.post("/topics", json={"name": "jobs", "num_partitions": 1}).raise_for_status()
            for part in range(12):
                publish(client, "jobs", [f"{part}-{number}" + "x" * 9000 for number in range(100)])
            before = values_of(client, "jobs")
        monkeypatch.setattr("goqueue.cli.backup_copy._CHUNK", 1 << 20)
        reads = 0
        from goqueue.cli.backup_source import NodeSource

        read = NodeSource.read

        def read_some(self: NodeSource, parts: Any) -> bytes:
            nonlocal reads
            reads += 1
            if reads == 6:
                os.kill(node.pid, signal.SIGKILL)
            return read(self, parts)

        monkeypatch.setattr(NodeSource, "read", read_some)
        failed = goqueue("backup", str(tmp_path / "copies"), server=node.url)
        assert failed.exit_code == 3 and "error" in failed.stderr
        assert goqueue("backup", str(tmp_path / "copies"), "--list", "-o", "json").stdout.strip() == "[]"
        node.kill()
        node.start()
        assert not (tmp_path / "data/snapshots").exists(), "what a killed node held for a backup is let go"
        done = back_up(tmp_path / "copies", node.url)
        assert done["copied_bytes"] < done["size_bytes"] - (2 << 20), "what was copied is not copied again"
    finally:
        node.stop()
    with restored(tmp_path / "copies", tmp_path / "new") as node, httpx.Client(base_url=node.url) as client:
        assert values_of(client, "jobs") == before


def test_a_stopped_node_is_backed_up_from_its_directory(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", "--fsync", "always") as node, httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "jobs"}).raise_for_status()
        publish(client, "jobs", ["a", "b"])
        busy = goqueue("backup", str(tmp_path / "copies"), "--data", str(tmp_path / "data"))
        assert busy.exit_code == 1 and "data-dir-in-use" in busy.stderr
        node.kill()
    first = back_up(tmp_path / "copies", "", "--data", str(tmp_path / "data"))
    again = back_up(tmp_path / "copies", "", "--data", str(tmp_path / "data"), "--keep", "1")
    assert again["size_bytes"] == first["size_bytes"]
    names = json.loads(goqueue("backup", str(tmp_path / "copies"), "--list", "-o", "json").stdout)
    assert [one["name"] for one in names] == [again["name"]]
    with restored(tmp_path / "copies", tmp_path / "new") as node, httpx.Client(base_url=node.url) as client:
        assert sorted(values_of(client, "jobs")) == ["a", "b"]
    no_node = goqueue("backup", str(tmp_path / "copies"), "--data", str(tmp_path))
    assert no_node.exit_code == 2 and "not a node's data directory" in no_node.stderr


def test_a_damaged_backup_is_found_and_named_and_no_node_starts_from_half_of_it(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    with NodeProcess(tmp_path / "data") as node, httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "jobs", "num_partitions": 1}).raise_for_status()
        publish(client, "jobs", [str(number) + "y" * 10_000 for number in range(450)])
        name = back_up(copies, node.url)["name"]
    largest = max(files_below(copies / "objects"), key=lambda path: path.stat().st_size)
    sound = largest.read_bytes()
    largest.write_bytes(sound[:1000] + bytes([sound[1000] ^ 1]) + sound[1001:])
    found = goqueue("backup", str(copies), "--verify")
    assert found.exit_code == 1 and f"The backup {name} is damaged" in found.stderr
    assert "logs/jobs/0/00000000000000000000.log" in found.stderr
    refused = goqueue("restore", str(copies), "--data", str(tmp_path / "new"))
    assert refused.exit_code == 1 and "is damaged" in refused.stderr
    half = NodeProcess(tmp_path / "new")
    with pytest.raises(RuntimeError, match="goqueue restore"):
        half.start()
    half.stop()
    back_up(copies, "", "--data", str(tmp_path / "data"))
    newer = goqueue("restore", str(copies), "--data", str(tmp_path / "new"))
    assert newer.exit_code == 2 and f"--backup {name}" in newer.stderr
    largest.write_bytes(sound)
    with restored(copies, tmp_path / "new", "--backup", name) as node, httpx.Client(base_url=node.url) as client:
        assert len(values_of(client, "jobs")) == 450
    full = goqueue("restore", str(copies), "--data", str(tmp_path / "new"))
    assert full.exit_code == 2 and "is not empty" in full.stderr
    manifest = copies / f"backups/{name}.json"
    manifest.write_bytes(manifest.read_bytes().replace(b"jobs", b"jibs"))
    torn = goqueue("restore", str(copies), "--data", str(tmp_path / "newer"), "--backup", name)
    assert torn.exit_code == 1 and str(manifest) in torn.stderr and not (tmp_path / "newer").exists()


def test_the_routes_refuse_what_is_not_there(server_url: str) -> None:
    with httpx.Client(base_url=server_url) as client:
        begun = client.post("/admin/backups").raise_for_status().json()
        path = f"/admin/backups/{begun['id']}"
        try:
            assert begun in client.get("/admin/backups").json()["backups"]
            files = client.get(f"{path}/files").json()
            assert files["next"] is None and len(files["files"]) == begun["files"]
            assert client.get(f"{path}/files", params={"after": 10**8}).json() == {"files": [], "next": None}
            number, size = next((n, one["size_bytes"]) for n, one in enumerate(files["files"]) if one["size_bytes"])
            whole = {"parts": [{"file": number, "position": 0, "size": size}]}
            assert len(client.post(f"{path}/read", json=whole).content) == size
            assert len(client.post(f"{path}/read", json={**whole, "digests": True}).content) == 32
            for parts in (
                [],
                [{"file": number, "position": 1, "size": size}],
                [{"file": 10**9, "position": 0, "size": 1}],
                [{"file": -1, "position": 0, "size": 1}],
                [{"file": number, "position": 0, "size": 1 << 40}],
            ):
                answer = client.post(f"{path}/read", json={"parts": parts})
                assert (answer.status_code, answer.json()["code"]) == (400, "invalid-field"), parts
        finally:
            assert client.delete(path).status_code == 204
        for answer in (client.delete(path), client.get(f"{path}/files"), client.post(f"{path}/read", json=whole)):
            assert (answer.status_code, answer.json()["code"]) == (404, "unknown-backup")
        others = [client.post("/admin/backups").json() for _ in range(4)]
        refused = client.post("/admin/backups")
        assert (refused.status_code, refused.json()["code"]) == (409, "backup-refused")
        for other in others:
            client.delete(f"/admin/backups/{other['id']}").raise_for_status()
