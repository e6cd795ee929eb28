"""The same schema at each door: what does not fit is refused with its path; and the registry's own routes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.edge.rest.schema_errors import MEDIA_TYPES
from goqueue.format.records import NewRecord, build
from goqueue.wire.messages import produce
from tests.core.schemas.test_bombs import doubled
from tests.door.kafka.raw import Line, unique
from tests.door.sqs.clients import client as sqs_client
from tests.waiting import wait_until

TEXT = json.dumps(
    {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"properties": {"price": {"type": "number"}}}}},
        "required": ["items"],
    }
)
GOOD, BAD = '{"items": [{"price": 1}]}', '{"items": [{"price": 1}, {"price": "x"}]}'


def register(http: httpx.Client, subject: str, text: str = TEXT, kind: str = "JSON", **more: Any) -> httpx.Response:
    body = {"schema": text, "schemaType": kind, **more}
    return http.post(f"/subjects/{subject}/versions", json=body)


@pytest.fixture
def topic(http: httpx.Client, new_topic: Callable[..., str]) -> str:
    name = new_topic(schema_validation="latest")
    register(http, f"{name}-value").raise_for_status()
    return name


def test_rest_answers_for_each_message(http: httpx.Client, topic: str) -> None:
    def publish(*values: str) -> httpx.Response:
        return http.post(f"/topics/{topic}/messages", json={"messages": [{"value": value} for value in values]})

    assert publish(GOOD).status_code == 200
    one = publish(BAD)
    assert (one.status_code, one.headers["content-type"]) == (400, "application/problem+json")
    told = one.json()
    assert told["code"] == "schema-mismatch" and told["path"] == "$.items[1].price"
    assert told["field"] == "messages[0].value.items[1].price"
    some = publish(GOOD, BAD, GOOD)
    assert some.status_code == 207
    assert [result.get("offset") for result in some.json()["results"]] == [1, None, 2]
    assert some.json()["results"][1]["error"]["field"] == "messages[1].value.items[1].price"


@pytest.mark.parametrize("version", [8, 9, 12])
def test_kafka_refuses_the_batch_and_names_the_record_and_the_path(
    schema_node: NodeProcess, http: httpx.Client, topic: str, version: int
) -> None:
    with Line(schema_node.kafka) as line:
        data = produce.PartitionProduceData(
            index=0, records=build([NewRecord(None, one, (), 0) for one in (GOOD.encode(), BAD.encode(), b"{}")])
        )
        asked = produce.ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=[produce.TopicProduceData(name=topic, partition_data=[data])]
        )
        (answer,) = line.ask(asked, version).responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (87, -1)
    assert [one.batch_index for one in answer.record_errors] == [1, 2]
    assert "$.items[1].price" in answer.record_errors[0].batch_index_error_message
    assert answer.error_message.startswith("Record 1 of the batch: ")
    assert http.get(f"/topics/{topic}/messages").json()["messages"] == []


def test_sqs_refuses_the_contents(schema_node: NodeProcess, http: httpx.Client) -> None:
    with sqs_client(schema_node.sqs) as sqs:
        name = unique("q")
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        register(http, f"{name}-value").raise_for_status()
        http.patch(f"/topics/{name}", json={"config": {"schema.validation": "latest"}}).raise_for_status()
        sqs.send_message(QueueUrl=url, MessageBody=GOOD)
        with pytest.raises(sqs.exceptions.InvalidMessageContents, match=r"\$\.items\[1\]\.price"):
            sqs.send_message(QueueUrl=url, MessageBody=BAD)
        entries = [{"Id": "a", "MessageBody": GOOD}, {"Id": "b", "MessageBody": BAD}]
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        assert [one["Id"] for one in answer["Successful"]] == ["a"]
        (failed,) = answer["Failed"]
        assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("b", "InvalidMessageContents", True)


@pytest.mark.usefixtures("watched")
def test_a_transaction_over_rest_is_checked_too(http: httpx.Client, topic: str) -> None:
    made = http.post("/producers/init", json={"transactional_id": unique("p")}).json()
    who = {key: made[key] for key in ("transactional_id", "producer_id", "epoch") if key in made}
    http.post("/transactions/begin", json=who).raise_for_status()
    sent = http.post("/transactions/publish", json={**who, "topic": topic, "messages": [{"value": BAD}]})
    assert sent.status_code == 400 and sent.json()["code"] == "schema-mismatch"
    http.post("/transactions/abort", json=who)


def test_metrics_count_what_was_checked(http: httpx.Client, topic: str) -> None:
    def counted(result: str) -> float:
        for line in http.get("/metrics").text.splitlines():
            if line.startswith(f'goqueue_schemas_validations_total{{result="{result}"}}'):
                return float(line.split()[1])
        return 0.0

    before = counted("failed")
    http.post(f"/topics/{topic}/messages", json={"messages": [{"value": BAD}, {"value": GOOD}]})
    wait_until(lambda: counted("failed") != before)  # the page is up to a second old
    assert counted("failed") == before + 1


# --- the registry's routes --------------------------------------------------------------------------------------


def ask(http: httpx.Client, method: str, path: str, body: object = None) -> tuple[int, Any]:
    answer = http.request(method, path, json=body)
    assert answer.headers["content-type"] == MEDIA_TYPES[0]
    return answer.status_code, answer.json()


def test_every_error_has_confluents_number(http: httpx.Client) -> None:
    name = unique("s")
    versions = f"/subjects/{name}/versions"
    new = {"schema": '"int"'}
    table = [
        ("GET", versions, None, 404, 40401),
        ("GET", f"{versions}/1", None, 404, 40401),
        ("POST", f"/subjects/{name}", new, 404, 40401),
        ("DELETE", f"/subjects/{name}", None, 404, 40401),
        ("POST", versions, new, 200, None),
        ("GET", f"{versions}/7", None, 404, 40402),
        ("GET", f"{versions}/0", None, 422, 42202),
        ("GET", f"{versions}/first", None, 422, 42202),
        ("GET", "/schemas/ids/999999", None, 404, 40403),
        ("GET", "/schemas/ids/x", None, 404, 40403),
        ("GET", "/schemas/guids/x", None, 404, 40403),
        ("POST", f"/subjects/{name}", {"schema": '"long"'}, 404, 40403),
        ("POST", versions, {"schema": '"strin"'}, 422, 42201),
        ("POST", versions, {"schema": ""}, 422, 42201),
        ("POST", versions, {"schema": '"int"', "schemaType": "XML"}, 422, 42201),
        ("POST", versions, {"schema": '{"$ref": "http://a.b/c"}', "schemaType": "JSON"}, 422, 42201),
        ("POST", versions, {**new, "references": [{"name": "x", "subject": "nobody", "version": 1}]}, 422, 42201),
        ("POST", versions, {"schema": '"string"'}, 409, 409),
        ("POST", versions, {}, 422, 422),
        ("POST", versions, [1], 422, 422),
        ("POST", versions, {**new, "id": 5}, 422, 42205),
        ("POST", "/subjects/a%01b/versions", new, 422, 42208),
        ("PUT", f"/config/{name}", {"compatibility": "SIDEWAYS"}, 422, 42203),
        ("GET", f"/config/{name}", None, 404, 40408),
        ("DELETE", f"/config/{name}", None, 404, 40401),
        ("DELETE", f"/mode/{name}", None, 404, 40401),
        ("PUT", f"/mode/{name}", {"mode": "SIDEWAYS"}, 422, 42204),
        ("GET", f"/mode/{name}", None, 404, 40409),
        ("PUT", f"/mode/{name}", {"mode": "IMPORT"}, 422, 42205),
        ("PUT", f"/mode/{name}", {"mode": "READONLY"}, 200, None),
        ("POST", versions, new, 422, 42205),
        ("DELETE", f"{versions}/1", None, 422, 42205),
        ("DELETE", f"/mode/{name}", None, 200, None),
        ("DELETE", f"{versions}/1?permanent=true", None, 404, 40407),
        ("DELETE", f"/subjects/{name}?permanent=true", None, 404, 40405),
        ("DELETE", f"{versions}/1", None, 200, None),
        ("DELETE", f"{versions}/1", None, 404, 40406),
        ("DELETE", f"/subjects/{name}", None, 404, 40404),
        ("DELETE", f"/subjects/{name}?permanent=true", None, 200, None),
    ]
    for method, path, body, status, number in table:
        got, told = ask(http, method, path, body)
        assert got == status, (method, path, body, told)
        if number is not None:
            assert told["error_code"] == number and told["message"], (method, path, body, told)
            assert set(told) == {"error_code", "message"}


def test_what_the_routes_answer(http: httpx.Client) -> None:
    name = unique("s")
    made = register(http, name, '{"type": "number"}').json()
    schema_id, guid = made["id"], made["guid"]
    assert made == {"id": schema_id, "subject": name, "version": 1, "guid": guid}
    whole = {
        "id": schema_id,
        "subject": name,
        "version": 1,
        "guid": guid,
        "schemaType": "JSON",
        "schema": '{"type": "number"}',
    }
    for path in (f"/subjects/{name}/versions/latest", f"/subjects/{name}/versions/-1", f"/subjects/{name}/versions/1"):
        assert ask(http, "GET", path) == (200, whole)
    assert ask(http, "POST", f"/subjects/{name}", {"schema": ' {"type":"number"}', "schemaType": "JSON"}) == (
        200,
        whole,
    )
    bare = {"guid": guid, "schemaType": "JSON", "schema": '{"type": "number"}'}
    assert ask(http, "GET", f"/schemas/ids/{schema_id}") == (200, bare)
    assert ask(http, "GET", f"/schemas/guids/{guid}") == (200, bare)
    assert ask(http, "GET", f"/schemas/ids/{schema_id}/schema") == (200, {"type": "number"})
    assert ask(http, "GET", f"/subjects/{name}/versions/1/schema") == (200, {"type": "number"})
    assert {"subject": name, "version": 1} in ask(http, "GET", f"/schemas/ids/{schema_id}/versions")[1]
    assert whole in ask(http, "GET", f"/schemas?subjectPrefix={name}")[1]
    test = f"/compatibility/subjects/{name}/versions"
    narrower = {"schema": '{"type": "integer"}', "schemaType": "JSON"}
    reason = "cannot read version 1: TYPE_NARROWED at #: number is not accepted; accepted are integer"
    for path in (test, f"{test}/latest"):
        assert ask(http, "POST", path, narrower) == (200, {"is_compatible": False})
        assert ask(http, "POST", f"{path}?verbose=true", narrower) == (
            200,
            {"is_compatible": False, "messages": [reason]},
        )
    assert ask(http, "POST", f"/compatibility/subjects/{unique('x')}/versions", narrower)[1] == {"is_compatible": True}
    assert ask(http, "PUT", f"/config/{name}", {"compatibility": "full"}) == (200, {"compatibility": "FULL"})
    assert ask(http, "GET", f"/config/{name}") == (200, {"compatibilityLevel": "FULL"})
    assert ask(http, "DELETE", f"/config/{name}") == (200, {"compatibilityLevel": "FULL"})
    assert ask(http, "GET", f"/config/{name}?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask(http, "GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask(http, "GET", "/schemas/stats")[1]["last_id"] >= schema_id


def test_subjects_may_hold_slashes(http: httpx.Client) -> None:
    name = f"{unique('s')}/item.proto"
    quoted = name.replace("/", "%2F")
    register(http, quoted, "message A { optional int32 x = 1; }", "PROTOBUF").raise_for_status()
    assert name in ask(http, "GET", "/subjects")[1]
    assert ask(http, "GET", f"/subjects/{quoted}/versions") == (200, [1])
    assert ask(http, "GET", f"/subjects/{quoted}/versions/1/referencedby") == (200, [])
    assert ask(http, "DELETE", f"/subjects/{quoted}") == (200, [1])


def test_a_hostile_schema_costs_the_node_nothing(http: httpx.Client) -> None:
    for text, number in (
        ('{"a":' * 10_000 + "1" + "}" * 10_000, 42201),
        (json.dumps({"enum": ["x" * 1_100_000]}), 42209),
        ('{"$ref": "#"}', 42201),
        ('{"$ref": "http://127.0.0.1:1/"}', 42201),
        (json.dumps({"pattern": "((a{100}){100}){100}"}), 42201),
        (json.dumps(doubled("anyOf", 26)), 42201),
    ):
        answer = register(http, unique("s"), text)
        assert answer.status_code == 422 and answer.json()["error_code"] == number, answer.text
        assert answer.elapsed.total_seconds() < 2
    assert http.get("/readyz").status_code == 200


def test_internal_books_are_closed_to_publishers(http: httpx.Client) -> None:
    answer = http.post("/topics/__goqueue_schemas/messages", json={"messages": [{"value": "x", "key": "k"}]})
    assert answer.status_code == 403


# --- kill -9 ---------------------------------------------------------------------------------------------------


def test_kill_and_restart_keep_everything_and_no_id_is_given_twice(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "data", "--fsync", "always").start()
    ids: dict[int, str] = {}
    for round_ in range(4):
        with httpx.Client(base_url=node.url) as http:
            for number in range(5):
                subject = f"s{round_}-{number}"
                text = json.dumps({"const": f"{round_}-{number}"})
                schema_id = register(http, subject, text).json()["id"]
                assert schema_id not in ids, "an id was given twice"
                ids[schema_id] = text
                if number == 4:  # the newest goes for ever; its id must not come back
                    http.delete(f"/subjects/{subject}").raise_for_status()
                    http.delete(f"/subjects/{subject}?permanent=true").raise_for_status()
            http.put(f"/config/s{round_}-0", json={"compatibility": "FULL"}).raise_for_status()
            http.put(f"/mode/s{round_}-1", json={"mode": "READONLY"}).raise_for_status()
            http.put("/config", json={"compatibility": "FORWARD"}).raise_for_status()
        node.kill()
        node.start()
        with httpx.Client(base_url=node.url) as http:
            for before in range(round_ + 1):
                assert http.get(f"/config/s{before}-0").json() == {"compatibilityLevel": "FULL"}
                assert http.get(f"/mode/s{before}-1").json() == {"mode": "READONLY"}
                assert http.get(f"/subjects/s{before}-4/versions").status_code == 404
            assert http.get("/config").json() == {"compatibilityLevel": "FORWARD"}
            for schema_id, text in ids.items():
                gone = text.endswith('-4"}')
                answer = http.get(f"/schemas/ids/{schema_id}")
                assert answer.status_code == (404 if gone else 200)
                assert gone or answer.json()["schema"] == text
    node.kill()
