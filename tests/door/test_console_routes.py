"""The routes that the console needs beyond the others, through a node."""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import re
import struct
import time
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

import goqueue.api
from goqueue.edge.rest.examples import example_of
from goqueue.edge.rest.operations import RestOperation
from tests.door.kafka.raw import unique

AVRO = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "raw", "type": "bytes"},
    ],
}
# id 7, who "ada", tags {"x": [1.5]}, kind B, raw 0xff
AVRO_DATA = b"\x0e\x02\x06ada\x02\x02x\x02" + struct.pack("<d", 1.5) + b"\0\0\x02\x02\xff"
PROTO = 'syntax="proto3"; message Outer { message In { string name = 1; } In inner = 1; int32 n = 2; }'


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server_url, timeout=30) as client:
        yield client


@pytest.fixture
def topic(http: httpx.Client) -> str:
    name = unique("console")
    http.post("/topics", json={"name": name, "num_partitions": 2}).raise_for_status()
    return name


def publish(http: httpx.Client, topic: str, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    answer = http.post(f"/topics/{topic}/messages", json={"messages": messages})
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


def framed(schema_id: int, data: bytes) -> str:
    return base64.b64encode(b"\0" + struct.pack(">I", schema_id) + data).decode()


def registered(http: httpx.Client, subject: str, **schema: str) -> int:
    answer = http.post(f"/subjects/{subject}/versions", json=schema)
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


def test_values_are_told_as_json_by_their_schemas(http: httpx.Client, topic: str) -> None:
    avro = registered(http, f"{topic}-value", schema=json.dumps(AVRO))
    proto = registered(http, f"{topic}-proto", schema=PROTO, schemaType="PROTOBUF")
    values: list[dict[str, Any]] = [
        {"value": framed(avro, AVRO_DATA), "encoding": "base64"},
        {"value": framed(proto, b"\0\x0a\x05\x0a\x03ada\x10\x07"), "encoding": "base64"},
        {"value": framed(proto, b"\x04\0\0\x0a\x03ada"), "encoding": "base64"},
        {"value": base64.b64encode(AVRO_DATA).decode(), "encoding": "base64", "schema_id": avro},
        {"value": framed(avro, b"\x0e"), "encoding": "base64"},
        {"value": framed(2**30, b""), "encoding": "base64"},
        {"value": "no prefix"},
        {"value": "%", "encoding": "base64"},
    ]
    results = http.post("/schemas/decode", json={"values": values}).json()["results"]
    payment = {"id": 7, "who": "ada", "tags": {"x": [1.5]}, "kind": "B", "raw": "ÿ"}
    assert (results[0]["type"], results[0]["subject"], json.loads(results[0]["json"])) == (
        "AVRO",
        f"{topic}-value",
        payment,
    )
    assert json.loads(results[1]["json"]) == {"inner": {"name": "ada"}, "n": 7}
    assert json.loads(results[2]["json"]) == {"name": "ada"}
    assert json.loads(results[3]["json"]) == payment
    assert [list(one) for one in results[4:]] == [["error"]] * 4
    assert http.post("/schemas/decode", json={"values": [{"value": ""}] * 501}).status_code == 400


def test_messages_are_found_by_key_header_path_and_text_wherever_they_are(http: httpx.Client, topic: str) -> None:
    avro = registered(http, f"{topic}-value", schema=json.dumps(AVRO))
    for number in range(30):
        publish(
            http,
            topic,
            {
                "key": f"user-{number % 3}",
                "value": json.dumps({"order": {"id": number}, "items": [number, -number]}),
                "headers": {"source": "web" if number % 2 else "shop"},
                "partition": number % 2,
            },
        )
    publish(http, topic, {"value": framed(avro, AVRO_DATA), "encoding": "base64"}, {"key": "gone", "value": None})

    def found(**query: str | int) -> list[str]:
        messages: list[dict[str, Any]] = []
        start = query.pop("from", "earliest")
        for _ in range(100):
            page = http.get(f"/topics/{topic}/search", params={**query, "from": start}).json()
            messages += page["messages"]
            if page["next"] is None:
                return [str(one["value"]) for one in messages]
            start = page["next"]
        raise AssertionError("it never ends")

    assert len(found()) == 32
    assert len(found(key="user-1")) == 10
    assert len(found(key="user-1", header="source:web")) == 5
    assert len(found(header="source")) == 30
    assert found(path="$.order.id=17") == [json.dumps({"order": {"id": 17}, "items": [17, -17]})]
    assert found(path="$.items[*]=-17") == found(path="$.order.id=17") == found(text='"id": 17}')
    assert found(path="$.who=ada") == [framed(avro, AVRO_DATA)]
    assert len(found(partition=0, header="source")) == 15
    assert found(key="user-1", limit=1, **{"from": "0:0,1:0"}) == found(key="user-1")
    for wrong in ({"path": "order"}, {"header": ":x"}, {"partition": 9}, {"from": "0:0,7:0"}, {"limit": 1001}):
        assert http.get(f"/topics/{topic}/search", params=wrong).status_code in (400, 404)


def test_a_lease_is_seen_extended_and_taken_back_and_a_queue_is_looked_into(http: httpx.Client, topic: str) -> None:
    publish(
        http, topic, *({"value": str(number), "partition": 0} for number in range(5)), {"value": "p1", "partition": 1}
    )
    group, where = unique("g"), {}
    joined = http.post(
        f"/groups/{group}/join", json={"client_id": "c", "topics": [topic], "mode": "shared", "member_id": "m"}
    ).json()
    where = {"member_id": "m", "generation": joined["generation"], "timeout": "5s", "limit": 3}
    taken = http.get(f"/groups/{group}/poll", params=where).json()["messages"]
    leases = http.get(f"/queues/{group}/{topic}/leases").json()["leases"]
    assert {one["receipt"] for one in leases} == {one["receipt"] for one in taken}
    assert {(one["owner"], one["attempt"], one["lane"]) for one in leases} == {("m", 1, "normal")}
    extended = http.post("/messages/visibility", json={"receipt": leases[0]["receipt"], "timeout": "10m"})
    assert extended.status_code == 200
    after = {one["receipt"]: one for one in http.get(f"/queues/{group}/{topic}/leases").json()["leases"]}
    assert after[leases[0]["receipt"]]["leased_until"] > leases[0]["leased_until"] + 60_000
    next_ones = http.get(f"/queues/{group}/{topic}/peek", params={"limit": 10}).json()["messages"]
    places = {(one["partition"], one["offset"]) for one in next_ones}
    assert places.isdisjoint((one["partition"], one["offset"]) for one in taken) and len(places) == 6 - len(taken)
    assert http.post("/messages/visibility", json={"receipt": leases[0]["receipt"], "timeout": 0}).status_code == 200
    assert len(http.get(f"/queues/{group}/{topic}/leases").json()["leases"]) == len(taken) - 1
    assert len(http.get(f"/queues/{group}/{topic}/peek", params={"limit": 10}).json()["messages"]) == 7 - len(taken)
    assert http.get(f"/queues/{group}/{topic}/leases", params={"limit": 1}).json()["leases"] != []
    assert http.get(f"/queues/nobody/{topic}/leases").json() == {"leases": []}


def test_large_messages_are_searched_and_peeked_a_page_at_a_time(http: httpx.Client, topic: str) -> None:
    for number in range(12):
        publish(http, topic, {"value": str(number % 10) * 1_000_000, "partition": 0})
    group = unique("g")
    asked = {"client_id": "c", "topics": [topic], "mode": "shared", "member_id": "m"}
    joined = http.post(f"/groups/{group}/join", json=asked).json()
    where = {"member_id": "m", "generation": joined["generation"], "timeout": "5s", "limit": 1}
    assert len(http.get(f"/groups/{group}/poll", params=where).json()["messages"]) == 1
    peeked = http.get(f"/queues/{group}/{topic}/peek", params={"limit": 200}).json()["messages"]
    assert [one["offset"] for one in peeked] == [*range(1, 10)]
    places: list[int] = []
    start: str | None = "earliest"
    while start is not None:
        page = http.get(f"/topics/{topic}/search", params={"from": start}).json()
        assert len(page["messages"]) < 10
        places += [one["offset"] for one in page["messages"]]
        start = page["next"]
    assert places == [*range(12)]


def test_the_calendar_counts_what_is_due_when(http: httpx.Client, topic: str) -> None:
    assert http.get(f"/topics/{topic}/delayed/calendar").json() == {"step_ms": 60_000, "pending": 0, "buckets": []}
    hour, now = 3_600_000, int(time.time() * 1000)
    publish(http, topic, *({"value": "x", "deliverAt": now + number * hour} for number in range(1, 49)))
    told = http.get(f"/topics/{topic}/delayed/calendar").json()
    assert told["pending"] == 48 == sum(one["count"] for one in told["buckets"])
    assert told["step_ms"] == hour and all(one["from_ms"] % hour == 0 for one in told["buckets"])
    assert http.get("/topics/nowhere/delayed/calendar").status_code == 404


def test_dead_letters_are_told_apart_by_their_errors(http: httpx.Client, topic: str) -> None:
    publish(http, topic, *({"value": str(number), "partition": 0} for number in range(4)))
    group = unique("g")
    joined = http.post(
        f"/groups/{group}/join", json={"client_id": "c", "topics": [topic], "mode": "shared", "member_id": "m"}
    ).json()
    where = {"member_id": "m", "generation": joined["generation"], "timeout": "5s", "limit": 4}
    taken = http.get(f"/groups/{group}/poll", params=where).json()["messages"]
    for number, one in enumerate(taken):
        reason = "card declined" if number == 3 else f"timed out after {number} s"
        http.post("/messages/reject", json={"receipt": one["receipt"], "reason": reason}).raise_for_status()
    errors = http.get(f"/topics/{topic}/dlq/stats").json()["fingerprints"]
    assert [(one["count"], one["example"]) for one in errors] == [(3, "timed out after 0 s"), (1, "card declined")]
    declined = {"fingerprint": errors[1]["fingerprint"]}
    assert [one["error"] for one in http.get(f"/topics/{topic}/dlq", params=declined).json()["messages"]] == [
        "card declined"
    ]
    tried = http.post(f"/topics/{topic}/dlq/redrive", json={"filter": declined, "dry_run": True}).json()
    assert tried["would_move"] == 1


def test_the_node_tells_who_asks_what_settings_mean_and_its_last_hours(http: httpx.Client) -> None:
    assert http.get("/whoami").json() == {
        "principal": "anonymous",
        "tenant": "",
        "authentication": False,
        "authorization": False,
    }
    settings = {one["name"]: one for one in http.get("/settings/topics").json()["settings"]}
    assert settings["retention.ms"]["default"] == "604800000" and all(one["doc"] for one in settings.values())
    page = http.get("/history", params={"series": "memory,no%2Csuch", "prefix": "loop", "minutes": 1, "points": 6})
    assert page.json()["series"].keys() == {"memory", "loop_lag"}
    assert page.json()["series"]["memory"][-1] > 1_000_000 or page.json()["series"]["memory"][-2] > 1_000_000
    for wrong in ({"minutes": 0}, {"minutes": 361}, {"points": 0}, {"series": ",".join(map(str, range(65)))}):
        assert http.get("/history", params=wrong).status_code == 400
    assert http.get("/admin/audit").json() == {"lines": [], "is_kept": False, "silent": []}


def bodies() -> list[type]:
    modules = [importlib.import_module(f"goqueue.api.{one.name}") for one in pkgutil.iter_modules(goqueue.api.__path__)]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    taken = [kind for kind in kinds if issubclass(kind, msgspec.Struct) and re.search("In$|^NewSchema$", kind.__name__)]
    return sorted(taken, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", bodies(), ids=lambda kind: kind.__name__)
def test_the_example_of_a_body_is_taken_by_its_type(kind: type) -> None:
    async def never(request: Request) -> Response:
        raise NotImplementedError

    msgspec.convert(example_of(RestOperation("POST", "/", never, "", "", body=kind)), kind)


def test_routes_are_described_with_what_their_types_say_and_an_example(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    content = paths["/topics"]["post"]["requestBody"]["content"]["application/json"]
    assert content["example"] == {"name": "orders", "num_partitions": 3, "config": {"retention.ms": 86400000}}
    assert "Body: Without a `delay`" in paths["/messages/nack"]["post"]["description"]
    told = [one.get("description", "") for methods in paths.values() for one in methods.values()]
    assert not [text for text in told if "efficient serializable" in text], "what msgspec says of its own class"
