"""A job written for Spark's Kafka source, and the same job here: the format and the address are all that changes."""

from __future__ import annotations

import io
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from bench.node_process import NodeProcess
from tests.pipeline.source.test_fields import KAFKA
from tests.pipeline.topics import Row, contents, fill, make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

WITH_KAFKA = """
from pyspark.sql import functions as F


def job(spark, folder):
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka-1.example.org:9092")
        .option("kafka.group.id", "billing")
        .option("kafka.max.poll.records", "1000")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 400)
        .option("minPartitions", 2)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .load()
    )
    lines = orders.select(
        F.col("key").cast("string").alias("customer"),
        F.get_json_object(F.col("value").cast("string"), "$.amount").cast("double").alias("amount"),
        F.size("headers").alias("headers"),
        "topic",
        "partition",
        "offset",
        "timestamp",
    )
    large = lines.where("amount >= 500")
    query = (
        large.select(F.col("customer").alias("key"), F.to_json(F.struct("amount", "offset")).alias("value"))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", "kafka-1.example.org:9092")
        .option("topic", "large")
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    batch = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", "kafka-1.example.org:9092")
        .option("subscribe", "orders")
        .load()
    )
    totals = batch.groupBy(F.col("key").cast("string").alias("customer")).count().orderBy("customer")
    return batch.schema, [tuple(row) for row in totals.collect()]
"""

WITH_GOQUEUE = """
from pyspark.sql import functions as F


def job(spark, folder):
    orders = (
        spark.readStream.format("goqueue")
        .option("kafka.bootstrap.servers", "goqueue.example.org:9092")
        .option("kafka.group.id", "billing")
        .option("kafka.max.poll.records", "1000")
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 400)
        .option("minPartitions", 2)
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .load()
    )
    lines = orders.select(
        F.col("key").cast("string").alias("customer"),
        F.get_json_object(F.col("value").cast("string"), "$.amount").cast("double").alias("amount"),
        F.size("headers").alias("headers"),
        "topic",
        "partition",
        "offset",
        "timestamp",
    )
    large = lines.where("amount >= 500")
    query = (
        large.select(F.col("customer").alias("key"), F.to_json(F.struct("amount", "offset")).alias("value"))
        .writeStream.format("goqueue")
        .option("kafka.bootstrap.servers", "goqueue.example.org:9092")
        .option("topic", "large")
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    batch = (
        spark.read.format("goqueue")
        .option("kafka.bootstrap.servers", "goqueue.example.org:9092")
        .option("subscribe", "orders")
        .load()
    )
    totals = batch.groupBy(F.col("key").cast("string").alias("customer")).count().orderBy("customer")
    return batch.schema, [tuple(row) for row in totals.collect()]
"""

_CUSTOMERS, _ORDERS = 7, 1_000
_JARS = list((Path(pyspark.__file__).parent / "jars").glob("spark-sql-kafka-*.jar"))


def _tokens(text: str) -> list[str]:
    return [token.string for token in tokenize.generate_tokens(io.StringIO(text).readline)]


def test_the_two_differ_in_the_format_and_the_address_alone() -> None:
    theirs, ours = _tokens(WITH_KAFKA), _tokens(WITH_GOQUEUE)
    assert len(theirs) == len(ours)
    assert {(one, other) for one, other in zip(theirs, ours, strict=True) if one != other} == {
        ('"kafka"', '"goqueue"'),
        ('"kafka-1.example.org:9092"', '"goqueue.example.org:9092"'),
    }


def _run(spark: SparkSession, text: str, address: str, node: NodeProcess, tmp_path: Path) -> None:
    make_topic(node, "orders", 3)
    make_topic(node, "large", 1)
    rows = [
        Row(b'{"amount": %d}' % number, b"customer-%d" % (number % _CUSTOMERS), headers=[("n", b"1")])
        for number in range(_ORDERS)
    ]
    fill(node, "orders", rows)
    module: dict[str, Any] = {}
    exec(text.replace(address, node.kafka), module)
    schema, totals = module["job"](spark, str(tmp_path))
    assert schema == KAFKA
    assert totals == [(f"customer-{one}", len(range(one, _ORDERS, _CUSTOMERS))) for one in range(_CUSTOMERS)]
    places = {row.value: row.offset for row in contents(node, "orders")}
    expected = {
        (
            b"customer-%d" % (number % _CUSTOMERS),
            b'{"amount":%d.0,"offset":%d}' % (number, places[b'{"amount": %d}' % number]),
        )
        for number in range(500, _ORDERS)
    }
    written = contents(node, "large")
    assert {(row.key, row.value) for row in written} == expected
    assert len(written) == len(expected)


def test_the_job_runs_here(spark: SparkSession, node: NodeProcess, tmp_path: Path) -> None:
    _run(spark, WITH_GOQUEUE, "goqueue.example.org:9092", node, tmp_path / "checkpoint")


@pytest.mark.skipif(not _JARS, reason="Spark's Kafka connector is a jar of its own, which is not installed")
def test_the_job_runs_with_sparks_kafka_source_on_the_same_node(
    spark: SparkSession, node: NodeProcess, tmp_path: Path
) -> None:
    _run(spark, WITH_KAFKA, "kafka-1.example.org:9092", node, tmp_path / "checkpoint")
