"""What the group routes of a real node refuse, and how."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.door.test_rest import problem


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server_url, timeout=40) as client:
        yield client


@pytest.fixture
def topic(http: httpx.Client) -> str:
    name = f"t-{uuid.uuid4()}"
    assert http.post("/topics", json={"name": name, "num_partitions": 3}).status_code == 201
    return name


_COMMIT = {"topic": "{t}", "partition": 0, "offset": 0}
_JOIN = {"client_id": "c", "topics": ["{t}"]}
BAD: list[tuple[str, Any, int, str, str | None]] = [
    ("join", {}, 400, "invalid-field", "client_id"),
    ("join", {"client_id": "c"}, 400, "invalid-field", "topics"),
    ("join", {"client_id": "", "topics": ["{t}"]}, 400, "invalid-field", "client_id"),
    ("join", {"client_id": "c", "topics": []}, 400, "invalid-field", "topics"),
    ("join", {"client_id": "c", "topics": ["nope"]}, 404, "unknown-topic", "topic"),
    ("join", {"client_id": "c", "topics": [".."]}, 400, "invalid-name", "topic"),
    ("join", {"client_id": "c", "topics": ["__consumer_offsets"]}, 403, "internal-topic", "topics"),
    ("join", {**_JOIN, "colour": 1}, 400, "invalid-field", "colour"),
    ("join", {**_JOIN, "protocol": "lazy"}, 400, "invalid-field", "protocol"),
    ("join", {**_JOIN, "assignor": "best"}, 400, "invalid-field", "assignor"),
    ("join", {**_JOIN, "from": "middle"}, 400, "invalid-field", "from"),
    ("join", {**_JOIN, "auto_commit": 1}, 400, "invalid-field", "auto_commit"),
    ("join", {**_JOIN, "session_timeout": "long"}, 400, "invalid-field", "session_timeout"),
    ("join", {**_JOIN, "session_timeout": 1}, 400, "invalid-session-timeout", "session_timeout"),
    ("heartbeat", {"member_id": "m"}, 400, "invalid-field", "generation"),
    ("heartbeat", {"member_id": "m", "generation": -1}, 400, "invalid-field", "generation"),
    ("heartbeat", {"member_id": "m", "generation": 1}, 404, "unknown-group", None),
    ("revoke", {"member_id": "m", "generation": 1}, 400, "invalid-field", "partitions"),
    ("revoke", {"member_id": "m", "generation": 1, "partitions": []}, 404, "unknown-group", None),
    ("leave", {}, 400, "invalid-field", "member_id"),
    ("leave", {"member_id": "m"}, 404, "unknown-group", None),
    ("offsets", {"offsets": []}, 400, "invalid-field", "offsets"),
    ("offsets", {"offsets": [{"topic": "{t}", "partition": 0}]}, 400, "invalid-field", "offsets[0].offset"),
    ("offsets", {"offsets": [{**_COMMIT, "offset": -1}]}, 400, "invalid-field", "offsets[0].offset"),
    ("offsets", {"member_id": "m", "offsets": [_COMMIT]}, 400, "invalid-field", "generation"),
    ("offsets", {"generation": 1, "offsets": [_COMMIT]}, 400, "invalid-field", "member_id"),
    ("offsets/reset", {"topic": "{t}"}, 400, "invalid-field", "to"),
    ("offsets/reset", {"topic": "{t}", "to": "noon"}, 400, "invalid-field", "to"),
    ("offsets/reset", {"topic": "{t}", "to": "offset"}, 400, "invalid-field", "offset"),
    ("offsets/reset", {"topic": "{t}", "to": "latest", "offset": 1}, 400, "invalid-field", "offset"),
    ("offsets/reset", {"topic": "{t}", "to": "timestamp", "timestamp": "soon"}, 400, "invalid-field", "timestamp"),
    ("offsets/reset", {"topic": "nope", "to": "latest"}, 404, "unknown-topic", "topic"),
    ("offsets/reset", {"topic": "{t}", "to": "latest", "partition": 7}, 404, "unknown-partition", "partition"),
]


@pytest.mark.parametrize(("route", "body", "status", "code", "field"), BAD, ids=lambda one: str(one)[:50])
def test_bad_requests(
    http: httpx.Client, topic: str, route: str, body: Any, status: int, code: str, field: str | None
) -> None:
    commit = {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    http.post(f"/groups/{topic}/offsets", json=commit).raise_for_status()
    content = httpx.Request("POST", "http://x", json=body).content.replace(b"{t}", topic.encode())
    problem(http.post(f"/groups/{topic}/{route}", content=content), status, code, field)
    assert http.get(f"/groups/{topic}").json()["members"] == []


@pytest.mark.parametrize(
    ("path", "status", "code", "field"),
    [
        ("/groups/nope", 404, "unknown-group", "group"),
        ("/groups/nope/offsets", 404, "unknown-group", "group"),
        ("/groups/nope/rebalance/stats", 404, "unknown-group", "group"),
        ("/groups/a%20b", 400, "invalid-name", "group"),
        ("/groups/%2e%2e/offsets", 400, "invalid-name", "group"),
        ("/groups?state=Empty", 400, "invalid-field", "state"),
        ("/groups/nope/poll", 400, "invalid-field", "member_id"),
        ("/groups/nope/poll?member_id=m", 400, "invalid-field", "generation"),
        ("/groups/nope/poll?member_id=m&generation=x", 400, "invalid-field", "generation"),
        ("/groups/nope/poll?member_id=m&generation=1&limit=0", 400, "invalid-field", "limit"),
        ("/groups/nope/poll?member_id=m&generation=1&timeout=slow", 400, "invalid-field", "timeout"),
        ("/groups/nope/poll?member_id=m&generation=1&offset=0", 400, "invalid-field", "offset"),
        ("/groups/nope/poll?member_id=m&generation=1", 404, "unknown-group", None),
    ],
)
def test_bad_reads(http: httpx.Client, path: str, status: int, code: str, field: str | None) -> None:
    problem(http.get(path), status, code, field)
