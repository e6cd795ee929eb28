"""Requests of very many small elements: refused before they unfold, or worked on in parts while others are served."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

from bench.node_process import NodeProcess
from goqueue.base.limits import MEMBER_BYTES_MAX, REQUEST_ELEMENTS_MAX
from goqueue.wire.messages import fetch, list_offsets, metadata, offset_commit, produce
from goqueue.wire.messages.api_versions import ApiVersionsRequest
from goqueue.wire.messages.describe_groups import DescribeGroupsRequest
from goqueue.wire.messages.init_producer_id import InitProducerIdRequest
from goqueue.wire.messages.list_transactions import ListTransactionsRequest
from tests.door.kafka import raw
from tests.door.kafka.raw import Line, unique

UNKNOWN_TOPIC = 3
INVALID_REQUEST = 42
UNKNOWN_MEMBER = 25
INVALID_PATTERN = 128
MANY = REQUEST_ELEMENTS_MAX - 1_000


def framed(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", key, version, 7, -1)
    return struct.pack(">i", len(head) + len(body)) + head + body


def two_million_names() -> bytes:
    return framed(3, 4, struct.pack(">i", 2_000_000) + b"\0\1a" * 2_000_000 + b"\0")


def ten_million_partitions() -> bytes:
    head = struct.pack(">hhii", -1, 1, 1000, 1) + b"\0\1t" + struct.pack(">i", 10_000_000)
    return framed(0, 3, head + bytes(8) * 10_000_000)


def half_a_million_fetches() -> bytes:
    head = struct.pack(">iiiibi", -1, 0, 0, 1 << 20, 0, 1) + b"\0\1t" + struct.pack(">i", 500_000)
    return framed(1, 4, head + struct.pack(">iqi", 0, 0, 1) * 500_000)


def a_million_tags() -> bytes:
    body = b"\0" + b"\0" * 4 + b"\x01" + b"\0" + b"\xc0\x84\x3d" + b"\0\0" * 1_000_000
    return framed(9, 8, body)


@pytest.mark.parametrize("make", [two_million_names, ten_million_partitions, half_a_million_fetches, a_million_tags])
def test_too_many_elements_cost_their_connection_and_little_else(
    shared_node: NodeProcess, make: Callable[[], bytes]
) -> None:
    frame = make()
    with Line(shared_node.kafka) as bystander, Line(shared_node.kafka) as line:
        bystander.ask(ApiVersionsRequest("a", "1"))
        busy = shared_node.cpu_seconds()
        with contextlib.suppress(ConnectionError):
            line.socket.sendall(frame)
        assert line.is_closed_by_the_node()
        assert bystander.ask(ApiVersionsRequest("a", "1")).error_code == 0
        assert shared_node.cpu_seconds() - busy < 2


class Bystander:
    """Another client, which asks all the time; counts what it is told between a request and its answer."""

    def __init__(self, kafka: str) -> None:
        self._kafka, self._done, self._answers = kafka, threading.Event(), 0
        self._thread = threading.Thread(target=self._run)
        self.served = 0

    def _run(self) -> None:
        with Line(self._kafka) as line:
            while not self._done.is_set():
                line.ask(ApiVersionsRequest("a", "1"))
                self._answers += 1

    def ask(self, line: Line, request: object, version: int | None = None) -> Any:
        number = line.send(request, version)
        before = self._answers
        line.socket.recv(1, socket.MSG_PEEK)
        self.served = self._answers - before
        told, answer = line.receive()
        assert told == number
        return answer

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def names(other: Bystander, line: Line, topic: str) -> None:
    found = other.ask(line, raw.metadata_of(*(f"{topic}-{number}" for number in range(MANY)), topic))
    assert [one.error_code for one in found.topics] == [UNKNOWN_TOPIC] * MANY + [0]


def empty_partitions(other: Bystander, line: Line, topic: str) -> None:
    data = [produce.PartitionProduceData(number, b"") for number in range(MANY)]
    wanted = produce.TopicProduceData(name=topic, partition_data=data)
    (answer,) = other.ask(line, produce.ProduceRequest(None, -1, 5000, [wanted]), 9).responses
    assert [one.index for one in answer.partition_responses] == list(range(MANY))
    assert all(one.error_code for one in answer.partition_responses)


def fetches(other: Bystander, line: Line, topic: str) -> None:
    parts = [fetch.FetchPartition(number % 3, fetch_offset=0, partition_max_bytes=1) for number in range(MANY)]
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=[fetch.FetchTopic(topic, partitions=parts)])
    (answer,) = other.ask(line, request, 12).responses
    assert len(answer.partitions) == MANY and not any(one.error_code for one in answer.partitions)


def offsets(other: Bystander, line: Line, topic: str) -> None:
    parts = [list_offsets.ListOffsetsPartition(number, -1, -1) for number in range(MANY)]
    request = list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic(topic, parts)])
    (answer,) = other.ask(line, request, 7).topics
    assert [one.error_code for one in answer.partitions[:4]] == [0, 0, 0, UNKNOWN_TOPIC]
    assert len(answer.partitions) == MANY


def commits(other: Bystander, line: Line, topic: str) -> None:
    parts = [
        offset_commit.OffsetCommitRequestPartition(number, 1, committed_metadata="x" * 100) for number in range(MANY)
    ]
    wanted = offset_commit.OffsetCommitRequestTopic(name=topic, partitions=parts)
    request = offset_commit.OffsetCommitRequest(unique("g"), -1, "", None, -1, [wanted])
    (answer,) = other.ask(line, request, 9).topics
    assert [one.error_code for one in answer.partitions[:4]] == [0, 0, 0, UNKNOWN_TOPIC]
    assert len(answer.partitions) == MANY


def groups(other: Bystander, line: Line, topic: str) -> None:
    assert len(other.ask(line, DescribeGroupsRequest([f"g{n}" for n in range(MANY)]), 5).groups) == MANY
    assert len(other.ask(line, DescribeGroupsRequest(["the same"] * MANY), 5).groups) < MANY


@pytest.mark.parametrize("work", [names, empty_partitions, fetches, offsets, commits, groups])
def test_many_elements_are_answered_while_others_are_served(
    kafka: str, topic: str, work: Callable[[Bystander, Line, str], None]
) -> None:
    with Bystander(kafka) as other, Line(kafka) as line:
        work(other, line, topic)
        print(f"\n{work.__name__}: a bystander was served {other.served} times")
        assert other.served >= 5


def test_a_topic_that_is_named_often_is_described_once(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        request = metadata.MetadataRequest([metadata.MetadataRequestTopic(name=topic)] * 900, False)
        assert [one.name for one in line.ask(request).topics] == [topic]


def test_requests_behind_a_large_one_keep_their_order(kafka: str, topic: str) -> None:
    with Line(kafka) as line:
        data = [produce.PartitionProduceData(0, raw.batch(b"%d" % number)) for number in range(1_200)]
        many = produce.ProduceRequest(None, -1, 5000, [produce.TopicProduceData(name=topic, partition_data=data)])
        sent = [line.send(many, 9), line.send(raw.produce_to(topic, 0, raw.batch(b"last")), 9)]
        found = [line.receive() for _ in sent]
        assert [number for number, _ in found] == sent
        first, second = (answer.responses[0].partition_responses for _, answer in found)
        assert [one.base_offset for one in first] == list(range(1_200))
        assert second[0].base_offset == 1_200


def test_a_member_cannot_say_more_about_itself_than_is_sensible(kafka: str, group: str) -> None:
    with Line(kafka) as line:
        assert line.ask(raw.join(group, protocols={"range": bytes(MEMBER_BYTES_MAX)}), 5).error_code == INVALID_REQUEST
        many = {f"p{number}": b"" for number in range(200)}
        assert line.ask(raw.join(group, protocols=many), 5).error_code == INVALID_REQUEST


@pytest.mark.parametrize("pattern", ["(.{0,100}a){100}x", "[", r"(.)\1"])
def test_what_is_no_pattern_or_too_large_a_one_is_refused(kafka: str, group: str, pattern: str) -> None:
    with Line(kafka) as line:
        answer = line.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert answer.error_code == INVALID_PATTERN
        assert line.ask(raw.beat(group, "m", 0, subscribed_topic_regex=pattern), 1).error_code == INVALID_PATTERN


def listed(*numbers: int) -> list_offsets.ListOffsetsRequest:
    parts = [list_offsets.ListOffsetsPartition(number, -1, -1) for number in numbers]
    return list_offsets.ListOffsetsRequest(-1, 0, [list_offsets.ListOffsetsTopic("doubled", parts)])


def test_a_partition_whose_offset_is_asked_for_twice_is_refused_as_often_as_it_is_named(kafka: str) -> None:
    with Line(kafka) as line:
        line.ask(raw.new_topic("doubled", 3))
        (topic,) = line.ask(listed(0, 1, 2, 1)).topics
        assert [one.error_code for one in topic.partitions] == [0, INVALID_REQUEST, 0, INVALID_REQUEST]
        assert [one.partition_index for one in topic.partitions] == [0, 1, 2, 1]
        many = [*range(10_000), 0, 2]  # so many that they are worked on in parts
        (topic,) = line.ask(listed(*many)).topics
        codes = [one.error_code for one in topic.partitions]
        assert [codes[0], codes[1], codes[2], *codes[-2:]] == [INVALID_REQUEST, 0, *[INVALID_REQUEST] * 3]
        assert set(codes[3:-2]) == {UNKNOWN_TOPIC}


def test_very_many_members_leave_in_parts(kafka: str, group: str) -> None:
    with Line(kafka) as line:
        joined = line.ask(raw.join(group), 3)
        names = [f"nobody-{number}" for number in range(30_000)]
        answer = line.ask(raw.leave(group, *names, joined.member_id), 4)
        assert [one.member_id for one in answer.members] == [*names, joined.member_id]
        assert {one.error_code for one in answer.members[:-1]} == {UNKNOWN_MEMBER}
        assert answer.members[-1].error_code == 0


EVIL = ["(a+)+b", ".*.*.*.*.*.*.*.*x", "(a|aa)*b", "(a?){100}a{100}b"]


@pytest.mark.parametrize("pattern", EVIL)
def test_a_pattern_that_other_engines_take_hours_for_takes_a_moment(
    shared_node: NodeProcess, group: str, pattern: str
) -> None:
    name = unique("a" * 200)
    with Line(shared_node.kafka) as line:
        assert line.ask(raw.new_topic(name)).topics[0].error_code == 0
        assert line.ask(InitProducerIdRequest("a" * 900, 60_000), 4).error_code == 0
        busy = shared_node.cpu_seconds()
        assert line.ask(ListTransactionsRequest(transactional_id_pattern=pattern), 2).error_code == 0
        assert line.ask(raw.beat(group, "m", 0, subscribed_topic_regex=pattern), 1).error_code == 0
        assert shared_node.cpu_seconds() - busy < 2
