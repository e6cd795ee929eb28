"""The REST door of a running node, by a client that knows nothing of the broker."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterator

import httpx
import pytest

from tests.door.http.raw import Line


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server_url, timeout=40) as client:
        yield client


@pytest.fixture
def topic(http: httpx.Client) -> str:
    name = f"t-{uuid.uuid4()}"
    assert http.post("/topics", json={"name": name}).status_code == 201
    return name


def problem(answer: httpx.Response, status: int, code: str, field: str | None = None) -> dict[str, object]:
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, object] = answer.json()
    assert (answer.status_code, body["status"], body["code"], body.get("field")) == (status, status, code, field)
    assert len(str(body["detail"])) > 10
    return body


def test_a_topics_life(http: httpx.Client) -> None:
    made = http.post("/topics", json={"name": "life", "num_partitions": 2, "config": {"retention.ms": 1000}})
    assert made.status_code == 201 and made.json()["config"]["retention.ms"] == "1000"
    assert "life" in [one["name"] for one in http.get("/topics").json()["topics"]]
    assert http.get("/topics/life").json() == made.json()
    changed = http.patch("/topics/life", json={"config": {"retention.ms": None, "segment.bytes": 4096}})
    assert changed.json()["overrides"] == {"segment.bytes": "4096"}
    assert http.patch("/topics/life", json={"num_partitions": 5}).json()["num_partitions"] == 5
    assert len(http.get("/topics/life/partitions").json()["partitions"]) == 5
    wider = http.post("/admin/topics/life/partitions", json={"partitions": 10}).json()
    assert (wider["partitions_before"], wider["partitions"]) == (5, 10) and "50%" in wider["note"]
    assert http.delete("/topics/life").status_code == 204
    problem(http.get("/topics/life"), 404, "unknown-topic", "topic")
    problem(http.delete("/topics/life"), 404, "unknown-topic", "topic")


def test_what_goes_in_comes_out(http: httpx.Client, topic: str) -> None:
    messages = [
        {"key": "user-1", "value": "grüße ☃", "headers": {"a": "1", "b": ["x", None], "c": ""}, "priority": 0},
        {"key": "user-1", "value": "", "timestamp": "2026-01-31T12:00:00Z"},
        {"key": "user-1", "value": None},
        {
            "key": base64.b64encode(b"\xff\x00").decode(),
            "key_encoding": "base64",
            "value": base64.b64encode(bytes(range(256))).decode(),
            "encoding": "base64",
            "headers": {"bin": {"value": "/w==", "encoding": "base64"}},
            "partition": 1,
            "priority": "background",
        },
    ]
    sent = http.post(f"/v1/topics/{topic}/messages", json={"messages": messages, "acks": "leader"})
    assert sent.status_code == 200
    places = [(one["partition"], one["offset"]) for one in sent.json()["results"]]
    got = {
        (one["partition"], one["offset"]): one
        for one in http.get(f"/topics/{topic}/messages", params={"from": "earliest"}).json()["messages"]
    }
    assert sorted(got) == sorted(places)
    text, empty, tombstone, binary = (got[place] for place in places)
    assert text["value"] == "grüße ☃" and text["headers"] == {"a": "1", "b": ["x", None], "c": ""}
    assert text["priority"] == "critical" and "encoding" not in text
    assert empty["value"] == "" and empty["timestamp"] == 1769860800000 and empty["priority"] == "normal"
    assert tombstone["value"] is None
    assert binary["key_encoding"] == binary["encoding"] == "base64" and binary["priority"] == "background"
    assert base64.b64decode(binary["value"]) == bytes(range(256))
    assert binary["headers"] == {"bin": {"value": "/w==", "encoding": "base64"}}


def test_reading_pages_through_partitions(http: httpx.Client, topic: str) -> None:
    for start in range(0, 300, 60):
        values = [{"value": str(n), "partition": n % 3} for n in range(start, start + 60)]
        http.post(f"/topics/{topic}/messages", json={"messages": values}).raise_for_status()
    got: list[str] = []
    cursor = "earliest"
    while page := http.get(f"/topics/{topic}/messages", params={"from": cursor, "limit": 70}).json():
        if not page["messages"]:
            break
        got += [one["value"] for one in page["messages"]]
        cursor = page["next"]
    assert sorted(map(int, got)) == list(range(300))
    path = f"/topics/{topic}/partitions/1/messages"
    page = http.get(path, params={"offset": 10, "limit": 5}).json()
    assert [one["offset"] for one in page["messages"]] == [10, 11, 12, 13, 14]
    assert (page["next_offset"], page["high_watermark"]) == (15, 100)
    assert http.get(path, params={"offset": 100}).json()["messages"] == []
    beyond = problem(http.get(path, params={"offset": 101}), 416, "offset-out-of-range")
    assert (beyond["start_offset"], beyond["end_offset"]) == (0, 100)


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        (b"{", 400, "invalid-json", None),
        (b"", 400, "invalid-json", None),
        (b"\xff\xfe", 400, "invalid-json", None),
        (b"[" * 100_000, 400, "invalid-field", None),
        (b"[]", 400, "invalid-field", None),
        (b"{}", 400, "invalid-field", "messages"),
        (b'{"messages": []}', 400, "invalid-field", "messages"),
        (b'{"messages": [{"key": "k"}]}', 400, "invalid-field", "messages[0].value"),
        (b'{"messages": [{"value": {"a": 1}}]}', 400, "invalid-field", "messages[0].value"),
        (b'{"messages": [{"value": "v", "colour": 1}]}', 400, "invalid-field", "messages[0].colour"),
        (b'{"messages": [{"value": "v"}], "x": 1}', 400, "invalid-field", "x"),
        (b'{"messages": [{"value": "v"}], "acks": "some"}', 400, "invalid-field", "acks"),
        (b'{"messages": [{"value": "v", "partition": -1}]}', 400, "invalid-field", "messages[0].partition"),
        (b'{"messages": [{"value": "v", "partition": 99}]}', 404, "unknown-partition", "messages[0].partition"),
        (b'{"messages": [{"value": "v", "priority": 5}]}', 400, "invalid-field", "messages[0].priority"),
        (b'{"messages": [{"value": "v", "priority": "urgent"}]}', 400, "invalid-field", "messages[0].priority"),
        (b'{"messages": [{"value": "v", "timestamp": "soon"}]}', 400, "invalid-field", "messages[0].timestamp"),
        (b'{"messages": [{"value": "v", "timestamp": -5}]}', 400, "invalid-field", "messages[0].timestamp"),
        (b'{"messages": [{"value": "%%", "encoding": "base64"}]}', 400, "invalid-field", "messages[0].value"),
        (b'{"messages": [{"value": "v", "encoding": "hex"}]}', 400, "invalid-field", "messages[0].encoding"),
        (b'{"messages": [{"value": "' + b"x" * 17_000_000 + b'"}]}', 413, "message-too-large", "messages[0].value"),
        (b'{"messages": [{"value": "' + b"x" * 70_000_000 + b'"}]}', 413, "body-too-large", None),
    ],
    ids=lambda value: value[:60].decode(errors="replace") if isinstance(value, bytes) else None,
)
def test_bad_publishes(http: httpx.Client, topic: str, body: bytes, status: int, code: str, field: str | None) -> None:
    problem(http.post(f"/topics/{topic}/messages", content=body), status, code, field)
    assert http.get(f"/topics/{topic}").json()["messages"] == 0


@pytest.mark.parametrize(
    ("name", "code"),
    [("a/b", "invalid-name"), ("..", "invalid-name"), (".", "invalid-name"), ("a" * 300, "invalid-name")],
)
def test_bad_names(http: httpx.Client, name: str, code: str) -> None:
    problem(http.post("/topics", json={"name": name}), 400, code, "name")


def test_bad_topic_requests(http: httpx.Client, topic: str) -> None:
    problem(http.post("/topics", json={"name": topic}), 409, "topic-exists", "name")
    problem(http.post("/topics", json={}), 400, "invalid-field", "name")
    problem(http.post("/topics", json={"name": "x", "partitions": 3}), 400, "invalid-field", "partitions")
    problem(http.post("/topics", json={"name": "x", "num_partitions": 0}), 400, "invalid-partitions", "num_partitions")
    refused = problem(
        http.post("/topics", json={"name": "x", "config": {"retention.ms": "soon", "nope": 1}}),
        400,
        "invalid-config",
        "config",
    )
    assert set(refused["mistakes"]) == {"retention.ms", "nope"}  # type: ignore[call-overload]
    problem(http.patch(f"/topics/{topic}", json={"num_partitions": 1}), 400, "invalid-partitions", "num_partitions")
    fewer = http.post(f"/admin/topics/{topic}/partitions", json={"partitions": 1})
    problem(fewer, 400, "invalid-partitions", "partitions")


@pytest.mark.parametrize(
    ("path", "status", "code", "field"),
    [
        ("/topics/{t}/partitions/-1/messages", 400, "invalid-field", "partition"),
        ("/topics/{t}/partitions/x/messages", 400, "invalid-field", "partition"),
        ("/topics/{t}/partitions/9/messages", 404, "unknown-partition", "partition"),
        ("/topics/{t}/partitions/0/messages?offset=-1", 400, "invalid-field", "offset"),
        ("/topics/{t}/partitions/0/messages?offset=1.5", 400, "invalid-field", "offset"),
        ("/topics/{t}/partitions/0/messages?offset=99999999999999999999", 400, "invalid-field", "offset"),
        ("/topics/{t}/messages?limit=0", 400, "invalid-field", "limit"),
        ("/topics/{t}/messages?limit=10001", 400, "invalid-field", "limit"),
        ("/topics/{t}/messages?from=yesterday", 400, "invalid-field", "from"),
        ("/topics/{t}/messages?from=0:x", 400, "invalid-field", "from"),
        ("/topics/{t}/messages?from=0:0,0:1", 400, "invalid-field", "from"),
        ("/topics/{t}/messages?from=latest&from=earliest", 400, "invalid-field", "query"),
        ("/topics/{t}/tail?from=1:0&partition=0", 400, "invalid-field", "from"),
        ("/healthz?x=1", 400, "invalid-field", "x"),
        ("/topics/{t}/messages?from=7:0", 404, "unknown-partition", "partition"),
        ("/topics/{t}/messages?timeout=fast", 400, "invalid-field", "timeout"),
        ("/topics/{t}/messages?isolation=serializable", 400, "invalid-field", "isolation"),
        ("/topics/{t}/messages?colour=red", 400, "invalid-field", "colour"),
        ("/topics/nope/messages", 404, "unknown-topic", "topic"),
        ("/topics/nope/tail", 404, "unknown-topic", "topic"),
        ("/nowhere", 404, "unknown-route", None),
        ("/topics/../../etc/passwd", 404, "unknown-route", None),
        ("/topics/%2e%2e/partitions", 400, "invalid-name", "topic"),
    ],
)
def test_bad_reads(http: httpx.Client, topic: str, path: str, status: int, code: str, field: str | None) -> None:
    problem(http.get(path.replace("{t}", topic)), status, code, field)


def test_pages_of_other_sites_cannot_write(http: httpx.Client, topic: str) -> None:
    body = {"messages": [{"value": "v"}]}
    foreign = {"Origin": "https://elsewhere.example"}
    problem(http.post(f"/topics/{topic}/messages", json=body, headers=foreign), 403, "foreign-origin")
    own = {"Origin": str(http.base_url).rstrip("/")}
    assert http.post(f"/topics/{topic}/messages", json=body, headers=own).status_code == 200


def test_a_wrong_method_is_said_so(http: httpx.Client) -> None:
    answer = http.put("/topics", json={})
    problem(answer, 405, "unknown-route")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_every_path_tells_all_its_methods(http: httpx.Client, prefix: str) -> None:
    """Also one whose methods are served in different places."""
    assert http.post(f"{prefix}/topics/t", json={}).headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH"
    assert http.delete(f"{prefix}/config").status_code == 200
    assert http.post(f"{prefix}/config", json={}).headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PUT"
    asked = http.options(f"{prefix}/topics/t/messages")
    assert (asked.status_code, asked.headers["allow"], asked.content) == (204, "GET, HEAD, OPTIONS, POST", b"")
    problem(http.options(f"{prefix}/nowhere"), 404, "unknown-route")
    described = http.get("/openapi.json").json()["paths"]
    for path, methods in described.items():
        told = http.options(prefix + re.sub(r"\{\w+\}", "0", path))
        assert told.status_code == 204 and {name.upper() for name in methods} <= set(told.headers["allow"].split(", "))


def test_options_without_a_path_is_answered(http: httpx.Client) -> None:
    with Line(str(http.base_url).rstrip("/")) as line:
        line.send(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert line.answer()[0] == 204


def test_a_partly_stored_publish_is_a_207(http: httpx.Client, topic: str) -> None:
    messages = [{"value": "a"}, {"value": "b", "partition": 77}, {"value": "c"}]
    answer = http.post(f"/topics/{topic}/messages", json={"messages": messages})
    assert answer.status_code == 207
    first, second, third = answer.json()["results"]
    assert second["error"]["code"] == "unknown-partition" and "offset" not in second
    assert first["partition"] == third["partition"] and third["offset"] == first["offset"] + 1


def test_the_node_describes_itself(http: httpx.Client) -> None:
    assert http.get("/healthz").json() == http.get("/livez").json() == {"status": "ok"}
    ready = http.get("/readyz", params={"verbose": "true"}).json()
    assert ready["status"] == "ready" and ready["checks"]["disk space"]["ok"]
    assert http.get("/version").json()["name"] == "goqueue"
    stats = http.get("/stats").json()
    assert stats["uptime_ms"] > 0 and stats["disk"]["total_bytes"] > 0
    described = http.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    page = http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for path in described["paths"]:
        assert path in page.text
    assert "Content-Security-Policy" in http.get("/").headers


def test_every_described_path_is_served_under_both_roots(http: httpx.Client, topic: str) -> None:
    commit = {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    assert http.post(f"/groups/{topic}/offsets", json=commit).status_code == 200
    for path, methods in http.get("/openapi.json").json()["paths"].items():
        if "get" in methods and not path.endswith(("/tail", "/poll", "/explain")):
            known = path.replace("{topic}", topic).replace("{partition}", "0").replace("{group}", topic)
            known = known.replace("{owner}", topic)  # one that nobody heard of has committed nothing yet
            real = re.sub(r"\{\w+\}", "999999", known)  # what is left names something that is not there
            expected = 200 if real == known and path != "/usage" else 404  # a caller without a tenant uses none
            assert http.get(real).status_code == http.get(f"/v1{real}").status_code == expected, path


def test_a_word_that_is_no_choice_is_answered_with_the_choices(http: httpx.Client, topic: str) -> None:
    said = http.post(f"/topics/{topic}/messages", json={"messages": [{"value": "v"}], "acks": "some"})
    assert said.json()["detail"] == "Invalid enum value 'some'; use all, leader or none."
    nested = http.post(f"/topics/{topic}/messages", json={"messages": [{"value": "v", "encoding": "hex"}]})
    assert nested.json()["detail"].endswith("use base64 or text.")
