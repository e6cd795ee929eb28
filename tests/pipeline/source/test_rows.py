"""What a task reads, when what was planned is there no more by then."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.datasource import InputPartition

from bench.node_process import NodeProcess
from goqueue.client import Client
from goqueue.pipeline.link.errors import OffsetOutOfLog, TopicNotFound
from goqueue.pipeline.link.place import OffsetRange
from goqueue.pipeline.source.rows import SourceReadOptions, TaskSlice, read_slice
from tests.pipeline.topics import fill, make_topic


def _read(node: NodeProcess, ranges: list[OffsetRange], fail_on_loss: bool) -> list[tuple[Any, ...]]:
    how = SourceReadOptions(("topic", "offset"), "read_committed", fail_on_loss, 10.0)
    batches = list(read_slice(TaskSlice(node.kafka, ranges), how))
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def planned(module_node: NodeProcess) -> list[OffsetRange]:
    """Of two topics; then the one loses half of its messages, and the other is deleted."""
    for topic in ("cut", "gone", "whole"):
        fill(module_node, make_topic(module_node, topic, 1), [b"%d" % number for number in range(100)])
    admin = AdminClient({"bootstrap.servers": module_node.kafka})
    for done in admin.delete_records([TopicPartition("cut", 0, 60)]).values():
        done.result(30)
    with Client(module_node.url) as client:
        client.delete_topic("gone")
    return [OffsetRange("cut", 0, 10, 100), OffsetRange("gone", 0, 0, 100), OffsetRange("whole", 0, 0, 100)]


def test_what_went_since_it_was_planned_is_an_error(module_node: NodeProcess, planned: list[OffsetRange]) -> None:
    with pytest.raises(OffsetOutOfLog, match=r"cut/0 is gone.*failOnDataLoss"):
        _read(module_node, planned[:1], fail_on_loss=True)
    with pytest.raises(TopicNotFound, match="gone"):
        _read(module_node, planned, fail_on_loss=True)


def test_or_it_is_skipped_and_warned_of_and_nothing_else_is_missing(
    module_node: NodeProcess, planned: list[OffsetRange], caplog: pytest.LogCaptureFixture
) -> None:
    found = _read(module_node, planned, fail_on_loss=False)
    assert found == [("cut", offset) for offset in range(60, 100)] + [("whole", offset) for offset in range(100)]
    assert "50 offsets of cut/0 are gone" in caplog.text
    assert "the topic gone was deleted" in caplog.text


def test_a_partition_that_spark_made_up_is_empty() -> None:
    how = SourceReadOptions(("value",), "read_committed", True, 1.0)
    assert list(read_slice(InputPartition(None), how)) == []
