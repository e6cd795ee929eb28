"""Gaps of the archive held against the log of a real node."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from bench.node_process import NodeProcess
from goqueue.pipeline.lake.gap_task import EXPIRED, EXPLAINED, LOST, UNKNOWN, GapTask
from goqueue.pipeline.link.cluster import cluster
from goqueue.pipeline.link.place import Place
from tests.pipeline.topics import contents, fill, make_topic

NEVER = dt.date.min


def verdicts(task: GapTask, *gaps: tuple[str, int, int]) -> list[tuple[str, int]]:
    """Of gaps from the second number to the third, both included."""
    rows = [{"topic": topic, "partition": 0, "kind": "gap", "start": start, "end": end} for topic, start, end in gaps]
    batch: Any = pa.RecordBatch.from_pylist(rows)
    return [(row["verdict"], row["messages"]) for found in task(iter([batch])) for row in found.to_pylist()]


def task_for(node: NodeProcess, topic: str, expired_before: dt.date = NEVER) -> GapTask:
    place = Place(topic, 0)
    return GapTask(node.kafka, cluster(node.kafka).earliest([place]), expired_before)


def transact(node: NodeProcess, topic: str, name: str, commits: bool) -> None:
    producer = Producer({"bootstrap.servers": node.kafka, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(3):
        producer.produce(topic, b"%d" % number)
    producer.flush(30)
    if commits:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def test_ends_of_transactions_and_aborted_messages_are_explained(module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "gaps-txn")
    transact(module_node, topic, "t1", commits=True)  # 0-2, its end at 3
    transact(module_node, topic, "t2", commits=False)  # 4-6, its end at 7
    fill(module_node, topic, [b"last"])
    assert [one.offset for one in contents(module_node, topic)] == [0, 1, 2, 8]
    task = task_for(module_node, topic)
    assert verdicts(task, (topic, 3, 3), (topic, 4, 7)) == [(EXPLAINED, 0)] * 2


def test_messages_that_the_log_has_are_lost(module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "gaps-lost")
    fill(module_node, topic, [b"%d" % number for number in range(20)])
    task = task_for(module_node, topic)
    assert verdicts(task, (topic, 5, 7), (topic, 10, 10)) == [(LOST, 3), (LOST, 1)]


def test_messages_that_expired_are_not_lost(module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "gaps-expired")
    fill(module_node, topic, [b"%d" % number for number in range(5)])
    task = task_for(module_node, topic, dt.datetime.now(dt.UTC).date() + dt.timedelta(days=2))
    assert verdicts(task, (topic, 1, 3)) == [(EXPIRED, 3)]


def test_what_nobody_can_look_up_is_unknown(module_node: NodeProcess) -> None:
    topic = make_topic(module_node, "gaps-unknown")
    fill(module_node, topic, [b"%d" % number for number in range(10)])
    begins_later = GapTask(module_node.kafka, {Place(topic, 0): 6}, NEVER)
    assert verdicts(begins_later, (topic, 1, 3)) == [(UNKNOWN, 0)]
    assert verdicts(begins_later, (topic, 4, 7)) == [(LOST, 2)]
    assert verdicts(GapTask(None, {}, NEVER), (topic, 1, 3)) == [(UNKNOWN, 0)]
    assert verdicts(task_for(module_node, topic), ("deleted-topic", 1, 3)) == [(UNKNOWN, 0)]
