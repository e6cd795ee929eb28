"""Batches that cannot be read, under right CRCs, and bombs: every reader says so, goes on, and stays small."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.base.limits import MIB
from goqueue.client import Client
from goqueue.format.batch import read_header
from goqueue.format.compression import CODECS
from tests.door.kafka.raw import Line, batch, fetch_from, offsets_of, produce_to, unique
from tests.door.members import Member
from tests.door.sqs.clients import client
from tests.format.bombs import bomb, header_bomb, malformed, sealed, tiny
from tests.format.by_hand import record
from tests.long import LONG
from tests.one_of_cluster import a_node
from tests.waiting import let_pass, stretched

INVALID_RECORD = 87
BAD = list(malformed())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with a_node(tmp_path_factory.mktemp("unreadable") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def spoiled(node: NodeProcess) -> str:
    """A topic with a good message before and behind every batch that is not."""
    topic = new_topic(node)
    with Line(node.kafka) as line:
        for name, bad in BAD:
            put(line, topic, batch(f"before {name}".encode(), timestamp_ms=1_000))
            put(line, topic, bad)
        put(line, topic, batch(b"the end", timestamp_ms=2_000))
    return topic


def new_topic(node: NodeProcess, **config: object) -> str:
    topic = unique("unreadable")
    body = {"name": topic, "num_partitions": 1, "config": {"retention.ms": -1, **config}}
    httpx.post(f"{node.url}/topics", json=body).raise_for_status()
    return topic


def put(line: Line, topic: str, data: bytes) -> int:
    """The batch's offset."""
    (told,) = line.ask(produce_to(topic, 0, data), version=9).responses[0].partition_responses
    assert told.error_code == 0, told.error_message
    return int(told.base_offset)


GOOD = [*(f"before {name}" for name, _ in BAD), "the end"]
SKIPPED = sum(read_header(bad).record_count for _, bad in BAD)


def pages(node: NodeProcess, topic: str, limit: int, start: int = 0) -> tuple[list[str], int]:
    """All values from an offset on, and how many offsets were said to be passed over."""
    values: list[str] = []
    skipped = 0
    while True:
        url = f"{node.url}/topics/{topic}/partitions/0/messages"
        answer = httpx.get(url, params={"offset": start, "limit": limit}, timeout=60)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        values += [one["value"] for one in page["messages"]]
        skipped += sum(one["last_offset"] - one["first_offset"] + 1 for one in page.get("skipped", []))
        if page["next_offset"] == start:
            return values, skipped
        start = page["next_offset"]


@pytest.mark.parametrize("limit", [1, 1_000])
def test_a_read_goes_on_behind_what_cannot_be_read_and_says_so(node: NodeProcess, spoiled: str, limit: int) -> None:
    assert pages(node, spoiled, limit) == (GOOD, SKIPPED)


def test_a_read_from_the_middle_of_what_cannot_be_read_goes_on(node: NodeProcess, spoiled: str) -> None:
    assert pages(node, spoiled, 10, 2) == (GOOD[1:], SKIPPED - 1)
    answer = httpx.get(f"{node.url}/topics/{spoiled}/messages", params={"from": "0:0", "limit": 2})
    (skip,) = answer.json()["skipped"]
    assert (skip["partition"], skip["first_offset"], skip["last_offset"]) == (0, 1, 3)
    assert "cannot be read" in skip["reason"]


def test_a_tail_goes_on_and_says_so(node: NodeProcess, spoiled: str) -> None:
    kinds: list[str] = []
    values: list[str] = []
    cursor = 0
    url = f"{node.url}/topics/{spoiled}/tail"
    with httpx.stream("GET", url, params={"from": "earliest"}, timeout=60) as answer:
        for text in answer.iter_lines():
            if text.startswith("id: "):
                reached = int(text.partition("0:")[2])
                assert reached >= cursor
                cursor = reached
            elif text.startswith("event: "):
                kinds.append(text.removeprefix("event: "))
            elif text.startswith("data: ") and kinds[-1] == "message":
                values.append(json.loads(text.removeprefix("data: "))["value"])
                if values[-1] == "the end":
                    break
    assert values == GOOD
    assert kinds.count("skipped") == len(BAD)
    assert set(kinds) == {"message", "skipped"}


def test_a_queue_hands_out_the_others(node: NodeProcess, spoiled: str) -> None:
    member = Member(node.url, unique("g"), spoiled)
    try:
        values: list[str] = []
        while len(values) < len(GOOD):
            told = member.ask_poll("20s")
            assert told.status_code == 200, told.text
            assert told.json()["messages"], (values[-1], told.json(), node.stderr[-3000:])
            values += [one["value"] for one in told.json()["messages"]]
            receipts = [one["receipt"] for one in told.json()["messages"]]
            httpx.post(f"{node.url}/messages/ack", json={"receipts": receipts}).raise_for_status()
        assert values == GOOD
    finally:
        member.close()
    with client(node.sqs) as sqs:
        url = sqs.get_queue_url(QueueName=spoiled)["QueueUrl"]
        received: list[str] = []
        while len(received) < len(GOOD):
            found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=20)["Messages"]
            received += [one["Body"] for one in found]
        assert received == GOOD


