"""What a query does when the ground gives way: data that is gone, damaged, or a node that is away."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException

from bench.node_process import NodeProcess
from goqueue.client import Client
from tests.long import LONG
from tests.pipeline.running import ended, run_once
from tests.pipeline.source.queries import Collected, read, start, stream, until
from tests.pipeline.topics import fill, make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def _fill(node: NodeProcess, topic: str, first: int, last: int) -> None:
    fill(node, topic, [b"%d" % number for number in range(first, last)])


def _delete_before(node: NodeProcess, topic: str, offset: int) -> None:
    """As retention does."""
    admin = AdminClient({"bootstrap.servers": node.kafka})
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        done.result(30)


def test_retention_that_overtakes_a_slow_query(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    topic = make_topic(module_node, "overtaken", 1)
    _fill(module_node, topic, 0, 100)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    found = Collected()
    run_once(stream(spark, module_node, **options).writeStream.foreachBatch(found), tmp_path)
    _fill(module_node, topic, 100, 200)
    _delete_before(module_node, topic, 150)
    with pytest.raises(PySparkException, match=r"50 offsets of overtaken/0 are gone.*failOnDataLoss to false"):
        run_once(stream(spark, module_node, **options).writeStream.foreachBatch(found), tmp_path)
    lenient = stream(spark, module_node, failOnDataLoss=False, **options).writeStream.foreachBatch(found)
    query = run_once(lenient, tmp_path)
    assert [row.offset for row in found.rows] == [*range(100), *range(150, 200)]
    progress = query.lastProgress
    assert progress is not None
    assert '"lost": {"overtaken": {"0": 50}}' in progress["sources"][0]["endOffset"]


def test_a_topic_that_is_deleted_in_mid_stream(spark: SparkSession, module_node: NodeProcess, tmp_path: Path) -> None:
    stays, goes = make_topic(module_node, "stays", 1), make_topic(module_node, "goes", 1)
    options = {"subscribe": "goes,stays", "startingOffsets": "earliest"}
    _fill(module_node, stays, 0, 10)
    _fill(module_node, goes, 0, 10)
    strict, lenient = Collected(), Collected()
    failing = start(stream(spark, module_node, **options), strict, tmp_path / "strict")
    going = start(stream(spark, module_node, failOnDataLoss=False, **options), lenient, tmp_path / "lenient")
    try:
        until(lambda: len(strict.rows) == 20, failing)
        until(lambda: len(lenient.rows) == 20, going)
        with Client(module_node.url) as client:
            client.delete_topic(goes)
        _fill(module_node, stays, 10, 20)
        with pytest.raises(PySparkException, match="goes/0 is gone"):
            ended(failing)
        until(lambda: len(lenient.rows) == 30, going)
    finally:
        failing.stop()
        going.stop()


def test_a_batch_that_is_damaged_on_disk_is_a_clear_error(spark: SparkSession, node: NodeProcess) -> None:
    topic = make_topic(node, "damaged", 1)
    for _ in range(3):
        fill(node, topic, [b"x" * 500 for _ in range(100)])
    node.stop()
    (segment,) = (node.data_dir / "logs" / topic / "0").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF  # in the second of three batches at least: damage at the tail is cut off by the node
    segment.write_bytes(data)
    node.start()
    with pytest.raises(PySparkException, match=r"damaged/0 at offset \d+ cannot be read"):
        read(spark, node, subscribe=topic).count()


# --- a node that is away ------------------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _survive(spark: SparkSession, tmp_path: Path, while_away: Callable[[Any], None]) -> None:
    address = f"127.0.0.1:{_free_port()}"
    with NodeProcess(tmp_path / "data", "--kafka", address) as node:
        topic = make_topic(node, "away", 2)
        _fill(node, topic, 0, 100)
        found = Collected()
        query = start(stream(spark, node, subscribe=topic, startingOffsets="earliest"), found, tmp_path / "checkpoint")
        try:
            until(lambda: len(found.rows) == 100, query)
            node.kill()
            while_away(query)
            node.start()
            _fill(node, topic, 100, 200)
            until(lambda: len(found.rows) >= 200, query)
        finally:
            query.stop()
    assert found.values == sorted(b"%d" % number for number in range(200))


def test_a_node_that_is_killed_and_started_within_a_query(spark: SparkSession, tmp_path: Path) -> None:
    _survive(spark, tmp_path, lambda query: None)


@pytest.mark.slow
def test_a_node_that_is_down_for_long(spark: SparkSession, tmp_path: Path) -> None:
    def stands_it(query: Any) -> None:
        until = time.monotonic() + (60 if LONG else 12)
        while time.monotonic() < until:
            assert query.isActive, query.exception()
            query.awaitTermination(1)

    _survive(spark, tmp_path, stands_it)


def test_a_node_that_never_comes_is_not_waited_for_longer_than_allowed(spark: SparkSession, tmp_path: Path) -> None:
    nobody = NodeProcess(tmp_path / "data")
    nobody.kafka = f"127.0.0.1:{_free_port()}"
    with pytest.raises(PySparkException, match=rf"No node answered at {nobody.kafka} for 1 s"):
        read(spark, nobody, subscribe="orders", kafkaConsumer_pollTimeoutMs=1_000).count()
