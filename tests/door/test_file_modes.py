"""Nobody but the node's own user can read what it stores, whatever the process' umask is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx

from bench.node_process import NodeProcess
from tests.waiting import wait_until

SETTINGS = {"GOQUEUE_TRACES_SAMPLE_RATE": "1"}


def modes(root: Path) -> Iterator[tuple[str, int]]:
    yield ".", stat.S_IMODE(root.stat().st_mode)
    for path in sorted(root.rglob("*")):
        yield str(path.relative_to(root)), stat.S_IMODE(path.stat().st_mode)


def open_to_others(root: Path) -> list[str]:
    return [f"{mode:o} {name}" for name, mode in modes(root) if mode & 0o077]


def use(node: NodeProcess) -> None:
    """Something of every kind: segments, notes, the index of delays with its companions, traces, dead letters."""
    with httpx.Client(base_url=node.url, timeout=60) as client:
        client.post("/topics", json={"name": "t", "num_partitions": 1})
        messages = [{"value": "now"}, {"value": "later", "delay": "1h"}]
        client.post("/topics/t/messages", json={"messages": messages}).raise_for_status()
        client.post("/transactions/init", json={"transactional_id": "x"})
        joined = client.post("/groups/g/join", json={"client_id": "c", "topics": ["t"], "mode": "shared"}).json()
        poll = {"member_id": joined["member_id"], "generation": joined["generation"], "timeout": "10s"}
        (one,) = client.get("/groups/g/poll", params=poll).json()["messages"]
        client.post("/messages/reject", json={"receipt": one["receipt"]}).raise_for_status()
        client.post("/topics/t/dlq/redrive", json={})
    wait_until(lambda: any((node.data_dir / "traces").glob("*")))
    wait_until(lambda: any(node.data_dir.glob("schedule*-shm")))


def test_what_a_node_creates_is_its_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with NodeProcess(tmp_path / "data", settings=SETTINGS) as node:
            use(node)
            names = {name for name, _ in modes(node.data_dir)}
            assert {"traces", "logs/t/0"} <= names
            kinds = {name.partition(".")[2] for name in names if name.startswith("schedule")}
            assert kinds == {"sqlite", "sqlite-wal", "sqlite-shm"}
            assert open_to_others(node.data_dir) == []
    finally:
        os.umask(before)
    assert open_to_others(tmp_path / "data") == []


def test_a_directory_that_was_open_to_others_is_closed_at_the_next_start(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data", settings=SETTINGS)
    with node:
        use(node)
    for path in (node.data_dir, *node.data_dir.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with node:
        assert open_to_others(node.data_dir) == []


def test_what_is_not_the_nodes_keeps_its_rights(tmp_path: Path) -> None:
    """Somebody may give it a directory that holds other things too."""
    shared = tmp_path / "data"
    (shared / "theirs").mkdir(parents=True)
    (shared / "theirs" / "file").touch()
    for path in (shared, shared / "theirs"):
        path.chmod(0o755)
    (shared / "theirs" / "file").chmod(0o644)
    with NodeProcess(shared) as node:
        httpx.post(f"{node.url}/topics", json={"name": "t"}).raise_for_status()
        assert open_to_others(shared) == ["755 .", "755 theirs", "644 theirs/file"]
