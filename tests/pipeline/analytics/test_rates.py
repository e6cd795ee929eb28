"""Windows counted by Spark against plain Python, on messages from a seed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.pipeline.analytics.rates import rates, traffic, window_ms
from goqueue.pipeline.link.errors import PipelineError
from tests.pipeline.analytics.rows import frame_of, millis, moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

START_MS = 1_767_225_600_000 - 90_000  # before midnight, so that windows fall into two days
KEYS_ERROR = 0.05


def made(seed: int, count: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "topic": chance.choice(("orders", "mails")),
            "partition": chance.randrange(2),
            "offset": number,
            "timestamp": moment(START_MS + chance.randrange(180_000)),
            "priority": chance.choice((0, 2, 2, 4)),
            "key": None if chance.random() < 0.1 else f"user-{chance.randrange(40)}".encode(),
            "value": None if chance.random() < 0.05 else chance.randbytes(chance.randrange(200)),
        }
        for number in range(count)
    ]


def test_windows_by_topic_partition_and_lane(spark: SparkSession) -> None:
    rows = made(31, 3_000)
    counts: Counter[tuple[Any, ...]] = Counter()
    sizes: Counter[tuple[Any, ...]] = Counter()
    keys: dict[tuple[Any, ...], set[bytes]] = defaultdict(set)
    for row in rows:
        at = (millis(row["timestamp"]) // 10_000 * 10_000, row["topic"], row["partition"], row["priority"])
        counts[at] += 1
        sizes[at] += len(row["key"] or b"") + len(row["value"] or b"")
        keys[at] |= {row["key"]} - {None}
    found = rates(frame_of(spark, rows), "10s").collect()
    places = {(millis(row.start), row.topic, row.partition, row.lane): row for row in found}
    assert {at: row.messages for at, row in places.items()} == counts
    assert {at: row.bytes for at, row in places.items()} == sizes
    assert all(abs(row["keys"] - len(keys[at])) <= KEYS_ERROR * len(keys[at]) for at, row in places.items())
    assert all(row.messages_per_second == row.messages / 10 for row in found)
    assert {row.date.isoformat() for row in found} == {"2025-12-31", "2026-01-01"}


def test_topics_add_up_and_keys_in_two_lanes_count_once(spark: SparkSession) -> None:
    rows = made(32, 1_000)
    expected = Counter((row["topic"], millis(row["timestamp"]) // 60_000) for row in rows)
    keys: dict[tuple[Any, ...], set[bytes]] = defaultdict(set)
    for row in rows:
        keys[row["topic"], millis(row["timestamp"]) // 60_000] |= {row["key"]} - {None}
    found = {(row.topic, millis(row.start) // 60_000): row for row in traffic(rates(frame_of(spark, rows))).collect()}
    assert {at: row.messages for at, row in found.items()} == expected
    assert {at: row["keys"] for at, row in found.items()} == {at: len(some) for at, some in keys.items()}


def test_without_metadata_the_lane_is_unknown(spark: SparkSession) -> None:
    frame = frame_of(spark, made(33, 10)).drop("priority")
    assert {row.lane for row in rates(frame, "1d").collect()} == {None}


@pytest.mark.parametrize("text", ["0s", "7s", "2d", "soon"])
def test_a_window_divides_a_day(text: str) -> None:
    with pytest.raises(PipelineError):
        window_ms(text)
