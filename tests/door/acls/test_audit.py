"""The audit log of a real node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.drive.audit_file import AuditFile


def lines_of(*files: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_refusals_changes_and_looks_at_messages_are_written_down_and_nothing_secret(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    settings = {"GOQUEUE_SECURITY_AUDIT_LOG": str(file)}
    with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as rest:
        rest.post("/topics", json={"name": "orders"}).raise_for_status()
        rest.post("/topics/orders/messages", json={"messages": [{"value": "hidden-value", "key": "hidden-key"}]})
        assert rest.get("/topics/orders/messages").json()["messages"]
        assert rest.delete("/topics/nothing").status_code == 404
    told = [(line["event"], line["verb"], line["resources"], line["outcome"]) for line in lines_of(file)]
    assert told == [
        ("change", "Topics.create", ["create topic:orders"], "done"),
        ("read", "Browsing.read", ["read topic:orders"], "done"),
        ("change", "Topics.delete", ["delete topic:nothing"], "unknown-topic"),
    ]
    assert "hidden" not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    settings["GOQUEUE_SECURITY_AUTHORIZATION"] = "acl"
    with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as rest:
        for _ in range(3):
            assert rest.get("/topics/orders").status_code == 403
        assert rest.get("/topics").json()["topics"] == []
    refused = [line for line in lines_of(file) if line["event"] == "refused"]
    assert sum(line.get("count", 1) for line in refused) == 3, "what a list leaves out is no refusal"
    assert {(line["user"], line["door"], *line["resources"]) for line in refused} == {
        ("anonymous", "rest", "describe topic:orders")
    }


def test_a_file_that_is_large_is_moved_aside_and_few_are_kept(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "audit.log", 100)
    for number in range(20):
        file.append([b"%d\n" % number * 60])
    assert sorted(one.name for one in tmp_path.iterdir()) == [f"audit.log.{number}" for number in range(1, 6)]
    file.append([b"new\n"])
    assert (tmp_path / "audit.log").read_text() == "new\n"
    assert (tmp_path / "audit.log.1").read_text().startswith("19\n")


def test_of_two_processes_that_find_a_file_large_one_moves_it_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.log"

    def other_is_first(*_: object) -> None:
        path.replace(tmp_path / "audit.log.1")
        path.write_text("of the other\n")

    monkeypatch.setattr("fcntl.flock", other_is_first)
    AuditFile(path, 100).append([b"mine\n" * 30])
    assert path.read_text() == "of the other\n"
    assert (tmp_path / "audit.log.1").read_text().startswith("mine\n")
    assert not (tmp_path / "audit.log.2").exists()
