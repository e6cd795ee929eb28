"""The broker's own topics can be read by everybody and changed by nobody, through no route, API or operation.

The requests are made from what the doors say of themselves (OpenAPI, Kafka's definitions, the types of SQS's requests),
so that whatever is added later is tried here too.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from bench.node_process import NodeProcess
from goqueue.base.names import INTERNAL
from goqueue.drive.own_topics import OWN_TOPICS
from goqueue.edge.sqs import schema as sqs_schema
from goqueue.format.batch import read_header, split
from goqueue.wire.api import Api
from goqueue.wire.messages.init_producer_id import InitProducerIdRequest
from tests.door.kafka.raw import APIS_BY_NAME, Line, batch, fetch_from
from tests.wire.samples import DEFINITIONS
from tools.kafka_codec.model import Field, Message, Struct, snake

OWN = sorted(OWN_TOPICS)
INTRUDER = "intruder-in-the-log"

# What may name one of them, because it only reads or moves a reader. All other requests must be refused.
REST_READERS = {
    "POST /groups/{group}/offsets",
    "POST /groups/{group}/offsets/reset",
    "POST /groups/{group}/revoke",
    "POST /transactions/offsets",
}
KAFKA_READERS = {
    "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat",
    "DescribeConfigs",
    "DescribeLogDirs",
    "DescribeProducers",
    "DescribeTopicPartitions",
    "Fetch",
    "ListOffsets",
    "ListPartitionReassignments",
    "Metadata",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetFetch",
    "OffsetForLeaderEpoch",
}
CHANGE = {"cleanup.policy": "delete"}


class Stage:
    """A node with a group, a schema and transactions that would be missed."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node
        self.http = httpx.Client(base_url=node.url, timeout=30)
        made = self.http.post("/topics", json={"name": "mine", "num_partitions": 1})
        assert made.status_code == 201
        commit = {"offsets": [{"topic": "mine", "partition": 0, "offset": 0}]}
        assert self.http.post("/groups/readers/offsets", json=commit).status_code == 200
        schema = {"schema": '{"type": "string"}'}
        assert self.http.post("/subjects/mine-value/versions", json=schema).status_code == 200
        self.producer = self._open_transaction()
        self.before = self.state()

    def _open_transaction(self) -> dict[str, Any]:
        """Open, for an hour: what is refused in it must leave it open."""
        asked = {"transactional_id": "writers", "timeout": "10m", "session_timeout": "10m"}
        made = self.http.post("/producers/init", json=asked).json()
        who = {name: made[name] for name in ("transactional_id", "producer_id", "epoch")}
        assert self.http.post("/transactions/begin", json=who).status_code == 200
        return who

    def state(self) -> dict[str, Any]:
        views = {name: self.http.get(f"/topics/{name}").json() for name in OWN}
        parts = ("id", "num_partitions", "config", "overrides")
        return {name: [view[part] for part in parts] for name, view in views.items()}

    def starts(self) -> dict[str, int]:
        return {name: self.http.get(f"/topics/{name}").json()["partitions"][0]["start_offset"] for name in OWN}

    def check_untouched(self, tried: object) -> None:
        assert self.state() == self.before, tried

    def check_contents(self) -> None:
        """Nothing is in the logs that the broker did not write, and what it keeps there survives."""
        self.http.close()
        self.node.kill()
        self.node.start()
        self.http = httpx.Client(base_url=self.node.url, timeout=30)
        assert self.state() == self.before
        assert self.http.get("/groups/readers/offsets").json()["offsets"]
        assert self.http.get("/subjects/mine-value/versions").json() == [1]
        assert self.http.get("/transactions/writers").status_code == 200
        with Line(self.node.kafka) as line:
            for name in OWN:
                for one in split(_fetched(line, name)):
                    assert not read_header(one).is_control and INTRUDER.encode() not in bytes(one), name


def _fetched(line: Line, topic: str) -> bytes:
    answer = line.ask(fetch_from(topic, 0, 0), 12)
    return bytes(answer.responses[0].partitions[0].records or b"")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with NodeProcess(tmp_path / "data") as node:
        made = Stage(node)
        yield made
        made.http.close()


def test_the_tables_of_own_topics_agree() -> None:
    assert set(OWN) <= INTERNAL, "the others are names that Kafka keeps for itself"


# --- REST ----------------------------------------------------------------------------------------------------


