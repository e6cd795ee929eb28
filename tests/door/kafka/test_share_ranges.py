"""Share consumers take whole batches as ranges; what a message asks for by itself (priority, time to live, trace)
holds for them all the same."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.format.records import NewRecord, build
from tests.door.kafka import raw
from tests.door.kafka.raw import Line, new_topic, unique
from tests.door.kafka.share import (
    ACCEPT,
    BATCH_OPTIMIZED,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    configure,
    produce,
)
from tests.door.sqs.clients import client
from tests.waiting import wait_until

INVALID_RECORD_STATE = 121
Join = Callable[[], ShareMember]


@pytest.fixture
def topic(lone: str) -> str:
    return lone


@pytest.fixture
def http(shared_node: NodeProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared_node.url) as client:
        yield client


def values(count: int, word: bytes = b"v") -> list[bytes]:
    return [b"%s%d" % (word, number) for number in range(count)]


def ranges(told: Any) -> list[tuple[int, int, int]]:
    """What was acquired of the only partition."""
    parts = [part for topic in told.responses for part in topic.partitions]
    return [(one.first_offset, one.last_offset, one.delivery_count) for part in parts for one in part.acquired_records]


def publish(http: httpx.Client, topic: str, *messages: dict[str, Any]) -> None:
    http.post(f"/topics/{topic}/messages", json={"messages": messages}).raise_for_status()


def test_a_fetch_ends_with_the_batch_that_passes_its_limit(line: Line, topic: str, join: Join) -> None:
    for _ in range(3):
        produce(line, topic, *values(10))
    one, other = join(), join()
    told = one.ask_fetch(max_records=12, share_acquire_mode=BATCH_OPTIMIZED)
    assert ranges(told) == [(0, 19, 1)], "two batches in a row are one range"
    assert ranges(other.ask_fetch(max_records=3)) == [(20, 22, 1)], "a limit that has to be kept cuts a batch"
    assert one.outcome({0: [(5, 14, ACCEPT)]}) == 0
    assert one.outcome({0: [(5, 5, ACCEPT)]}) == INVALID_RECORD_STATE
    assert one.outcome({0: [(0, 4, ACCEPT), (15, 19, ACCEPT)]}) == 0
    assert set(other.fetch({0: [(20, 22, ACCEPT)]})) == {(0, offset) for offset in range(23, 30)}


def test_ranges_are_cut_to_the_size_that_the_client_likes_where_a_batch_ends(
    line: Line, topic: str, join: Join
) -> None:
    for _ in range(4):
        produce(line, topic, *values(10))
    told = join().ask_fetch(max_records=40, batch_size=15, share_acquire_mode=BATCH_OPTIMIZED)
    assert ranges(told) == [(0, 19, 1), (20, 39, 1)]


@pytest.mark.parametrize("codec", [0, 1, 3, 4])
def test_a_range_falls_apart_into_its_records(line: Line, topic: str, join: Join, codec: int) -> None:
    line.ask(raw.produce_to(topic, 0, raw.batch(*values(10), codec=codec)), 9)
    one = join()
    assert ranges(one.ask_fetch()) == [(0, 9, 1)]
    assert one.outcome({0: [(0, 2, ACCEPT), (3, 3, RELEASE), (4, 4, REJECT), (5, 7, ACCEPT), (8, 9, RELEASE)]}) == 0
    assert one.fetch() == {(0, 3): (b"v3", 2), (0, 8): (b"v8", 2), (0, 9): (b"v9", 2)}
    assert one.outcome({0: [(3, 3, ACCEPT), (8, 9, ACCEPT)]}) == 0


def test_a_range_whose_lock_ends_goes_to_another(line: Line, topic: str, group: str, join: Join) -> None:
    configure(line, group, share_record_lock_duration_ms="1000")
    produce(line, topic, *values(10))
    one, other = join(), join()
    assert ranges(one.ask_fetch()) == [(0, 9, 1)]
    assert one.outcome({0: [(0, 3, ACCEPT)]}) == 0
    assert ranges(other.ask_fetch(wait_ms=10_000)) == [(4, 9, 2)]
    assert one.outcome({0: [(4, 9, ACCEPT)]}) == INVALID_RECORD_STATE


def test_a_part_of_a_range_is_renewed(line: Line, topic: str, group: str, join: Join) -> None:
    configure(line, group, share_record_lock_duration_ms="1000")
    produce(line, topic, *values(10))
    one, other = join(), join()
    assert ranges(one.ask_fetch()) == [(0, 9, 1)]
    configure(line, group, share_record_lock_duration_ms="60000")
    assert one.outcome({0: [(2, 4, RENEW)]}, is_renew=True) == 0
    wait_until(lambda: other.fetch(wait_ms=500), "the rest came to nobody")
    assert one.outcome({0: [(2, 4, ACCEPT)]}) == 0


def test_a_group_holds_so_many_records_of_a_partition_and_no_more(
    line: Line, topic: str, group: str, join: Join
) -> None:
    configure(line, group, share_partition_max_record_locks="100")
    produce(line, topic, *values(250))
    one, other = join(), join()
    assert ranges(one.ask_fetch(share_acquire_mode=BATCH_OPTIMIZED)) == [(0, 99, 1)]
    assert not other.fetch()
    assert one.outcome({0: [(0, 59, ACCEPT)]}) == 0
    assert ranges(other.ask_fetch(wait_ms=10_000)) == [(100, 159, 1)]


def test_a_waiting_fetch_takes_what_an_answer_made_room_for(line: Line, topic: str, group: str, join: Join) -> None:
    configure(line, group, share_partition_max_record_locks="100")
    produce(line, topic, *values(150))
    one, other = join(), join()
    assert len(one.fetch()) == 100
    other.fetch()
    number = other.line.send(other.request(wait_ms=20_000))
    assert one.outcome({0: [(0, 99, ACCEPT)]}) == 0
    told, answer = other.line.receive()
    assert (told, ranges(answer)) == (number, [(100, 149, 1)])


def test_a_message_with_a_priority_goes_before_a_range(line: Line, topic: str, http: httpx.Client, join: Join) -> None:
    produce(line, topic, *values(50))
    publish(http, topic, {"value": "now", "priority": "critical"})
    one = join()
    assert one.fetch(max_records=1) == {(0, 50): (b"now", 1)}
    assert len(one.fetch({0: [(50, 50, ACCEPT)]})) == 50


def test_a_message_whose_time_is_over_is_passed_over(line: Line, topic: str, http: httpx.Client, join: Join) -> None:
    publish(http, topic, {"value": "old", "ttl": "1ms"}, {"value": "new", "ttl": "1h"})
    over = time.time() + 0.05
    wait_until(lambda: time.time() > over)
    produce(line, topic, b"plain")
    assert join().fetch() == {(0, 1): (b"new", 1), (0, 2): (b"plain", 1)}


def test_a_delayed_message_comes_when_it_is_due(topic: str, http: httpx.Client, join: Join) -> None:
    one = join()
    assert not one.fetch()
    publish(http, topic, {"value": "later", "delay": "300ms"})
    assert [value for value, _ in one.fetch(wait_ms=10_000).values()] == [b"later"]


def test_a_traced_message_is_traced_through_a_share_group(
    line: Line, topic: str, http: httpx.Client, join: Join
) -> None:
    trace_id = uuid.uuid4().hex
    header = (("traceparent", f"00-{trace_id}-b7ad6b7169203331-01".encode()),)
    now = int(time.time() * 1000)
    batch = build([NewRecord(None, b"a", (), now), NewRecord(None, b"b", header, now)], 0)
    line.ask(raw.produce_to(topic, 0, batch), 9)
    one = join()
    assert len(one.fetch()) == 2
    assert one.outcome({0: [(0, 1, ACCEPT)]}) == 0
    wait_until(lambda: "consume.acked" in _names(http, trace_id), lambda: _names(http, trace_id))
    assert _names(http, trace_id)[-2:] == ["consume.fetched", "consume.acked"]


def _names(http: httpx.Client, trace_id: str) -> list[str]:
    return [one["name"] for one in http.get(f"/traces/{trace_id}").json().get("spans", [])]


def test_a_rest_consumer_gets_what_a_range_gave_back(
    line: Line, topic: str, group: str, http: httpx.Client, join: Join
) -> None:
    produce(line, topic, *values(10))
    one = join()
    assert ranges(one.ask_fetch()) == [(0, 9, 1)]
    joined = http.post(f"/groups/{group}/join", json={"client_id": "c", "topics": [topic], "mode": "shared"}).json()
    asked = {"member_id": joined["member_id"], "generation": joined["generation"], "limit": 100, "timeout": "0s"}
    assert not http.get(f"/groups/{group}/poll", params=asked).json()["messages"]
    assert one.outcome({0: [(0, 3, ACCEPT), (4, 5, RELEASE)]}) == 0
    found = http.get(f"/groups/{group}/poll", params=asked).json()["messages"]
    assert [(one["offset"], one["attempt"]) for one in found] == [(4, 2), (5, 2)]


def test_ranges_and_their_answers_outlive_a_kill(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", "--kafka", f"127.0.0.1:{raw.free_port()}", "--fsync", "always") as node:
        with Line(node.kafka) as line:
            line.ask(new_topic("t", 1))
            configure(line, "g", share_auto_offset_reset="earliest")
            produce(line, "t", *values(100))
            produce(line, "t", *values(100))
        one = ShareMember(node.kafka, "g", "t")
        assert ranges(one.ask_fetch(max_records=100)) == [(0, 99, 1)]
        assert one.outcome({0: [(20, 39, ACCEPT)]}) == 0
        node.kill()
        one.close()
        node.start()
        other = ShareMember(node.kafka, "g", "t")
        assert ranges(other.ask_fetch(max_records=100)) == [(100, 199, 1)], "the others are done, or locked"
        one.line, one.epoch = Line(node.kafka), 0
        assert one.beat().error_code == 0
        assert one.fetch() == {}
        assert one.outcome({0: [(0, 19, ACCEPT), (40, 99, ACCEPT)]}) == 0, "the locks outlived the node"
        one.close()
        other.close()


def test_an_sqs_consumer_takes_from_the_same_queue(shared_node: NodeProcess, line: Line) -> None:
    queue, group = unique("q"), "sqs"
    configure(line, group, share_auto_offset_reset="earliest")
    with client(shared_node.sqs) as sqs:
        url = sqs.create_queue(QueueName=queue)["QueueUrl"]
        for body in ("a", "b"):
            sqs.send_message(QueueUrl=url, MessageBody=body)
        one = ShareMember(shared_node.kafka, group, queue)
        assert [value for value, _ in one.fetch(max_records=1).values()] == [b"a"]
        (other,) = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        assert other["Body"] == "b"
        assert not one.fetch()
        assert one.outcome({0: [(0, 0, RELEASE)]}) == 0
        (again,) = sqs.receive_message(QueueUrl=url, AttributeNames=["ApproximateReceiveCount"])["Messages"]
        assert (again["Body"], again["Attributes"]["ApproximateReceiveCount"]) == ("a", "2")
        one.close()
