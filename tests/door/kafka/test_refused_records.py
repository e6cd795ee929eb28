"""What Kafka refuses: records without a key or far from the node's time, special times it does not know, names."""

from __future__ import annotations

import time

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.format.records import NewRecord, build
from goqueue.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from goqueue.wire.messages.produce import PartitionProduceResponse
from tests.door.kafka import raw
from tests.door.kafka.raw import Line, unique

HOUR_MS = 3_600_000
INVALID_TOPIC, INVALID_TIMESTAMP, UNSUPPORTED_VERSION, INVALID_RECORD = 17, 32, 35, 87


def made(line: Line, **config: str) -> str:
    name = unique("t")
    named = {key.replace("_", "."): value for key, value in config.items()}
    assert line.ask(raw.new_topic(name, 1, config=named)).topics[0].error_code == 0
    return name


def stored(line: Line, topic: str, *times: int, key: bytes | None = b"k", codec: int = 0) -> PartitionProduceResponse:
    batch = build([NewRecord(key, b"v", (), one) for one in times], codec)
    (found,) = line.ask(raw.produce_to(topic, 0, batch), 9).responses[0].partition_responses
    assert isinstance(found, PartitionProduceResponse)
    return found


def now_ms() -> int:
    return int(time.time() * 1000)


def test_records_without_a_key_are_named_one_by_one(kafka: str) -> None:
    with Line(kafka) as line:
        topic = made(line, cleanup_policy="compact")
        records = [NewRecord(key, b"v", (), now_ms()) for key in (b"a", None, b"b", None)]
        (found,) = line.ask(raw.produce_to(topic, 0, build(records)), 9).responses[0].partition_responses
        assert (found.error_code, found.base_offset) == (INVALID_RECORD, -1)
        assert [one.batch_index for one in found.record_errors] == [1, 3]
        assert all("without key" in (one.batch_index_error_message or "") for one in found.record_errors)
        assert found.error_message


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4], ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_more_than_an_hour_ahead_are_refused(kafka: str, codec: int) -> None:
    with Line(kafka) as line:
        topic = made(line)
        now = now_ms()
        found = stored(line, topic, now, now + 2 * HOUR_MS, now - HOUR_MS, now + 3 * HOUR_MS, codec=codec)
        assert found.error_code == INVALID_TIMESTAMP
        assert [one.batch_index for one in found.record_errors] == [1, 3]
        assert "invalid timestamp" in (found.error_message or "")
        assert stored(line, topic, now + HOUR_MS // 2, 0, codec=codec).error_code == 0, "old ones are taken"


def test_the_bounds_of_times_are_settings_of_the_topic(kafka: str) -> None:
    with Line(kafka) as line:
        now = now_ms()
        wide = made(line, message_timestamp_after_max_ms=str(100 * HOUR_MS))
        assert stored(line, wide, now + 99 * HOUR_MS).error_code == 0
        narrow = made(line, message_timestamp_before_max_ms=str(HOUR_MS))
        found = stored(line, narrow, now, now - 2 * HOUR_MS)
        assert found.error_code == INVALID_TIMESTAMP and [one.batch_index for one in found.record_errors] == [1]
        assert stored(line, narrow, now - HOUR_MS // 2).error_code == 0
        brokers = made(line, message_timestamp_type="LogAppendTime")
        assert stored(line, brokers, now + 99 * HOUR_MS).error_code == 0


def test_the_same_bounds_hold_over_rest(shared_node: NodeProcess, topic: str) -> None:
    ahead = {"value": "v", "timestamp": now_ms() + 2 * HOUR_MS}
    answer = httpx.post(f"{shared_node.url}/topics/{topic}/messages", json={"messages": [ahead]})
    assert answer.status_code == 400 and "out of range" in answer.text


@pytest.mark.parametrize(
    ("timestamp", "version", "code", "offset"),
    [
        (-1, 7, 0, 2),
        (-2, 7, 0, 0),
        (-3, 7, 0, 1),
        (-3, 6, UNSUPPORTED_VERSION, -1),
        (-4, 8, 0, 0),
        (-4, 7, UNSUPPORTED_VERSION, -1),
        (-5, 9, 0, -1),
        (-5, 8, UNSUPPORTED_VERSION, -1),
        (-6, 10, UNSUPPORTED_VERSION, -1),
        (-7, 10, UNSUPPORTED_VERSION, -1),
        (-(1 << 62), 10, UNSUPPORTED_VERSION, -1),
    ],
)
def test_special_times_mean_what_they_mean_in_kafka(
    kafka: str, topic: str, timestamp: int, version: int, code: int, offset: int
) -> None:
    with Line(kafka) as line:
        for value in (b"a", b"b"):
            line.ask(raw.produce_to(topic, 0, raw.batch(value, timestamp_ms=1_000 if value == b"a" else 2_000)), 9)
        found = line.ask(raw.offsets_of(topic, 0, timestamp), version).topics[0].partitions[0]
        assert (found.error_code, found.offset) == (code, offset)


def test_names_that_differ_in_dots_and_underscores_alone_collide(shared_node: NodeProcess) -> None:
    name = unique("a.b_c")
    other = name.replace(".", "_")
    with Line(shared_node.kafka) as line:
        assert line.ask(raw.new_topic(name)).topics[0].error_code == 0
        refused = line.ask(raw.new_topic(other)).topics[0]
        assert refused.error_code == INVALID_TOPIC and "collides" in (refused.error_message or "")
        checked = CreateTopicsRequest([CreatableTopic(other, 1, 1)], validate_only=True)
        assert line.ask(checked).topics[0].error_code == INVALID_TOPIC
        assert line.ask(raw.metadata_of(other, create=True)).topics[0].error_code == INVALID_TOPIC
        pair = [CreatableTopic(f"{name}{mark}x", 1, 1) for mark in "._"]
        assert [one.error_code for one in line.ask(CreateTopicsRequest(pair)).topics] == [0, INVALID_TOPIC]
    assert httpx.post(f"{shared_node.url}/topics", json={"name": other}).status_code == 400
    assert httpx.delete(f"{shared_node.url}/topics/{name}").is_success
    assert httpx.post(f"{shared_node.url}/topics", json={"name": other}).is_success, "the name is free again"


@pytest.mark.parametrize(
    "name", ["__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"]
)
def test_kafkas_own_names_are_refused(shared_node: NodeProcess, name: str) -> None:
    with Line(shared_node.kafka) as line:
        assert line.ask(raw.new_topic(name)).topics[0].error_code == INVALID_TOPIC
    assert httpx.post(f"{shared_node.url}/topics", json={"name": name}).status_code in (400, 403)
