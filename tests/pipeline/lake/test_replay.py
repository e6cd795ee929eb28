"""The pipeline `replay`: what was archived comes back as it was, once, and where it left off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from confluent_kafka import Consumer, TopicPartition

from goqueue.pipeline import replay
from goqueue.pipeline.lake import replaying
from goqueue.pipeline.lake.errors import LakeError, NoTable
from goqueue.pipeline.link.errors import TopicNotFound
from goqueue.pipeline.running import Run, Silent, Summary
from goqueue.pipeline.sink.writing import commit_parts
from tests.kafka_messages import place_of
from tests.pipeline.lake.shop import HOUR_MS, NOON_MS, Shop, run_of
from tests.pipeline.topics import Stored, contents, make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

OURS = ("goqueue-replayed-from", "goqueue-replayed-timestamp")
AN_HOUR = {"since": "2025-11-15T13:00:00Z", "until": "2025-11-15T14:00:00Z"}


def run(spark: SparkSession, shop: Shop, *topics: str, **options: str) -> Summary:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return replay.run(spark, run_of(shop.node, shop.lake, *topics, **named), Silent())


def own_headers(one: Stored) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(pair for pair in one.headers if pair[0] not in OURS)


def origin(one: Stored) -> str:
    return dict(one.headers)[OURS[0]].decode()  # type: ignore[union-attr]


def by_key(messages: Iterable[Stored]) -> dict[bytes | None, list[tuple[Any, ...]]]:
    """Values and own headers of each key, in order."""
    found: dict[bytes | None, list[tuple[Any, ...]]] = {}
    for one in messages:
        found.setdefault(one.key, []).append((one.value, own_headers(one)))
    return found


def times(shop: Shop, topic: str) -> dict[tuple[int, int], int]:
    """The time in milliseconds of each message, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": shop.node.kafka, "group.id": "times", "enable.partition.eof": True})
    try:
        return dict(_times(consumer, topic))
    finally:
        consumer.close()


def _times(consumer: Consumer, topic: str) -> Iterator[tuple[tuple[int, int], int]]:
    partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    waiting = len(partitions)
    while waiting:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            yield place_of(message), message.timestamp()[1]
        else:
            waiting -= 1


def test_an_archived_hour_comes_back_the_same(spark: SparkSession, shop: Shop) -> None:
    make_topic(shop.node, "hour", 3, retention_ms=-1)
    done = run(spark, shop, "visits", into="hour", timestamps="original", chunk_rows="40", **AN_HOUR)
    original = times(shop, "visits")
    start, end = NOON_MS + HOUR_MS, NOON_MS + 2 * HOUR_MS
    expected = [one for one in contents(shop.node, "visits") if start <= original[one.partition, one.offset] < end]
    found = contents(shop.node, "hour")
    assert len(expected) == done.rows_out == len(found)
    assert 95 <= len(found) <= 105 and done.batches >= 3
    assert by_key(found) == by_key(expected)
    again = times(shop, "hour")
    for one in found:
        topic, partition, offset = origin(one).split("/")
        assert topic == "visits"
        assert again[one.partition, one.offset] == original[int(partition), int(offset)]
        assert dict(one.headers)[OURS[1]] == str(original[int(partition), int(offset)]).encode()


def test_a_whole_topic_comes_back_once_and_a_repeat_sends_nothing(spark: SparkSession, shop: Shop) -> None:
    make_topic(shop.node, "whole", 3)
    assert run(spark, shop, "orders", into="whole", partitions="same").rows_out == 302
    original, found = contents(shop.node, "orders"), contents(shop.node, "whole")
    assert [(one.partition, one.key, one.value, own_headers(one)) for one in found] == [
        (one.partition, one.key, one.value, one.headers) for one in original
    ]
    assert [origin(one) for one in found] == [f"orders/{one.partition}/{one.offset}" for one in original]
    repeated = run(spark, shop, "orders", into="whole", partitions="same")
    assert repeated.rows_out == 0 and "done already" in repeated.warnings[0]
    assert run(spark, shop, "orders", into="whole", partitions="same", name="second").rows_out == 302
    assert len(contents(shop.node, "whole")) == 604