class RestWalk:
    """Every operation of the OpenAPI document, with the name of an own topic wherever a text can stand."""

    def __init__(self, stage: Stage, own: str) -> None:
        self._stage = stage
        self._own = own
        self._document = stage.http.get("/openapi.json").json()

    def requests(self) -> Iterator[tuple[str, str, str, dict[str, Any] | None]]:
        """(operation, method, path, body): each optional field of a body is tried once."""
        for path, methods in self._document["paths"].items():
            for method, described in methods.items():
                for body in self._bodies(described):
                    if "{topic}" in path or (body is not None and self._own in str(body)):
                        filled = path
                        for param in described["parameters"]:
                            value = self._own if param["schema"]["type"] == "string" else "0"
                            filled = filled.replace(f"{{{param['name']}}}", value)
                        yield f"{method.upper()} {path}", method.upper(), filled, body

    def _bodies(self, described: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
        asked = described.get("requestBody")
        if asked is None:
            yield None
            return
        schema = self._resolve(asked["content"]["application/json"]["schema"])
        properties, required = schema["properties"], schema.get("required", [])
        base = {name: self._value(name, properties[name]) for name in required}
        yield base
        for name in properties.keys() - set(required):
            yield {**base, name: self._value(name, properties[name])}
        if "topic" in properties and "messages" in properties:
            yield {**base, **{name: self._value(name, properties[name]) for name in ("topic", "messages")}}

    def _resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            found: dict[str, Any] = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            return found
        return schema

    def _value(self, name: str, schema: dict[str, Any]) -> Any:
        if name in ("producer_id", "epoch", "transactional_id"):
            return self._stage.producer[name]
        if name in ("value", "key"):
            return INTRUDER
        if name == "config":
            return CHANGE
        schema = self._resolve(schema)
        if "anyOf" in schema:
            schema = self._resolve(next(one for one in schema["anyOf"] if one.get("type") != "null"))
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type")
        if kind == "object":
            names = schema.get("properties", {})
            return {one: self._value(one, names[one]) for one in {*schema.get("required", []), *names} & _WITH}
        if kind == "array":
            return [self._value(name, schema["items"])]
        if kind == "integer":
            return 9 if name == "num_partitions" else max(0, schema.get("minimum", 0))
        return {"boolean": False, "number": 0}.get(str(kind), self._own)


_WITH = {"topic", "partition", "offset", "messages", "value", "key", "partitions", "receipt"}


@pytest.mark.parametrize("own", OWN)
def test_no_route_of_rest_changes_one_of_the_brokers_own_topics(stage: Stage, own: str) -> None:
    tried = set()
    starts = stage.starts()
    for operation, method, path, body in RestWalk(stage, own).requests():
        if method == "GET" and "/tail" not in path:
            answer = stage.http.request(method, path)
        elif method != "GET":
            answer = stage.http.request(method, path, json=body)
            if operation not in REST_READERS and not operation.startswith(_OTHER_NAMES):
                assert answer.status_code >= 400 or _refusals(answer), (operation, body, answer.text)
        tried.add(operation)
        stage.check_untouched((operation, body))
    assert {"PATCH /topics/{topic}", "POST /transactions/publish", "POST /groups/{group}/join"} <= tried
    stage.http.post("/transactions/commit", json=stage.producer)
    assert all(stage.starts()[name] >= starts[name] for name in OWN)
    stage.check_contents()


# Routes whose texts name groups, subjects and other things that are no topics.
_OTHER_NAMES = (
    "POST /admin/quotas",
    "DELETE /admin/quotas",
    "POST /admin/users",
    "PATCH /admin/users",
    "DELETE /admin/users",
    "POST /admin/keys",
    "POST /admin/tenants",
    "POST /admin/backups",
    "POST /subjects",
    "POST /compatibility",
    "POST /groups/{group}/leave",
    "POST /groups/{group}/heartbeat",
    "POST /staged",
    "PUT /config",
    "PUT /mode",
    "POST /messages/",
    "POST /producers",
    "POST /transactions/begin",
    "POST /transactions/abort",
)


def _refusals(answer: httpx.Response) -> bool:
    """A publish to many answers for each."""
    results = answer.json().get("results", [])
    return bool(results) and all(one.get("error") is not None for one in results)


def test_no_topic_sends_its_dead_letters_to_one_of_the_brokers_own(stage: Stage) -> None:
    for own in OWN:
        aimed = {"config": {"queue.dead.letter.topic": own}}
        for answer in (
            stage.http.patch("/topics/mine", json=aimed),
            stage.http.post("/topics", json={"name": "another", **aimed}),
            stage.http.post("/topics/mine/dlq/redrive", json={"to": own}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "internal-topic")


# --- Kafka ---------------------------------------------------------------------------------------------------


class KafkaWalk:
    """A request of every API that can name a topic."""

    def __init__(self, own: str, own_id: bytes, producer: tuple[int, int], flag: bool) -> None:
        self._own = own
        self._own_id = own_id
        self._producer = producer
        self._flag = flag

    def request(self, api: Api, version: int) -> Any:
        definition = DEFINITIONS[api.key, "Request"]
        module = import_module(f"goqueue.wire.messages.{snake(api.name)}")
        return self._struct(definition.root, definition, version, module)

    def _struct(self, struct: Struct, definition: Message, version: int, module: Any) -> Any:
        values = {}
        for field in struct.fields:
            if version not in field.versions or field.name in ("assignments", "assignment"):
                continue
            value = self._value(struct, field, definition, version, module)
            values[field.name] = [value] if field.array else value
        return getattr(module, struct.name)(**values)

    def _value(self, struct: Struct, field: Field, definition: Message, version: int, module: Any) -> Any:
        if field.is_struct:
            return self._struct(definition.structs[field.type], definition, version, module)
        if field.type == "string":
            if "Config" in struct.name and field.name in ("name", "value"):
                return next(iter(CHANGE)) if field.name == "name" else CHANGE["cleanup.policy"]
            return "aimed" if field.name.endswith("transactional_id") else self._own
        if field.type == "uuid":
            return self._own_id
        if field.type == "records":
            return batch(INTRUDER.encode())
        if field.type == "bool":
            return self._flag
        return self._number(field)

    def _number(self, field: Field) -> Any:
        name = field.name.removeprefix("v3_and_below_")
        known = {
            "resource_type": 2,
            "count": 9,
            "num_partitions": 3,
            "replication_factor": -1,
            "acks": -1,
            "timeout_ms": 1000,
            "max_bytes": 1 << 20,
            "producer_id": self._producer[0],
            "producer_epoch": self._producer[1],
            "response_partition_limit": 100,
        }
        return b"" if field.type == "bytes" else known.get(name, 0)


def _names_a_topic(definition: Message) -> bool:
    words = {"topic", "topics", "topic_id", "topic_name", "topic_names", "resource_name", "subscribed_topic_names"}
    return any(field.name in words for struct in definition.structs.values() for field in struct.fields)


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            found = getattr(value, name)
            if name.endswith("error_code"):
                yield found
            yield from _codes(found)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _codes(one)


@pytest.mark.parametrize("own", OWN)
def test_no_api_of_kafka_changes_one_of_the_brokers_own_topics(stage: Stage, own: str) -> None:
    tried = set()
    with Line(stage.node.kafka) as line:
        served = {
            one.api_key
            for one in line.ask(import_module("goqueue.wire.messages.api_versions").ApiVersionsRequest()).api_keys
        }
        own_id = bytes.fromhex(stage.http.get(f"/topics/{own}").json()["id"].replace("-", ""))
        for api in APIS_BY_NAME.values():
            if api.key not in served or not _names_a_topic(DEFINITIONS[api.key, "Request"]):
                continue
            for version in {api.min_version, api.max_version}:
                for flag in (False, True):
                    asked = InitProducerIdRequest(transactional_id="aimed", transaction_timeout_ms=60_000)
                    producer = line.ask(asked)
                    walk = KafkaWalk(own, own_id, (producer.producer_id, producer.producer_epoch), flag)
                    answer = line.ask(walk.request(api, version), version)
                    if api.name not in KAFKA_READERS:
                        assert any(_codes(answer)), (api.name, version, flag, answer)
                    tried.add(api.name)
                    stage.check_untouched((api.name, version, flag))
    assert {"IncrementalAlterConfigs", "AlterConfigs", "CreatePartitions", "DeleteRecords", "WriteTxnMarkers"} <= tried
    stage.check_contents()


# --- SQS -----------------------------------------------------------------------------------------------------


def _sqs_operations() -> list[type[sqs_schema.SqsRequest]]:
    kinds = [
        one for one in vars(sqs_schema).values() if isinstance(one, type) and issubclass(one, sqs_schema.SqsRequest)
    ]
    named = {"queue_url", "queue_name", "source_arn"}
    return [one for one in kinds if named & set(one.__struct_fields__) and one is not sqs_schema.OfQueue]


def _sqs_value(kind: Any, name: str, own: str) -> Any:
    texts = {
        "QueueUrl": f"http://localhost/000000000000/{own}",
        "SourceArn": f"arn:aws:sqs:us-east-1:000000000000:{own}",
    }
    origin = typing.get_origin(kind)
    if name == "Attributes":
        return {"VisibilityTimeout": "7"}
    if origin is list:
        (inner,) = typing.get_args(kind)
        return [_sqs_value(inner, name, own)]
    if origin is dict:
        return {own: own}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {one.encode_name: _sqs_value(one.type, one.encode_name, own) for one in _required(kind)}
    return 1 if kind is int else texts.get(name, own)


def _required(kind: Any) -> list[Any]:
    resolved = typing.get_type_hints(kind)
    fields = [one for one in msgspec.structs.fields(kind) if one.required or one.name == "entries"]
    for one in fields:
        one.type = resolved[one.name]
    return fields


@pytest.mark.parametrize("own", OWN)
def test_no_operation_of_sqs_takes_one_of_the_brokers_own_topics_for_a_queue(stage: Stage, own: str) -> None:
    operations = _sqs_operations()
    assert len(operations) > 15
    redrive = f'{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:{own}","maxReceiveCount":"3"}}'
    mine = {"QueueUrl": "http://localhost/000000000000/mine", "Attributes": {"RedrivePolicy": redrive}}
    requests = [
        (one.__name__, {f.encode_name: _sqs_value(f.type, f.encode_name, own) for f in _required(one)})
        for one in operations
    ]
    for name, body in [*requests, ("SetQueueAttributes", mine)]:
        headers = {"X-Amz-Target": f"AmazonSQS.{name}", "Content-Type": "application/x-amz-json-1.0"}
        answer = httpx.post(stage.node.sqs, content=msgspec.json.encode(body), headers=headers)
        assert answer.status_code in (400, 404), (name, body, answer.text)
        stage.check_untouched((name, body))
    stage.check_contents()
