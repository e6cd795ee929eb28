"""A small shop's topics, archived once for all tests that only look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Producer

from bench.node_process import NodeProcess
from goqueue.client import Client
from goqueue.client import schemas as calls
from goqueue.pipeline import archive
from goqueue.pipeline.running import Run, Silent, Summary
from tests.pipeline.topics import Row, Stored, contents, fill, make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_MS = 3_600_000
NOON_MS = 1_763_208_000_000  # 2025-11-15T12:00:00Z
ORDER = {"type": "object", "properties": {"id": {"type": "integer"}, "item": {"type": "string"}}}


class Shop(NamedTuple):
    """Three topics, and the lake they were archived to."""

    node: NodeProcess
    lake: Path
    summary: Summary


def open_shop(spark: SparkSession, node: NodeProcess, lake: Path) -> Shop:
    _orders(node)
    _payments(node)
    _visits(node)
    summary = archive.run(spark, run_of(node, lake, "orders", "payments", "visits", **{"max-rows": "200"}), Silent())
    return Shop(node, lake, summary)


def run_of(node: NodeProcess, lake: Path, *topics: str, **options: str) -> Run:
    return Run(node.kafka, node.url, topics, str(lake), options=options)


def register(node: NodeProcess, subject: str, schema: Any, kind: str = "JSON") -> int:
    with Client(node.url) as client:
        found = client.perform(
            calls.register_schema(
                subject, calls.NewSchema(schema if isinstance(schema, str) else json.dumps(schema), kind)
            )
        )
    assert found.id is not None
    return found.id


def _orders(node: NodeProcess) -> None:
    """With a schema that two of them break, and headers."""
    make_topic(node, "orders", 3)
    register(node, "orders-value", ORDER)
    rows = [
        Row(json.dumps({"id": n, "item": f"ä{n}"}).encode(), f"customer{n % 7}".encode(), headers=_headers(n))
        for n in range(300)
    ]
    fill(node, "orders", [*rows[:100], Row(b"no json at all", b"poison"), *rows[100:], Row(b'{"id": "x"}', b"poison")])


def _headers(number: int) -> list[tuple[str, bytes | None]]:
    return [("try", b"%d" % number), ("try", b"again"), ("none", None), ("goqueue-priority", b"1")][: number % 5]


def _payments(node: NodeProcess) -> None:
    """In transactions, every third of which is aborted."""
    make_topic(node, "payments", 2)
    producer = Producer({"bootstrap.servers": node.kafka, "transactional.id": "till"})
    producer.init_transactions(30)
    for transaction in range(12):
        producer.begin_transaction()
        for number in range(10):
            producer.produce("payments", b"%d/%d" % (transaction, number), b"till%d" % (number % 4))
        producer.flush(30)
        if transaction % 3 == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def _visits(node: NodeProcess) -> None:
    """Three hours of them, the clocks of their producers not quite right."""
    make_topic(node, "visits", 2, retention_ms=-1)
    producer = Producer({"bootstrap.servers": node.kafka})
    for number in range(300):
        moment = NOON_MS + number * (3 * HOUR_MS // 300) - (number % 3) * 1000
        headers: list[tuple[str, str | bytes | None]] = [("page", b"%d" % (number % 9))]
        producer.produce("visits", b"\xff%d" % number, b"v%d" % (number % 11), timestamp=moment, headers=headers)
    assert not producer.flush(30)


def archived(spark: SparkSession, lake: Path, topic: str) -> list[Stored]:
    """What the archive holds of a topic, in the form of `contents`."""
    from goqueue.pipeline.lake import read_table

    rows = read_table(spark, f"{lake}/messages", where=f"topic = '{topic}'").collect()
    return sorted(
        Stored(
            row["partition"],
            row["offset"],
            _bytes(row["key"]),
            _bytes(row["value"]),
            tuple((one["key"], _bytes(one["value"])) for one in row["headers"] or ()),
        )
        for row in rows
    )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def check_archived(spark: SparkSession, node: NodeProcess, lake: Path, *topics: str) -> None:
    """Everything that readers of the topic see is in the archive once."""
    for topic in topics:
        assert archived(spark, lake, topic) == contents(node, topic)
