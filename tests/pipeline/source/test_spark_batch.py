"""Batch reads through Spark, against what an independent client wrote."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException

from bench.node_process import NodeProcess
from goqueue.client import Client
from goqueue.client.schemas import NewSchema, register_schema
from tests.pipeline.source.queries import read
from tests.pipeline.source.test_fields import KAFKA
from tests.pipeline.topics import Row, contents, fill, make_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

_ROWS = [
    Row(
        None if number % 50 == 0 else b"value-%d" % number,
        None if number % 7 == 0 else b"key-%d" % (number % 40),
        number % 3,
        [("goqueue-priority", b"high"), ("n", b"%d" % number)] if number % 2 else [],
    )
    for number in range(3_000)
]


@pytest.fixture(scope="module")
def orders(module_node: NodeProcess) -> str:
    topic = make_topic(module_node, "orders", 3)
    fill(module_node, topic, _ROWS)
    return topic


def _places(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select("partition", "offset").collect())


def test_every_message_is_read_once_with_all_its_columns(
    spark: SparkSession, module_node: NodeProcess, orders: str
) -> None:
    frame = read(spark, module_node, subscribe=orders, includeHeaders=True, includeMetadata=True)
    found = sorted(
        (
            row.partition,
            row.offset,
            _bytes(row.key),
            _bytes(row.value),
            tuple((one.key, _bytes(one.value)) for one in row.headers or ()),
        )
        for row in frame.collect()
    )
    assert found == [tuple(stored) for stored in contents(module_node, orders)]
    assert sorted((row[2] or b"", row[3] or b"") for row in found) == sorted(
        (row.key or b"", row.value or b"") for row in _ROWS
    )
    about = frame.selectExpr("min(timestamp)", "max(timestampType)", "sum(int(priority = 1))", "count(traceId)").first()
    assert about is not None
    assert abs((datetime.now() - about[0]).total_seconds()) < 3_600
    assert tuple(about)[1:] == (0, 1_500, 0)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def test_the_schema_is_that_of_sparks_kafka_source(spark: SparkSession, module_node: NodeProcess, orders: str) -> None:
    assert read(spark, module_node, subscribe=orders).schema == KAFKA


def test_a_read_between_offsets_in_several_tasks_and_few_columns(
    spark: SparkSession, module_node: NodeProcess, orders: str
) -> None:
    frame = read(
        spark,
        module_node,
        assign='{"orders": [0, 2]}',
        startingOffsets='{"orders": {"0": 100, "2": -2}}',
        endingOffsets='{"orders": {"0": 300, "2": 50}}',
        minPartitions=4,
        columns="offset,partition",
    )
    assert frame.columns == ["offset", "partition"]
    assert frame.rdd.getNumPartitions() == 4
    assert _places(frame) == [(0, offset) for offset in range(100, 300)] + [(2, offset) for offset in range(50)]


def test_a_topic_without_messages_is_an_empty_table(spark: SparkSession, module_node: NodeProcess) -> None:
    assert read(spark, module_node, subscribe=make_topic(module_node, "empty", 2)).count() == 0


def test_filters_are_pushed_down_when_asked_for(spark: SparkSession, module_node: NodeProcess, orders: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, module_node, subscribe=orders, pushFilters=True, minPartitions=8)
        found = frame.where("partition = 1 and offset >= 10 and offset < 30 and timestamp > '2020-01-01'")
        assert _places(found) == [(1, offset) for offset in range(10, 30)]
        assert found.rdd.getNumPartitions() == 8
        with_key = [(stored[0], stored[1]) for stored in contents(module_node, orders) if stored[2] == b"key-9"]
        assert _places(frame.where("key = binary('key-9')")) == sorted(with_key) != []
        assert frame.where("key = binary('no such key')").count() == 0
        # Nothing is read: Spark makes one empty task, where eight would have been asked for.
        nothing = frame.where("timestamp > timestamp'2100-01-01'")
        assert (nothing.count(), nothing.rdd.getNumPartitions()) == (0, 1)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_filters_without_pushdown_need_no_setting(spark: SparkSession, module_node: NodeProcess, orders: str) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")  # a pipeline in this process may have set it
    assert read(spark, module_node, subscribe=orders).where("partition = 1 and offset < 5").count() == 5
    with pytest.raises(PySparkException, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        read(spark, module_node, subscribe=orders, pushFilters=True).count()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": "orders", "startingOfsets": "earliest"}, "Did you mean 'startingOffsets'"),
        ({"subscribe": "orders", "assign": '{"orders": [0]}'}, "exactly one of"),
        ({"subscribe": "nowhere"}, "There is no topic 'nowhere'"),
    ],
)
def test_bad_input_says_what_to_do(
    spark: SparkSession, module_node: NodeProcess, orders: str, options: Any, told: str
) -> None:
    with pytest.raises(PySparkException, match=told):
        read(spark, module_node, **options).count()
    with Client(module_node.url) as client:
        assert "nowhere" not in {topic.name for topic in client.topics()}


def test_what_was_not_committed_is_not_read(spark: SparkSession, module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "committed", 1)
    for name, commits in (("kept", True), ("dropped", False)):
        producer = Producer({"bootstrap.servers": module_node.kafka, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(100):
            producer.produce(topic, f"{name}-{number}")
        producer.flush(30)
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)
    names = "substring_index(string(value), '-', 1)"
    found = read(spark, module_node, subscribe=topic).selectExpr(f"{names} as name").groupBy("name").count().collect()
    assert [tuple(row) for row in found] == [("kept", 100)]
    assert read(spark, module_node, subscribe=topic, isolation="read_uncommitted").count() == 200


# --- typed columns ------------------------------------------------------------------------------------------------


def _register(node: NodeProcess, subject: str, kind: str, schema: dict[str, Any]) -> int:
    with Client(node.url) as client:
        found = client.perform(register_schema(subject, NewSchema(json.dumps(schema), kind)))
    assert found.id is not None
    return found.id


_BUYER = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": ["integer", "null"]}}}


def test_json_values_become_columns(spark: SparkSession, module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "sales", 1)
    schema = {"type": "object", "properties": {"price": {"type": "number"}, "buyer": _BUYER}, "required": ["price"]}
    _register(module_node, "sales-value", "JSON", schema)
    fill(module_node, topic, [b'{"price": 2.5, "buyer": {"name": "Ann", "age": 41}}', b'{"price": 7}', b"poison"])
    kept = read(spark, module_node, subscribe=topic, schema="registry", mode="permissive", columns="value,offset")
    assert kept.schema.simpleString() == (
        "struct<value:struct<price:double,buyer:struct<name:string,age:bigint>>,offset:bigint,_corrupt_record:binary>"
    )
    found = kept.orderBy("offset").selectExpr("value.price", "value.buyer.age", "string(_corrupt_record)").collect()
    assert [tuple(row) for row in found] == [(2.5, 41, None), (7.0, None, None), (None, None, "poison")]
    with pytest.raises(PySparkException, match=r"sales/0 at offset 2 does not fit.*mode to 'permissive'"):
        read(spark, module_node, subscribe=topic, schema="registry").collect()


def test_avro_values_of_two_versions_become_the_columns_of_the_later(
    spark: SparkSession, module_node: NodeProcess
) -> None:
    topic = make_topic(module_node, "payments", 1, schema_validation="prefix")
    id_field = {"name": "id", "type": "long"}
    at = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0}
    first = _register(module_node, "payments-value", "AVRO", {"type": "record", "name": "P", "fields": [id_field]})
    note = {"name": "note", "type": ["null", "string"], "default": None}
    second = _register(
        module_node, "payments-value", "AVRO", {"type": "record", "name": "P", "fields": [id_field, at, note]}
    )
    framed = [b"\0" + number.to_bytes(4, "big") for number in (first, second)]
    fill(module_node, topic, [framed[0] + b"\x02", framed[1] + b"\x04\x80\x89\x7a\x02\x02y"])
    found = read(spark, module_node, subscribe=topic, schema="registry").orderBy("offset")
    assert found.select("value").schema.simpleString() == "struct<value:struct<id:bigint,at:timestamp,note:string>>"
    rows = found.selectExpr("value.id", "unix_millis(value.at)", "value.note").collect()
    assert [tuple(row) for row in rows] == [(1, None, None), (2, 1_000_000, "y")]


def test_protobuf_values_become_columns(spark: SparkSession, module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "parcels", 1)
    text = 'syntax = "proto3"; message Parcel { int64 id = 1; repeated string tags = 2; }'
    with Client(module_node.url) as client:
        client.perform(register_schema("parcels-value", NewSchema(text, "PROTOBUF")))
    fill(module_node, topic, [b"\x08\x05\x12\x01a", b"\0\0\0\0\x01\0\x08\x06"])
    found = read(spark, module_node, subscribe=topic, schema="registry", columns="value,offset").orderBy("offset")
    rows = found.selectExpr("value.id", "value.tags").collect()
    assert [tuple(row) for row in rows] == [(5, ["a"]), (6, [])]


def test_a_topic_without_a_schema_has_no_types(spark: SparkSession, module_node: NodeProcess, orders: str) -> None:
    with pytest.raises(PySparkException, match="register one as 'orders-value'"):
        read(spark, module_node, subscribe=orders, schema="registry")
