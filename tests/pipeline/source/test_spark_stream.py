"""Streaming reads through Spark, against what an independent client wrote."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.node_process import NodeProcess
from goqueue.client import Client
from tests.pipeline.running import forget_last_commit, run_once
from tests.pipeline.source.queries import Collected, start, stream, until
from tests.pipeline.topics import Row, Stored, contents, fill, make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

_numbers = count()


@pytest.fixture
def topic(module_node: NodeProcess) -> str:
    return make_topic(module_node, f"stream-{next(_numbers)}", 3)


def _fill(node: NodeProcess, topic: str, first: int, last: int) -> None:
    fill(node, topic, [Row(b"%d" % number, b"key-%d" % (number % 10)) for number in range(first, last)])


def _stored(node: NodeProcess, topic: str) -> list[Stored]:
    return [row._replace(headers=()) for row in contents(node, topic)]


def test_trap_6_a_run_that_ends_is_made_of_batches_and_not_one_giant_one(
    spark: SparkSession, module_node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    _fill(module_node, topic, 0, 1_000)
    frame = stream(
        spark, module_node, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=300, group_id="tests"
    )
    found = Collected()
    run_once(frame.writeStream.foreachBatch(found), tmp_path)
    assert [len(found.batches[number]) for number in range(4)] == [300, 300, 300, 100]
    assert found.rows == _stored(module_node, topic)
    with Client(module_node.url) as client:
        assert sum(part.lag or 0 for part in client.group("tests").lag) == 0

    # The next run goes on exactly where this one ended, and the group's lag was to be seen in between.
    _fill(module_node, topic, 1_000, 1_250)
    with Client(module_node.url) as client:
        assert sum(part.lag or 0 for part in client.group("tests").lag) == 250
    run_once(frame.writeStream.foreachBatch(found), tmp_path)
    assert len(found.attempts) == len(set(found.attempts)) == 5
    assert found.rows == _stored(module_node, topic)


def test_trap_1_latest_is_decided_once_and_a_batch_that_is_repeated_is_the_same(
    spark: SparkSession, module_node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    _fill(module_node, topic, 0, 100)
    frame = stream(spark, module_node, subscribe=topic)
    found = Collected()
    run_once(frame.writeStream.foreachBatch(found), tmp_path)
    assert found.rows == []
    _fill(module_node, topic, 100, 200)
    forget_last_commit(tmp_path)  # batch 0 runs again, and 'latest' would mean something else by now
    run_once(frame.writeStream.foreachBatch(found), tmp_path)
    assert found.attempts[:2] == [0, 0]
    assert found.values == sorted(b"%d" % number for number in range(100, 200))


def test_a_stream_that_starts_at_a_time(
    spark: SparkSession, module_node: NodeProcess, topic: str, tmp_path: Path
) -> None:
    _fill(module_node, topic, 0, 50)
    between = int(time.time() * 1000) + 1
    while time.time() * 1000 < between:
        pass
    _fill(module_node, topic, 50, 100)
    # Spark has to hand a limit back as it got it, so one of each kind is set somewhere in these tests.
    frame = stream(spark, module_node, subscribe=topic, startingTimestamp=between, minOffsetsPerTrigger=10)
    found = Collected()
    run_once(frame.writeStream.foreachBatch(found), tmp_path)
    forget_last_commit(tmp_path)
    run_once(frame.writeStream.foreachBatch(found), tmp_path)
    assert found.attempts == [0, 0]
    assert found.values == sorted(b"%d" % number for number in range(50, 100))


def test_trap_2_a_query_that_runs_on_makes_a_batch_for_new_data_only_and_sees_new_partitions_and_topics(
    spark: SparkSession, module_node: NodeProcess, tmp_path: Path
) -> None:
    first = make_topic(module_node, "live-1", 1)
    fill(module_node, first, [b"before"])
    found = Collected()
    query = start(stream(spark, module_node, subscribePattern="live-.*"), found, tmp_path)
    try:
        until(lambda: bool(found.attempts), query)  # 'latest' is decided
        fill(module_node, first, [b"a"])
        until(lambda: found.values == [b"a"], query)
        with Client(module_node.url) as client:
            client.alter_topic(first, partitions=2)
        fill(module_node, first, [Row(b"b", partition=1)])
        until(lambda: found.values == [b"a", b"b"], query)
        fill(module_node, make_topic(module_node, "live-2", 1), [b"c"])
        until(lambda: found.values == [b"a", b"b", b"c"], query)
        until(lambda: "Waiting" in query.status["message"], query)
        progress = query.lastProgress
        assert progress is not None
        behind = progress["sources"][0]
        assert behind["latestOffset"] is not None
    finally:
        query.stop()
    # One for the start, one for each of the three, one more for each where a batch began between topic and message.
    assert len(found.attempts) <= 7
    assert found.topics == {"live-1", "live-2"}
