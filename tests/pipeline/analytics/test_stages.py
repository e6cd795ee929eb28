"""Stages worked out by Spark against what the teller of the lives noted."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from goqueue.pipeline.analytics.stages import stages
from goqueue.pipeline.analytics.trace_events import EVENT
from tests.pipeline.analytics.lives import MICRO, Measured, Teller

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")


def frame_of(spark: SparkSession, teller: Teller) -> DataFrame:
    return spark.createDataFrame([tuple(event.values()) for event in teller.events], EVENT)


def nanos(moment: datetime) -> int:
    return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * MICRO


def test_every_stage_of_every_life_is_measured_once(spark: SparkSession) -> None:
    teller = Teller(seed=11)
    teller.tell(300, span_s=7_200)
    found = Counter(
        Measured(row.trace_id, row.stage, row.topic, row.group, nanos(row.at), row.took_us)
        for row in stages(frame_of(spark, teller)).collect()
    )
    expected = Counter(teller.expected)
    assert found - expected == Counter()
    assert expected - found == Counter()
    assert {one.stage for one in expected} == {
        "publish.validate",
        "publish.persist",
        "publish.deliver",
        "delay.wait",
        "delay.late",
        "lease.ack",
        "lease.fail",
        "lease.timeout",
        "lease.release",
        "redeliver",
        "dlq.bury",
        "dlq.wait",
        "txn.end",
        "total",
    }


def test_messages_that_share_a_producers_trace_are_told_apart(spark: SparkSession) -> None:
    teller = Teller(seed=12, topics=("orders",))
    teller.tell(40, span_s=5)
    shared = "a" * 32
    for event in teller.events:
        event["trace_id"] = shared
    found = Counter((row.stage, row.took_us) for row in stages(frame_of(spark, teller)).collect())
    assert found == Counter((one.stage, one.took_us) for one in teller.expected)


def test_an_event_whose_origin_cannot_be_read_hurts_nobody(spark: SparkSession) -> None:
    teller = Teller(seed=13)
    at = ("orders.dlq", 0, 0)
    teller.event("b" * 32, "dlq.routed", 5, 5, at, from_="somewhere")
    teller.event("b" * 32, "dlq.routed", 5, 5, at)
    teller.event("b" * 32, "dlq.redriven", 9_000, 9_000, ("orders", 0, 1), from_="orders.dlq:0:0")
    rows = stages(frame_of(spark, teller)).collect()
    assert [(row.stage, row.took_us) for row in rows] == [("dlq.wait", 8)]