def test_a_replay_that_was_cut_off_goes_on(spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between chunks, and once in a chunk that was written and not committed."""
    make_topic(shop.node, "cut", 2)
    options = {"into": "cut", "chunk_rows": "60"}
    real = commit_parts
    for fails_at in (2, 1):
        calls = iter(range(10))

        def dying(*given: Any, at: int = fails_at, calls: Iterator[int] = calls) -> None:
            if next(calls) == at:
                raise KeyboardInterrupt
            real(*given)

        with monkeypatch.context() as patched:
            patched.setattr(replaying, "commit_parts", dying)
            with pytest.raises(KeyboardInterrupt):
                run(spark, shop, "orders", **options)
    assert 0 < len(contents(shop.node, "cut")) < 302
    last = run(spark, shop, "orders", **options)
    assert last.facts["sent_before"] + last.rows_out == 302
    assert by_key(contents(shop.node, "cut")) == by_key(contents(shop.node, "orders"))


def test_messages_are_chosen_by_offset_key_and_condition(spark: SparkSession, shop: Shop) -> None:
    def count(topic: str, **options: str) -> int:
        asked = msgspec.structs.replace(run_of(shop.node, shop.lake, topic, **options), dry_run=True)
        return replay.run(spark, asked, Silent()).rows_in

    stored = contents(shop.node, "orders")
    assert count("orders", offsets="orders/1:10-20") == 10
    assert count("orders", offsets="0:5-,2:0-1") == sum(one.partition == 0 for one in stored) - 5 + 1
    assert count("orders", key="customer3") == sum(one.key == b"customer3" for one in stored)
    assert count("orders", where="priority = 1 AND text LIKE '%1%'") == sum(
        own_headers(one)[3:] != () and b"1" in (one.value or b"") for one in stored
    )
    assert count("payments", offsets="0:1-4", where="1 = 0") == 0


def test_a_dry_run_counts_and_shows_and_sends_nothing(spark: SparkSession, shop: Shop) -> None:
    make_topic(shop.node, "dry", 1)
    options = {"into": "dry", "rate": "10", "sample": "2"}
    asked = msgspec.structs.replace(run_of(shop.node, shop.lake, "visits", **options), dry_run=True)
    before = _everything_in(shop.lake)
    told = replay.run(spark, asked, Silent())
    assert told.facts["would_send"] == 300 and told.facts["seconds_at_rate"] == 30
    assert 6 <= told.facts["chunks"] <= 8  # of five seconds' worth each
    assert [row["key"] for row in told.facts["sample"]] == ["v0", "v1"]
    assert contents(shop.node, "dry") == []
    assert _everything_in(shop.lake) == before


def _everything_in(lake: Path) -> list[Path]:
    return sorted(lake.rglob("*"))


@pytest.mark.parametrize(
    ("options", "told", "kind"),
    [
        ({}, "with the option into", LakeError),
        ({"into": "nowhere"}, "There is no .*nowhere", TopicNotFound),
        ({"into": "few", "partitions": "same"}, "few has 1 partitions.*give it 3", LakeError),
        ({"into": "few", "timestamps": "old"}, "timestamps is new or original", LakeError),
        ({"into": "few", "rate": "fast"}, "rate is a whole number", LakeError),
    ],
)
def test_what_cannot_be_replayed_is_told(
    spark: SparkSession, shop: Shop, options: dict[str, str], told: str, kind: type[Exception]
) -> None:
    if "few" not in _topics(shop):
        make_topic(shop.node, "few", 1)
    with pytest.raises(kind, match=told):
        run(spark, shop, "orders", **options)


def _topics(shop: Shop) -> set[str]:
    from goqueue.client import Client

    with Client(shop.node.url) as client:
        return {one.name for one in client.topics()}


def test_a_lake_without_an_archive_is_told(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(NoTable, match="There is no table at"):
        replay.run(spark, Run(None, shop.node.url, ("orders",), str(tmp_path), options={"into": "x"}), Silent())