def test_kafka_finds_times_and_bytes_as_they_are(node: NodeProcess, spoiled: str) -> None:
    with Line(node.kafka) as line:
        (found,) = line.ask(offsets_of(spoiled, 0, 1_500), version=6).topics[0].partitions
        assert found.timestamp == 2_000
        (part,) = line.ask(fetch_from(spoiled, 0, 1), version=11).responses[0].partitions
        assert BAD[0][1][61:] in bytes(part.records)


def test_metrics_and_the_command_line_tell(node: NodeProcess, spoiled: str) -> None:
    pages(node, spoiled, 1_000)
    command = [sys.executable, "-c", "from goqueue.cli import main; main()"]
    shown = subprocess.run(
        [*command, "consume", spoiled, "--server", node.url], capture_output=True, text=True, timeout=100, check=True
    )
    assert shown.stdout.splitlines() == GOOD
    assert shown.stderr.count("were passed over") == len(BAD)
    dumped = subprocess.run(
        [*command, "log", "dump", str(node.data_dir / "logs" / spoiled / "0"), "--records"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert dumped.returncode == 1
    assert dumped.stdout.count("DAMAGED") == len(BAD)
    assert all(value in dumped.stdout for value in GOOD)
    with Client(node.url) as reader:
        page = reader.read(spoiled, limit=1_000)
        assert ([one.text for one in page], len(page.skipped)) == (GOOD, len(BAD))
    told = httpx.get(f"{node.url}/metrics").text
    name = f'goqueue_broker_unreadable_total{{topic="{spoiled}"}} '
    (count,) = [line.removeprefix(name) for line in told.splitlines() if line.startswith(name)]
    assert float(count) >= len(BAD)


def test_a_bomb_is_refused_by_its_header(node: NodeProcess) -> None:
    topic = new_topic(node)
    with Line(node.kafka) as line:
        for bad in (bomb(38_000_000), sealed(bytes(70), 11)):
            (told,) = line.ask(produce_to(topic, 0, bad), version=9).responses[0].partition_responses
            assert told.error_code == INVALID_RECORD


def test_bombs_neither_swell_the_node_nor_stop_it(node: NodeProcess) -> None:
    topics = [new_topic(node, **config) for config in ({}, {"cleanup.policy": "compact"}, {"trace": "on"})]
    large = sealed(record(0, 0, b"k", bytes(60 * MIB)), 1, CODECS["zstd"])
    bombs = [bomb(1_000_000), tiny(300_000, CODECS["zstd"], b"k"), header_bomb(20_000_000), large]
    before = node.rss_bytes()
    worst = [0]

    def attack(topic: str) -> None:
        with Line(node.kafka) as line, client(node.sqs) as sqs:
            for bad in bombs:
                line.ask(produce_to(topic, 0, bad), version=9)
            put(line, topic, batch(b"good"))
            line.ask(offsets_of(topic, 0, 900), version=6)
            params: dict[str, int | str] = {"limit": 1, "isolation": "read_uncommitted"}
            for offset in (0, 999_999, 1_200_000):
                url = f"{node.url}/topics/{topic}/partitions/0/messages"
                assert httpx.get(url, params={**params, "offset": offset}, timeout=120).status_code in (200, 416)
            url = sqs.get_queue_url(QueueName=topic)["QueueUrl"]
            sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)

    with ThreadPoolExecutor(3) as pool:
        attacks = [pool.submit(attack, topic) for topic in topics]
        slowest = 0.0
        while not all(one.done() for one in attacks):
            began = time.monotonic()
            httpx.get(f"{node.url}/healthz", timeout=60).raise_for_status()
            slowest = max(slowest, time.monotonic() - began)
            worst[0] = max(worst[0], node.rss_bytes())
            let_pass(0.02)
        for one in attacks:
            one.result()
    assert worst[0] - before < 1_000 * MIB
    assert slowest < stretched(5)  # half a minute and more without the bounds


@pytest.mark.parametrize("codec", ["none", "zstd", "gzip"])
def test_very_many_tiny_records_in_a_batch_are_read_by_everybody(node: NodeProcess, codec: str) -> None:
    topic, count = new_topic(node), 100_000 if LONG or codec == "zstd" else 30_000
    with Line(node.kafka) as line:
        put(line, topic, tiny(count, CODECS.get(codec, 0), value=b"v"))
    assert pages(node, topic, 10_000) == (["v"] * count, 0)
    answer = httpx.get(f"{node.url}/topics/{topic}/partitions/0/messages", params={"offset": 27_777, "limit": 1})
    assert (answer.json()["messages"][0]["offset"], answer.json()["next_offset"]) == (27_777, 27_778)
    member = Member(node.url, unique("g"), topic)
    try:
        seen = 0
        while seen < count:
            found = member.ask_poll("20s", limit=10_000).json()["messages"]
            assert [one["offset"] for one in found] == list(range(seen, seen + len(found)))
            receipts = [one["receipt"] for one in found]
            httpx.post(f"{node.url}/messages/ack", json={"receipts": receipts}, timeout=60).raise_for_status()
            seen += len(found)
    finally:
        member.close()
