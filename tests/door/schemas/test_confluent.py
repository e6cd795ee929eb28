"""Confluent's Python client and its serializers, unchanged, with a node that checks every message."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from bench.node_process import NodeProcess
from tests.door.kafka.raw import unique
from tests.door.schemas.messages import Line, Order

JSON_TEXT = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "string"}, "price": {"type": "number", "exclusiveMinimum": 0}},
        "required": ["id", "price"],
    }
)
AVRO_TEXT = json.dumps(
    {
        "type": "record",
        "name": "shop.Order",
        "fields": [{"name": "id", "type": "string"}, {"name": "price", "type": ["null", "double"], "default": None}],
    }
)


def codecs(kind: str, client: SchemaRegistryClient) -> tuple[Any, Any, Any]:
    """Serializer, deserializer, and a value."""
    if kind == "JSON":
        value: Any = {"id": "a", "price": 1.5}
        return JSONSerializer(JSON_TEXT, client), JSONDeserializer(JSON_TEXT, schema_registry_client=client), value
    if kind == "AVRO":
        return AvroSerializer(client, AVRO_TEXT), AvroDeserializer(client), {"id": "a", "price": 1.5}
    message_type = Line if kind == "PROTOBUF nested" else Order
    value = Line(count=2) if kind == "PROTOBUF nested" else Order(id="a", lines=[Line(count=1)])
    options = {"use.deprecated.format": False}
    return (
        ProtobufSerializer(message_type, client, options),
        ProtobufDeserializer(message_type, options, client),
        value,
    )


KINDS = ["JSON", "AVRO", "PROTOBUF", "PROTOBUF nested"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_serializer_writes_comes_back_through_kafka(
    kind: str, confluent: Any, schema_node: NodeProcess, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(schema_validation="prefix")
    serializer, _, value = codecs(kind, confluent)
    context = SerializationContext(topic, MessageField.VALUE)
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": schema_node.kafka})
    producer.produce(topic, serializer(value, context), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0 and errors == [None]
    consumer = Consumer(
        {"bootstrap.servers": schema_node.kafka, "group.id": unique("g"), "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None and message.error() is None
    with SchemaRegistryClient({"url": schema_node.url}) as fresh:  # a reader knows nothing but what the registry says
        _, deserializer, _ = codecs(kind, fresh)
        assert deserializer(message.value(), context) == value


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_serializer_writes_comes_back_through_rest(
    kind: str, schema_node: NodeProcess, http: httpx.Client, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(schema_validation="prefix")
    with SchemaRegistryClient({"url": schema_node.url}) as client:
        serializer, deserializer, value = codecs(kind, client)
        context = SerializationContext(topic, MessageField.VALUE)
        written = base64.b64encode(serializer(value, context)).decode()
        message = {"value": written, "encoding": "base64"}
        http.post(f"/topics/{topic}/messages", json={"messages": [message]}).raise_for_status()
        (found,) = http.get(f"/topics/{topic}/messages").json()["messages"]
        raw = base64.b64decode(found["value"]) if found.get("encoding") == "base64" else found["value"].encode()
        assert deserializer(raw, context) == value


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_message_is_refused_by_the_broker(
    kind: str, schema_node: NodeProcess, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(schema_validation="prefix")
    with SchemaRegistryClient({"url": schema_node.url}) as client:
        serializer, _, value = codecs(kind, client)
        good = serializer(value, SerializationContext(topic, MessageField.VALUE))
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": schema_node.kafka})
    for bad in (
        good[:-1],
        good + b"\x05" if kind != "JSON" else good + b"}",
        good[:5] + b"\xff",
        b"\0\0\0\xff\xff" + good[5:],
        b"{}",
    ):
        producer.produce(topic, bad, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(20) == 0
    assert [error and error.code() for error in errors] == [KafkaError.INVALID_RECORD] * 5


def test_keys_have_a_subject_of_their_own(schema_node: NodeProcess, new_topic: Callable[..., str]) -> None:
    topic = new_topic(schema_validation="prefix", schema_key_validation="prefix")
    with SchemaRegistryClient({"url": schema_node.url}) as client:
        key = AvroSerializer(client, '"string"')("k", SerializationContext(topic, MessageField.KEY))
        serializer, _, value = codecs("JSON", client)
        good = serializer(value, SerializationContext(topic, MessageField.VALUE))
        assert {f"{topic}-key", f"{topic}-value"} <= set(client.get_subjects())
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": schema_node.kafka})
    for given in (key, b"plain"):
        producer.produce(topic, good, given, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(20) == 0
    assert errors[0] is None and errors[1] is not None


def test_the_registry_through_the_whole_client(confluent: Any) -> None:
    subject, other = unique("s"), unique("s")
    first, second = Schema('{"type": "number"}', "JSON"), Schema('{"type": "integer"}', "JSON")
    schema_id = confluent.register_schema(subject, first)
    assert confluent.register_schema(subject, first) == schema_id
    assert confluent.register_schema(other, first) == schema_id
    assert confluent.get_schema(schema_id).schema_str == first.schema_str
    assert confluent.lookup_schema(subject, first).version == 1
    assert not confluent.test_compatibility(subject, second)
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.register_schema(subject, second)
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert "TYPE_NARROWED at #" in refused.value.error_message
    confluent.set_compatibility(subject, "FORWARD")
    assert confluent.get_compatibility(subject) == "FORWARD"
    assert confluent.test_compatibility(subject, second)
    assert confluent.register_schema_full_response(subject, second).version == 2
    assert confluent.get_versions(subject) == [1, 2]
    assert confluent.get_latest_version(subject).schema.schema_str == second.schema_str
    assert confluent.get_version(subject, 1).schema_id == schema_id
    assert set(confluent.get_subjects_by_schema_id(schema_id)) >= {subject, other}
    assert confluent.delete_version(subject, 2) == 2
    assert confluent.get_versions(subject) == [1]
    assert confluent.get_versions(subject, deleted=True) == [1, 2]
    assert confluent.delete_version(subject, 2, permanent=True) == 2
    assert confluent.delete_subject(other) == [1]
    assert confluent.delete_subject(other, permanent=True) == [1]
    assert other not in confluent.get_subjects(deleted=True)
    assert confluent.get_schema_types() == ["PROTOBUF", "JSON", "AVRO"]
    assert confluent.get_contexts() == ["."]
    assert confluent.get_global_mode() == "READWRITE"
    assert confluent.update_mode(subject, "READONLY") == "READONLY"
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.register_schema(subject, Schema('{"type": "string"}', "JSON"))
    assert refused.value.error_code == 42205
    assert confluent.delete_mode(subject) == "READONLY"


def test_references_of_every_kind(confluent: Any) -> None:
    inner, outer = unique("s"), unique("s")
    confluent.register_schema(inner, Schema('{"type":"record","name":"shop.Item","fields":[]}', "AVRO"))
    reference = SchemaReference("shop.Item", inner, 1)
    text = '{"type":"array","items":"shop.Item"}'
    outer_id = confluent.register_schema(outer, Schema(text, "AVRO", [reference]))
    assert confluent.get_schema(outer_id).references == [reference]
    assert confluent.get_referenced_by(inner, 1) == [outer_id]
    with pytest.raises(SchemaRegistryError) as refused:
        confluent.delete_subject(inner)
    assert refused.value.error_code == 42206


def test_headers_can_name_the_schema(schema_node: NodeProcess, new_topic: Callable[..., str]) -> None:
    """The serializer that leaves the payload alone and puts the guid into a header."""
    from confluent_kafka.schema_registry import header_schema_id_serializer

    topic = new_topic(schema_validation="header")
    with SchemaRegistryClient({"url": schema_node.url}) as client:
        options = {"schema.id.serializer": header_schema_id_serializer}
        serializer = JSONSerializer(JSON_TEXT, client, conf=options)
        context = SerializationContext(topic, MessageField.VALUE, [])
        written = serializer({"id": "a", "price": 1}, context)
    assert written == b'{"id": "a", "price": 1}' or json.loads(written)
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": schema_node.kafka})
    for value in (written, b"{}"):
        producer.produce(topic, value, headers=context.headers, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(20) == 0
    assert errors[0] is None
    assert errors[1] is not None and errors[1].code() == KafkaError.INVALID_RECORD
