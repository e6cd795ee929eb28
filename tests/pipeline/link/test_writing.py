"""Writing rows into a transaction: what is committed is there once, in order, where Kafka's clients would put it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from bench.node_process import NodeProcess
from goqueue.format.batch import read_header, split
from goqueue.pipeline.arrow.columns import HEADERS, TYPES
from goqueue.pipeline.arrow.encode import BatchProducer
from goqueue.pipeline.link import producing, writing
from goqueue.pipeline.link.cluster import Place
from goqueue.pipeline.link.errors import BrokerRefused, Fenced, NodeUnreachable, PipelineError, TopicNotFound
from goqueue.pipeline.link.writing import StagedWriter
from tests.pipeline.arrow.some_records import when
from tests.pipeline.link.shop import Txn, fixed_ports, new_topic, stock_producer, stock_read
from tests.pipeline.link.tunnel import Tunnel

pytestmark = pytest.mark.usefixtures("watched")

WAIT_S = 30


def writer(node: NodeProcess, txn: Txn, topic: str | None, kafka: str | None = None, **more: Any) -> StagedWriter:
    return StagedWriter(kafka or node.kafka, txn.id, BatchProducer(txn.producer_id, txn.epoch), topic, **more)


def values(start: int, end: int, size: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"value": [b"%d" % at + b"." * size for at in range(start, end)]})


def stored(node: NodeProcess, topic: str, partition: int = 0, isolation: str = "read_committed") -> list[Any]:
    return [one.value() for one in stock_read(node, Place(topic, partition), isolation)]


def test_rows_are_seen_when_the_transaction_is_committed_and_not_before(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    txn = Txn(shared)
    one = writer(shared, txn, topic)
    one.write(values(0, 500))
    one.write(values(500, 900))
    assert one.close() == {Place(topic, 0): 900}
    assert stored(shared, topic) == []
    assert len(stored(shared, topic, isolation="read_uncommitted")) == 900
    txn.end("commit")
    assert stored(shared, topic) == [b"%d" % at for at in range(900)]


def test_rows_of_an_aborted_transaction_are_never_seen(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    txn = Txn(shared)
    one = writer(shared, txn, topic)
    one.write(values(0, 500))
    one.close()
    txn.end("abort")
    assert stored(shared, topic) == []


def pair(value: str | None) -> dict[str, Any]:
    return {"key": "h", "value": None if value is None else value.encode()}


def test_every_column_arrives(shared: NodeProcess) -> None:
    topic, other = new_topic(shared, 3), new_topic(shared)
    txn = Txn(shared)
    rows = pa.record_batch(
        {
            "topic": [topic, other, topic, topic],
            "partition": pa.array([2, None, None, 2], pa.int32()),
            "key": pa.array(["a", None, "b", None]),
            "value": pa.array(["x", "y", None, ""]),
            "timestamp": pa.array([when(5_000), when(6_000), when(7_000), None], TYPES["timestamp"]),
            HEADERS: pa.array([[pair("1"), pair(None)], None, [], None], TYPES[HEADERS]),
        }
    )
    one = writer(shared, txn, None)
    one.write(rows)
    one.write(rows.slice(0, 0))
    counts = one.close()
    txn.end("commit")
    assert sum(counts.values()) == 4 and counts[Place(topic, 2)] >= 2 and counts[Place(other, 0)] == 1
    there = stock_read(shared, Place(topic, 2))
    first, last = there[0], there[-1]
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"a", b"x", 5_000)
    assert first.headers() == [("h", b"1"), ("h", None)]
    assert (last.key(), last.value(), last.headers()) == (None, b"", None)
    assert [one.value() for one in stock_read(shared, Place(other, 0))] == [b"y"]


def test_the_option_topic_wins_over_the_column_as_in_spark(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    txn = Txn(shared)
    one = writer(shared, txn, topic)
    one.write(pa.record_batch({"topic": ["elsewhere"], "value": ["x"]}))
    assert one.close() == {Place(topic, 0): 1}
    txn.end("abort")


def test_keys_go_where_a_java_producer_puts_them_and_keep_their_order(shared: NodeProcess) -> None:
    ours, theirs = new_topic(shared, 7), new_topic(shared, 7)
    keys = [b"key-%d" % (at % 97) for at in range(3_000)]
    txn = Txn(shared)
    one = writer(shared, txn, ours)
    for at in range(0, 3_000, 250):
        chunk = range(at, at + 250)
        one.write(pa.record_batch({"key": keys[at : at + 250], "value": [b"%d" % number for number in chunk]}))
    one.close()
    txn.end("commit")
    producer = stock_producer(shared, partitioner="murmur2")
    for at, key in enumerate(keys):
        producer.produce(theirs, b"%d" % at, key)
    assert producer.flush(WAIT_S) == 0
    for partition in range(7):
        assert stored(shared, ours, partition) == stored(shared, theirs, partition)


def test_a_topic_with_another_hash_is_written_as_its_other_publishers_do(shared: NodeProcess) -> None:
    ours, theirs = new_topic(shared, 7, partitioner="murmur3"), new_topic(shared, 7, partitioner="murmur3")
    keys = [f"key-{at}" for at in range(200)]
    txn = Txn(shared)
    one = writer(shared, txn, ours)
    one.write(pa.record_batch({"key": keys, "value": keys}))
    one.close()
    txn.end("commit")
    messages = [{"key": key, "value": key} for key in keys]
    httpx.post(f"{shared.url}/topics/{theirs}/messages", json={"messages": messages}).raise_for_status()
    for partition in range(7):
        assert stored(shared, ours, partition) == stored(shared, theirs, partition)


def test_rows_without_a_key_go_round_the_partitions_batch_by_batch(shared: NodeProcess) -> None:
    topic = new_topic(shared, 3)
    txn = Txn(shared)
    one = writer(shared, txn, topic)
    for number in range(6):
        one.write(values(number * 10, number * 10 + 10))
    assert one.close() == {Place(topic, partition): 20 for partition in range(3)}
    txn.end("abort")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_compressed_as_asked(shared: NodeProcess, codec: str) -> None:
    topic = new_topic(shared)
    txn = Txn(shared)
    one = writer(shared, txn, topic, compression=codec)
    one.write(values(0, 20_000, size=100))
    one.close()
    txn.end("commit")
    assert stored(shared, topic) == [b"%d" % at + b"." * 100 for at in range(20_000)]
    size = next(one["size_bytes"] for one in httpx.get(f"{shared.url}/topics/{topic}").json()["partitions"])
    assert size > 2_000_000 if codec == "none" else size < 700_000


def test_batches_are_of_about_a_megabyte_whatever_comes(shared: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    send = producing.BatchSender.send

    def watched(self: Any, parcels: Any) -> None:
        sent.extend(len(parcel.batch) for parcel in parcels)
        send(self, parcels)

    monkeypatch.setattr(producing.BatchSender, "send", watched)
    topic = new_topic(shared)
    txn = Txn(shared)
    one = writer(shared, txn, topic)
    for number in range(200):
        one.write(values(number * 100, number * 100 + 100, size=300))
    one.write(values(20_000, 40_000, size=300))
    assert one.close() == {Place(topic, 0): 40_000}
    txn.end("commit")
    assert max(sent) <= 1_000_100 and sum(sent) / len(sent) > 400_000
    assert stored(shared, topic) == [b"%d" % at + b"." * 300 for at in range(40_000)]


def test_many_partitions_share_requests_and_memory_is_bounded(
    shared: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_PILED_BYTES_MAX", 100_000)
    requests: list[int] = []
    send = producing.BatchSender.send

    def counted(self: producing.BatchSender, parcels: Any) -> Any:
        requests.append(len(parcels))
        return send(self, parcels)

    monkeypatch.setattr(producing.BatchSender, "send", counted)
    topic = new_topic(shared, 50)
    txn = Txn(shared)
    one = writer(shared, txn, topic)
    for _ in range(4):
        partition = pa.array([at % 50 for at in range(500)], pa.int32())
        one.write(pa.record_batch({"value": [b"x" * 200] * 500, "partition": partition}))
        assert sum(pile.size for pile in one._piles.values()) <= 100_000
    assert one.close() == {Place(topic, partition): 40 for partition in range(50)}
    assert requests == [50] * 4
    txn.end("abort")


def test_a_topic_that_takes_small_batches_only_gets_small_ones(shared: NodeProcess) -> None:
    topic = new_topic(shared, max_message_bytes="5000")
    txn = Txn(shared)
    one = writer(shared, txn, topic)
    one.write(values(0, 1_000, size=100))
    assert one.close() == {Place(topic, 0): 1_000}
    txn.end("commit")
    assert len(stored(shared, topic)) == 1_000
    one = writer(shared, txn, topic)
    with pytest.raises(BrokerRefused, match=r"max.message.bytes is 5000. Raise its max.message.bytes, or") as caught:
        one.write(values(0, 1, size=9_000))
        one.close()
    assert caught.value.code == 10
    one.abandon()
    txn.end("abort")


def test_a_topic_that_is_not_there_is_made_if_the_node_allows_it(shared: NodeProcess, tmp_path: Path) -> None:
    txn = Txn(shared)
    one = writer(shared, txn, f"made-for-{txn.id}")
    one.write(values(0, 10))
    assert sum(one.close().values()) == 10
    txn.end("abort")
    with NodeProcess(tmp_path / "strict", settings={"GOQUEUE_TOPICS_AUTO_CREATE": "off"}) as strict:
        one = writer(strict, Txn(strict), "nowhere")
        with pytest.raises(TopicNotFound, match="Create the topic"):
            one.write(values(0, 10))
        one.abandon()


# --- what cannot be written ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"value": ["x"]}, "A row names no topic"),
        ({"value": ["x", "y"], "topic": ["t", None]}, "A row names no topic"),
        ({"topic": ["t"]}, "need a column 'value'"),
        ({"value": ["x"], "topic": ["t"], "partition": [77]}, "names partition 77"),
        ({"value": ["x"], "topic": ["not a name"]}, "no topic that can be written to"),
    ],
)
def test_rows_that_cannot_be_written_say_why(shared: NodeProcess, columns: dict[str, Any], told: str) -> None:
    one = writer(shared, Txn(shared), None)
    with pytest.raises(PipelineError, match=told):
        one.write(pa.record_batch({name: pa.array(column) for name, column in columns.items()}))
    one.abandon()


def test_an_unknown_compression_is_refused(shared: NodeProcess) -> None:
    with pytest.raises(PipelineError, match="'lzma' is no compression; use none, gzip, snappy, lz4, zstd"):
        StagedWriter(shared.kafka, "x", BatchProducer(1, 1), "t", compression="lzma")


def test_a_compacted_topic_refuses_rows_without_keys(shared: NodeProcess) -> None:
    one = writer(shared, Txn(shared), new_topic(shared, cleanup_policy="compact"))
    with pytest.raises(BrokerRefused, match="compacted topics need keys"):
        one.write(values(0, 5))
        one.close()
    one.abandon()


def test_a_writer_that_was_replaced_is_told_so(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    txn = Txn(shared)
    early, late = writer(shared, txn, topic), writer(shared, txn, topic)
    early.write(values(0, 4_000, size=300))
    Txn(shared, txn.id)
    for one in (early, late):
        with pytest.raises(Fenced, match="Another attempt took over"):
            for number in range(20):
                one.write(values(number, number + 4_000, size=300))
            one.close()
        one.abandon()
    assert stored(shared, topic) == []


def test_a_transaction_that_was_ended_behind_the_writers_back_is_told(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    txn = Txn(shared)
    one = writer(shared, txn, topic)
    one.write(values(0, 4_000, size=300))
    one._producing.wait_stored()
    httpx.post(f"{shared.url}/transactions/abort", json={"transactional_id": txn.id}).raise_for_status()
    with pytest.raises(BrokerRefused, match=r"run it again|Run the batch again"):
        one.write(values(0, 4_000, size=300))
        one.close()
    one.abandon()
    assert stored(shared, topic) == []


# --- broken lines ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_there_once_and_in_order_over_a_line_that_breaks(shared: NodeProcess, way: str, seed: int) -> None:
    """Requests that never arrive, and answers that are lost after the rows were stored."""
    dice = random.Random(seed)

    def cut(which: str, count: int) -> bool:
        return which == way and count > 0 and (tunnel.cuts < 2 or dice.random() < 0.2)

    topic = new_topic(shared, 2)
    txn = Txn(shared)
    with Tunnel(shared.kafka, cut) as tunnel:
        one = writer(shared, txn, topic, tunnel.address, patience_s=WAIT_S)
        for number in range(25):
            keys = [b"%d" % (at % 11) for at in range(2_000)]
            values = [b"%d-%d" % (number, at) + b"." * 300 for at in range(2_000)]
            one.write(pa.record_batch({"key": keys, "value": values}))
        counts = one.close()
        one._cluster.close()
    assert tunnel.cuts > 1
    txn.end("commit")
    assert sum(counts.values()) == 50_000
    for partition in range(2):
        found = [one.split(b".")[0] for one in stored(shared, topic, partition)]
        assert len(found) == counts[Place(topic, partition)]
        places = [tuple(map(int, one.split(b"-"))) for one in found]
        assert places == sorted(set(places))


def test_no_more_than_five_requests_are_on_their_way(shared: NodeProcess) -> None:
    """The broker remembers five batches of a producer; a sixth could be stored twice after a break."""
    open_, most = 0, 0
    lock = threading.Lock()

    def count(way: str, number: int) -> bool:
        nonlocal open_, most
        with lock:
            open_ += 1 if way == "there" else -1
            most = max(most, open_)
        return False

    topic = new_topic(shared)
    txn = Txn(shared)
    with Tunnel(shared.kafka, count) as tunnel:
        one = writer(shared, txn, topic, tunnel.address)
        one.write(values(0, 50_000, size=300))
        one.close()
        one._cluster.close()
    txn.end("abort")
    assert 2 <= most <= producing.IN_FLIGHT_MAX == 5


@pytest.fixture
def returning(tmp_path: Path) -> Iterator[NodeProcess]:
    flags, release = fixed_ports()
    release()
    with NodeProcess(tmp_path / "data", *flags) as node:
        yield node


def test_a_node_that_is_killed_and_comes_back_has_every_row_once(returning: NodeProcess) -> None:
    topic = new_topic(returning)
    txn = Txn(returning)
    one = writer(returning, txn, topic)
    starting: list[threading.Thread] = []
    for number in range(30):
        one.write(values(number * 4_000, number * 4_000 + 4_000, size=300))
        if number in (5, 17):
            returning.kill()
            starting.append(threading.Thread(target=returning.start))
            starting[-1].start()
    assert one.close() == {Place(topic, 0): 120_000}
    for thread in starting:
        thread.join()
    txn.end("commit")
    assert stored(returning, topic) == [b"%d" % at + b"." * 300 for at in range(120_000)]


def test_a_node_that_stays_away_is_named(returning: NodeProcess) -> None:
    topic = new_topic(returning)
    one = writer(returning, Txn(returning), topic, patience_s=0.5)
    one.write(values(0, 10))
    returning.kill()
    with pytest.raises(NodeUnreachable, match=returning.kafka):
        one.close()
    one.abandon()


def test_what_lies_in_the_log_is_numbered_and_transactional(node: NodeProcess) -> None:
    topic = new_topic(node)
    txn = Txn(node)
    one = writer(node, txn, topic)
    one.write(values(0, 8_000, size=300))
    one.close()
    (segment,) = [path for path in node.data_dir.rglob("*.log") if b"7999...." in path.read_bytes()]
    headers = [read_header(batch) for batch in split(segment.read_bytes())]
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(txn.producer_id, txn.epoch)}
    assert all(header.is_transactional for header in headers) and len(headers) == 3
    assert [header.base_sequence for header in headers] == [header.base_offset for header in headers]
