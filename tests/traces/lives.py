"""What tests do to messages, and what the node tells of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from tests.door.members import Member

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-01"
UNSAMPLED = f"00-{TRACE_ID}-{SPAN_ID}-00"


def make_topic(http: httpx.Client, name: str, partitions: int = 1, **config: Any) -> None:
    chosen = {key.replace("_", "."): value for key, value in config.items()}
    http.post("/topics", json={"name": name, "num_partitions": partitions, "config": chosen}).raise_for_status()


def publish(http: httpx.Client, topic: str, **message: Any) -> dict[str, Any]:
    answer = http.post(f"/topics/{topic}/messages", json={"messages": [{"value": "v", **message}]})
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["results"][0]
    return result


def take(member: Member, timeout: str = "10s") -> dict[str, Any]:
    (message,) = member.ask_poll(timeout, limit=1).json()["messages"]
    found: dict[str, Any] = message
    return found


def answer(http: httpx.Client, verb: str, message: dict[str, Any], **more: Any) -> None:
    told = http.post(f"/messages/{verb}", json={"receipt": message["receipt"], **more})
    assert told.status_code == 200, told.text


def traces(http: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    answer = http.get("/traces/search" if query else "/traces", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["traces"]
    return found


def show(http: httpx.Client, trace_id: str) -> dict[str, Any]:
    answer = http.get(f"/traces/{trace_id}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def names(http: httpx.Client, trace_id: str) -> list[str]:
    return [one["name"] for one in show(http, trace_id)["spans"]]


def lines(data: Path) -> list[dict[str, Any]]:
    """The events on disk."""
    files = sorted((data / "traces").glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_bytes().splitlines()]
