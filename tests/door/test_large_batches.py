"""Batches whose records the node looks at when they are published: of any size, in their order, and nobody waits."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.base.limits import DELAYED_PER_BATCH_MAX
from goqueue.format.compression import CODECS
from goqueue.format.records import NewRecord, build
from tests.door.kafka.raw import Line, batch, produce_to
from tests.door.test_unreadable import INVALID_RECORD, new_topic, put
from tests.format.bombs import malformed, tiny
from tests.one_of_cluster import a_node

ZSTD = CODECS["zstd"]
CODECS_BY_NAME = {"none": 0, **CODECS}
MANY = 60_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with a_node(tmp_path_factory.mktemp("large") / "data") as running:
        yield running


def code_of(line: Line, topic: str, data: bytes) -> int:
    (told,) = line.ask(produce_to(topic, 0, data), version=9).responses[0].partition_responses
    return int(told.error_code)


@pytest.mark.parametrize("config", [{"cleanup.policy": "compact"}, {"records.check": "full"}, {}], ids=str)
def test_requests_behind_a_large_batch_wait_for_it(node: NodeProcess, config: dict[str, str]) -> None:
    topic = new_topic(node, **config)
    sent = [tiny(MANY, ZSTD, b"k", b"x" * 30), batch(b"small"), tiny(MANY, 0, b"k"), batch(b"small"), batch(b"small")]
    with Line(node.kafka) as line:
        for data in sent:
            line.send(produce_to(topic, 0, data), version=9)
        offsets = [line.receive()[1].responses[0].partition_responses[0].base_offset for _ in sent]
    assert offsets == [0, MANY, MANY + 1, 2 * MANY + 1, 2 * MANY + 2]


def test_a_large_batch_without_an_answer_is_stored_in_its_order(node: NodeProcess) -> None:
    topic = new_topic(node, **{"cleanup.policy": "compact"})
    with Line(node.kafka) as line:
        line.send(produce_to(topic, 0, tiny(MANY, ZSTD, b"k"), acks=0), version=9)
        assert put(line, topic, batch(b"behind")) == MANY


@pytest.mark.parametrize("codec", CODECS_BY_NAME)
def test_a_large_batch_for_a_compacted_topic_needs_keys(node: NodeProcess, codec: str) -> None:
    topic, number = new_topic(node, **{"cleanup.policy": "compact"}), CODECS_BY_NAME[codec]
    keyless = build([NewRecord(b"k", b"v", (), 0)] * MANY + [NewRecord(None, b"v", (), 0)], number)
    with Line(node.kafka) as line:
        assert code_of(line, topic, keyless) == INVALID_RECORD
        assert put(line, topic, tiny(MANY, number, b"k")) == 0


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_delays_are_found_in_large_batches(node: NodeProcess, codec: str) -> None:
    topic, number = new_topic(node), CODECS_BY_NAME[codec]
    plain = [NewRecord(b"k", b"now", (), 0)] * 30_000
    later = NewRecord(b"k", b"later", (("goqueue-delay", b"300"),), int(time.time() * 1000))
    nonsense = NewRecord(b"k", b"never", (("goqueue-delay", b"nonsense"),), 0)
    with Line(node.kafka) as line:
        assert code_of(line, topic, build([*plain, nonsense], number)) == INVALID_RECORD
        assert code_of(line, topic, build([later] * (DELAYED_PER_BATCH_MAX + 1), number)) == INVALID_RECORD
        assert put(line, topic, build([*plain, later, *plain], number)) == 0
    url = f"{node.url}/topics/{topic}/partitions/0/messages"
    found = httpx.get(url, params={"offset": 29_999, "limit": 2}).json()["messages"]
    assert [one["offset"] for one in found] == [29_999, 30_001]
    (arrived,) = httpx.get(url, params={"offset": 60_001, "timeout": "20s"}, timeout=30).json()["messages"]
    assert (arrived["value"], arrived["offset"]) == ("later", 60_001)


def test_a_topic_can_ask_that_every_batch_can_be_read(node: NodeProcess) -> None:
    topic = new_topic(node, **{"records.check": "full"})
    with Line(node.kafka) as line:
        for name, bad in malformed():
            assert code_of(line, topic, bad) != 0, name
        assert put(line, topic, batch(b"good")) == 0
        assert put(line, topic, tiny(MANY, ZSTD)) == 1
