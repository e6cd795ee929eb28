"""Streams into topics: every row once, whatever is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.functions import col

from bench.node_process import NodeProcess
from tests.pipeline.running import ended, forget_last_commit, run_once
from tests.pipeline.sink.numbers import ROWS, feed, found, into, numbers
from tests.pipeline.topics import contents, make_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = pytest.mark.xdist_group("spark")


def test_every_row_arrives_once(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    topic = make_topic(module_node, "arrives", 3)
    feed(tmp_path / "in", 0, 3)
    query = run_once(into(module_node, topic, numbers(spark, tmp_path / "in")), tmp_path / "checkpoint")
    stored = contents(module_node, topic)
    assert found(stored) == list(range(3 * ROWS))
    assert {int(one.key or b"-1") == int(one.value or b"-1") % 7 for one in stored} == {True}
    assert [progress.sink.numOutputRows for progress in query.recentProgress] == [ROWS] * 3


def test_a_restart_between_the_sinks_commit_and_sparks_note_doubles_nothing(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    topic, checkpoint = make_topic(module_node, "restart", 2), tmp_path / "checkpoint"
    feed(tmp_path / "in", 0, 2)
    run_once(into(module_node, topic, numbers(spark, tmp_path / "in")), checkpoint)
    assert forget_last_commit(checkpoint) == 1
    feed(tmp_path / "in", 2, 1)
    run_once(into(module_node, topic, numbers(spark, tmp_path / "in")), checkpoint)
    assert found(contents(module_node, topic)) == list(range(3 * ROWS))
    again = found(contents(module_node, topic, "read_uncommitted"))
    assert len(again) == 4 * ROWS, "the batch was written a second time, where nobody sees it"


def test_rows_name_their_topic_partition_and_headers(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    make_topic(module_node, "even", 2)
    make_topic(module_node, "odd", 2)
    feed(tmp_path / "in", 0, 1)
    rows = numbers(spark, tmp_path / "in").selectExpr(
        "CAST(n AS STRING) AS value",
        "IF(n % 2 = 0, 'even', 'odd') AS topic",
        "CAST(n % 4 DIV 2 AS INT) AS partition",
        "ARRAY(NAMED_STRUCT('key', 'n', 'value', CAST(CAST(n AS STRING) AS BINARY))) AS headers",
    )
    writer = rows.writeStream.format("goqueue").option("url", module_node.url)
    run_once(writer, tmp_path / "checkpoint")
    even, odd = contents(module_node, "even"), contents(module_node, "odd")
    assert (found(even), found(odd)) == (list(range(0, ROWS, 2)), list(range(1, ROWS, 2)))
    assert all(one.partition == int(one.value or b"") % 4 // 2 for one in even + odd)
    assert all(one.headers == (("n", one.value),) for one in even + odd)


def test_the_complete_mode_appends_every_result_anew(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    """As Spark's Kafka sink does: a topic keeps history."""
    topic = make_topic(module_node, "complete")
    feed(tmp_path / "in", 0, 2)
    counts = numbers(spark, tmp_path / "in").groupBy().count().selectExpr("CAST(count AS STRING) AS value")
    writer = counts.writeStream.format("goqueue").outputMode("complete")
    run_once(writer.option("url", module_node.url).option("topic", topic), tmp_path / "checkpoint")
    assert found(contents(module_node, topic)) == [ROWS, 2 * ROWS]


@pytest.mark.parametrize("by", ["methods", "arguments of start"])
def test_the_update_mode_appends_what_changed(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path, by: str
) -> None:
    """As Spark's Kafka sink does, and exactly once over a restart."""
    topic, checkpoint = make_topic(module_node, f"update-{by[:4]}"), tmp_path / "checkpoint"

    def go_on() -> None:
        counts = numbers(spark, tmp_path / "in").groupBy().count().selectExpr("CAST(count AS STRING) AS value")
        writer = counts.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        if by == "methods":
            query = writer.outputMode("update").format("goqueue").options(url=module_node.url, topic=topic).start()
        else:
            query = writer.start(format="goqueue", outputMode="Update", url=module_node.url, topic=topic)
        ended(query)

    feed(tmp_path / "in", 0, 2)
    go_on()
    assert found(contents(module_node, topic)) == [ROWS, 2 * ROWS]
    assert forget_last_commit(checkpoint) == 1
    feed(tmp_path / "in", 2, 1)
    go_on()
    assert found(contents(module_node, topic)) == [ROWS, 2 * ROWS, 3 * ROWS]


def test_other_formats_keep_their_update_mode(spark: SparkSession, tmp_path: Path) -> None:
    feed(tmp_path / "in", 0, 1)
    counts = numbers(spark, tmp_path / "in").groupBy().count()
    query = run_once(
        counts.writeStream.format("memory").queryName("others_update").outputMode("update"), tmp_path / "checkpoint"
    )
    assert [row["count"] for row in spark.table("others_update").collect()] == [ROWS]
    assert query.exception() is None


def test_a_batch_of_which_nothing_is_left_is_committed_too(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    topic = make_topic(module_node, "nothing-left")
    feed(tmp_path / "in", 0, 3)
    some = numbers(spark, tmp_path / "in").where(f"n < {ROWS} OR n >= {2 * ROWS}")
    run_once(into(module_node, topic, some), tmp_path / "checkpoint")
    assert found(contents(module_node, topic)) == [*range(ROWS), *range(2 * ROWS, 3 * ROWS)]


def test_an_update_mode_stream_goes_through_foreach_batch_just_as_exactly(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    """Spark lets no Python sink take the update mode itself."""
    topic, checkpoint = make_topic(module_node, "update"), tmp_path / "checkpoint"

    def write(frame: DataFrame, batch: int) -> None:
        writer = frame.write.format("goqueue").mode("append").option("url", module_node.url).option("topic", topic)
        writer.option("txnAppId", "update-job").option("txnVersion", batch).save()

    def counts() -> DataStreamWriter:
        grouped = numbers(spark, tmp_path / "in").groupBy((col("n") % 2).alias("odd")).count()
        rows = grouped.selectExpr("CAST(odd AS STRING) AS key", "CAST(count AS STRING) AS value")
        return rows.writeStream.outputMode("update").foreachBatch(write)

    feed(tmp_path / "in", 0, 2)
    run_once(counts(), checkpoint)
    forget_last_commit(checkpoint)
    run_once(counts(), checkpoint)
    half = ROWS // 2
    assert found(contents(module_node, topic)) == [half, half, 2 * half, 2 * half]
