"""Tables into topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.node_process import NodeProcess
from tests.pipeline.sink.numbers import found
from tests.pipeline.topics import contents, make_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def values(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")


def into(node: NodeProcess, topic: str, frame: DataFrame) -> DataFrameWriter:
    return frame.write.format("goqueue").mode("append").option("url", node.url).option("topic", topic)


def test_every_write_appends(spark: SparkSession, module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "appends", 2)
    for _ in range(2):
        into(module_node, topic, values(spark, 30)).save()
    assert found(contents(module_node, topic)) == sorted([*range(30), *range(30)])


def test_a_write_repeated_under_its_name_and_version_changes_nothing(
    spark: SparkSession, module_node: NodeProcess
) -> None:
    topic = make_topic(module_node, "versions")
    for version, count in ((1, 10), (1, 10), (0, 10), (2, 5)):
        writer = into(module_node, topic, values(spark, count))
        writer.option("txnAppId", "nightly").option("txnVersion", version).save()
    assert found(contents(module_node, topic)) == sorted([*range(10), *range(5)])


def test_two_jobs_of_different_names_do_not_touch_each_other(spark: SparkSession, module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "names")
    for name in ("one", "other"):
        into(module_node, topic, values(spark, 4)).option("txnAppId", name).option("txnVersion", "7").save()
    assert found(contents(module_node, topic)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_an_empty_table_writes_nothing(spark: SparkSession, module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "empty")
    into(module_node, topic, values(spark, 5).where("value = 'none'")).save()
    assert contents(module_node, topic) == []


def test_a_table_that_dies_half_way_leaves_nothing_to_see(spark: SparkSession, module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "half-way")
    frame = values(spark, 100).selectExpr("IF(value = '99', raise_error('poison'), value) AS value")
    with pytest.raises(Exception, match="poison"):
        into(module_node, topic, frame).save()
    assert contents(module_node, topic) == []


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("id AS value", "'value' is bigint, but has to be string or binary"),
        ("CAST(id AS STRING) AS value, id AS customer", "A message has no 'customer'"),
        ("CAST(id AS STRING) AS key", "no column 'value'"),
    ],
)
def test_rows_that_cannot_be_messages_are_refused_before_anything_runs(
    spark: SparkSession, columns: str, told: str
) -> None:
    frame = spark.range(1).selectExpr(*columns.split(", "))
    writer = frame.write.format("goqueue").mode("append").option("url", "http://127.0.0.1:9").option("topic", "t")
    with pytest.raises(Exception, match=told):
        writer.save()


def test_a_topic_that_cannot_be_is_named(spark: SparkSession, module_node: NodeProcess) -> None:
    with pytest.raises(Exception, match="no good name"):
        into(module_node, "no good name", values(spark, 1)).save()
