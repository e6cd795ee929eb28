"""Reading ranges from a real node: exactly the rows, whatever happens meanwhile."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from bench.node_process import NodeProcess
from goqueue.pipeline.arrow.columns import BASE, HEADERS, METADATA, arrow_schema
from goqueue.pipeline.link.cluster import PATIENCE_S, Place, cluster
from goqueue.pipeline.link.errors import OffsetOutOfLog
from goqueue.pipeline.link.reading import OffsetRange, read_arrow
from tests.pipeline.link.shop import (
    WAIT_S,
    Txn,
    new_topic,
    publish,
    stock_producer,
    stock_read,
    values_of,
    whole,
)
from tests.pipeline.link.tunnel import Tunnel
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("watched")


def test_every_column_is_what_a_stock_consumer_says(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    producer = stock_producer(shared)
    for at in range(500):
        some: list[tuple[str, str | bytes | None]] = [("n", b"%d" % at), ("none", None)]
        headers = some if at % 3 == 0 else None
        value = None if at % 7 == 0 else b"v" * at
        producer.produce(topic, value, b"k%d" % at if at % 2 else None, 0, headers=headers, timestamp=1_000 + at)
    assert producer.flush(WAIT_S) == 0
    (found,) = read_arrow(shared.kafka, [whole(shared, topic)], (*BASE, HEADERS))
    assert found.schema == arrow_schema((*BASE, HEADERS))
    expected = stock_read(shared, Place(topic, 0))
    assert [(row["key"], row["value"], row["offset"]) for row in found.to_pylist()] == [
        (one.key(), one.value(), one.offset()) for one in expected
    ]
    times = found.column("timestamp").view(pa.int64()).to_pylist()
    assert times == [one.timestamp()[1] * 1000 for one in expected]
    pairs = [[(pair["key"], pair["value"]) for pair in row[HEADERS] or ()] for row in found.to_pylist()]
    assert pairs == [one.headers() or [] for one in expected]
    assert set(found.column("topic").to_pylist()) == {topic} and set(found.column("partition").to_pylist()) == {0}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_of_stock_producers_is_read(shared: NodeProcess, codec: str) -> None:
    topic = new_topic(shared)
    producer = stock_producer(shared, **{"compression.type": codec})
    for at in range(3_000):
        producer.produce(topic, b"value %d " % at * 20, partition=0)
    assert producer.flush(WAIT_S) == 0
    assert values_of(shared, whole(shared, topic)) == [b"value %d " % at * 20 for at in range(3_000)]


def test_any_part_of_a_log_with_transactions_is_read_exactly(shared: NodeProcess) -> None:
    """Transactions side by side, some committed and some aborted, with plain messages between them."""
    topic = new_topic(shared)
    dice = random.Random(7)
    txns: dict[Txn, int] = {}
    idle = [Txn(shared) for _ in range(3)]
    for step in range(120):
        what = dice.random()
        if what < 0.3 and idle:
            txn = idle.pop()
            txn.begin()
            txns[txn] = 0
        elif what < 0.75 and txns:
            dice.choice(list(txns)).publish(topic, *[f"{step}-{at}" for at in range(dice.randint(1, 30))])
        elif what < 0.9 and txns:
            txn = dice.choice(list(txns))
            txn.end(dice.choice(["commit", "abort"]))
            del txns[txn]
            idle.append(txn)
        else:
            publish(shared, topic, [f"plain-{step}"])
    for txn in txns:
        txn.end("commit")
    for isolation in ("read_committed", "read_uncommitted"):
        everything = {one.offset(): one.value() for one in stock_read(shared, Place(topic, 0), isolation)}
        end = whole(shared, topic, isolation=isolation).end
        for _ in range(25):
            start = dice.randint(0, end)
            wanted = OffsetRange(topic, 0, start, dice.randint(start, end))
            found = values_of(shared, wanted, isolation=isolation, batch_bytes=dice.choice([1, 4 << 20]))
            assert found == [everything[at] for at in range(wanted.start, wanted.end) if at in everything]
    committed = values_of(shared, whole(shared, topic))
    assert 0 < len(committed) < len(values_of(shared, whole(shared, topic), isolation="read_uncommitted"))


def test_ranges_come_in_their_order_and_small_ones_together(shared: NodeProcess) -> None:
    topic = new_topic(shared, 40)
    for partition in range(40):
        publish(shared, topic, [f"{partition}-{at}" for at in range(10)], partition)
    ranges = [OffsetRange(topic, partition, 2, 7) for partition in reversed(range(40))]
    pieces = list(read_arrow(shared.kafka, ranges, ["value"]))
    assert len(pieces) == 1
    assert pieces[0].column(0).to_pylist() == [
        f"{partition}-{at}".encode() for partition in reversed(range(40)) for at in range(2, 7)
    ]


def test_no_ranges_and_empty_ranges_are_no_rows(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    assert list(read_arrow(shared.kafka, [], ["value"])) == []
    assert (
        list(read_arrow(shared.kafka, [OffsetRange(topic, 0, 5, 5), OffsetRange("nowhere", 0, 0, 0)], ["value"])) == []
    )


def test_pieces_are_of_a_few_megabytes_and_memory_is_bounded(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    producer = stock_producer(shared, **{"queue.buffering.max.kbytes": 100_000})
    for at in range(60):
        producer.produce(topic, b"%02d" % at * 350_000, partition=0)
    assert producer.flush(WAIT_S) == 0
    small = [b"x" * 200] * 60_000
    publish(shared, topic, [value.decode() for value in small])
    highest = 0
    sizes: list[int] = []
    before = pa.total_allocated_bytes()
    for piece in read_arrow(shared.kafka, [whole(shared, topic)], ["value", "offset"], batch_bytes=2 << 20):
        highest = max(highest, pa.total_allocated_bytes() - before)
        sizes.append(piece.nbytes)
        del piece
    assert sum(sizes) > 50 << 20
    assert max(sizes) <= 8 << 20 and sum(sizes) / len(sizes) > 1 << 20
    assert highest < 12 << 20


def test_a_batch_that_unfolds_to_much_comes_in_several_pieces(shared: NodeProcess) -> None:
    topic = new_topic(shared, max_message_bytes="40000000")
    values = ["x" * 1_000] * 40_000
    publish(shared, topic, values)
    producer = stock_producer(shared, **{"compression.type": "zstd", "message.max.bytes": 50_000_000, "linger.ms": 500})
    producer.produce(topic, b"y" * 20_000_000, partition=0)
    for _ in range(25_000):
        producer.produce(topic, b"z" * 1_000, partition=0)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    rows = 0
    for piece in read_arrow(shared.kafka, [whole(shared, topic)], ["value"]):
        rows += piece.num_rows
        assert piece.slice(0, 1).nbytes > 8 << 20 or piece.nbytes <= 9 << 20
    assert rows == 65_001


def test_messages_that_come_while_it_reads_are_waited_for(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    publish(shared, topic, ["first"])
    reading = read_arrow(shared.kafka, [OffsetRange(topic, 0, 0, 3)], ["value"])
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(reading))
    thread.start()
    publish(shared, topic, ["second"])
    publish(shared, topic, ["third", "fourth"])
    thread.join(WAIT_S)
    assert [value for piece in found for value in piece.column(0).to_pylist()] == [b"first", b"second", b"third"]


def test_reading_beside_writers_gives_every_message_once(shared: NodeProcess) -> None:
    """Two writers, one of them with transactions that it commits and aborts; a reader follows the end."""
    topic = new_topic(shared)
    done = threading.Event()

    def write_plain() -> None:
        producer = stock_producer(shared)
        for at in range(5_000):
            producer.produce(topic, b"plain-%d" % at, partition=0)
            producer.poll(0)
        assert producer.flush(WAIT_S) == 0

    def write_transactions() -> None:
        txn = Txn(shared)
        for number in range(30):
            txn.begin()
            txn.publish(topic, *[f"{'bad' if number % 3 == 0 else 'txn'}-{number}-{at}" for at in range(50)])
            txn.end("abort" if number % 3 == 0 else "commit")

    writers = [threading.Thread(target=one) for one in (write_plain, write_transactions)]

    def watch() -> None:
        for one in writers:
            one.join()
        done.set()

    watching = threading.Thread(target=watch)
    for one in (*writers, watching):
        one.start()
    found: list[bytes | None] = []
    start = 0
    is_last = False
    while not is_last:
        is_last = done.is_set()
        wanted = whole(shared, topic)
        found += values_of(shared, OffsetRange(topic, 0, start, wanted.end))
        start = wanted.end
    watching.join()
    txns = [b"txn-%d-%d" % (number, at) for number in range(30) if number % 3 for at in range(50)]
    assert [value for value in found if value and value.startswith(b"plain")] == [
        b"plain-%d" % at for at in range(5_000)
    ]
    assert [value for value in found if value and not value.startswith(b"plain")] == txns


def test_the_next_fetch_is_under_way_while_a_piece_is_looked_at(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    publish(shared, topic, ["x" * 1_000] * 20_000)
    wanted = whole(shared, topic)
    answers = 0

    def count(way: str, number: int) -> bool:
        nonlocal answers
        answers += way == "back"
        return False

    with Tunnel(shared.kafka, count) as tunnel:
        reading = read_arrow(tunnel.address, [wanted], ["value"], batch_bytes=1 << 20)
        rows = next(reading).num_rows
        had = 4  # versions, metadata, and two fetches on the same line, of which one was looked at
        wait_until(lambda: answers >= had)
        rows += sum(piece.num_rows for piece in reading)
        cluster(tunnel.address, PATIENCE_S, PATIENCE_S).close()  # the one that reading uses
    assert rows == 20_000 and answers > 8


def test_a_reader_that_leaves_early_disturbs_nobody(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    publish(shared, topic, ["x" * 200] * 30_000)
    ours = cluster(shared.kafka)
    for _ in range(3):
        next(read_arrow(shared.kafka, [whole(shared, topic)], ["value"], batch_bytes=1 << 20))
        assert ours.partitions(topic) == [0]
    assert len(values_of(shared, whole(shared, topic))) == 30_000


# --- logs with gaps and without a beginning --------------------------------------------------------------------


def test_a_compacted_log_is_read_with_its_gaps(tmp_path: Path) -> None:
    settings = {"GOQUEUE_LOG_CLEANUP_INTERVAL_MS": "50"}
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        config = {"cleanup_policy": "compact", "segment_bytes": "2000", "min_cleanable_dirty_ratio": "0"}
        topic = new_topic(node, 1, **config)
        for turn in range(30):
            messages = [{"key": f"k{at}", "value": f"{turn}-{at}"} for at in range(20)]
            httpx.post(f"{node.url}/topics/{topic}/messages", json={"messages": messages}).raise_for_status()
        wait_until(lambda: len(stock_read(node, Place(topic, 0))) < 300)
        wanted = whole(node, topic)
        assert wanted.end == 600
        before: dict[int, bytes | None] = {}
        while before != (seen := {one.offset(): one.value() for one in stock_read(node, Place(topic, 0))}):
            before = seen  # until the cleaner has nothing more to do
            found = offsets_and_values(node, wanted)
        assert found == before
        for start in range(0, 600, 37):
            part = offsets_and_values(node, OffsetRange(topic, 0, start, min(600, start + 50)))
            assert part == {at: value for at, value in before.items() if start <= at < start + 50}


def offsets_and_values(node: NodeProcess, wanted: OffsetRange) -> dict[int, bytes | None]:
    pieces = read_arrow(node.kafka, [wanted], ["offset", "value"])
    return {row["offset"]: row["value"] for piece in pieces for row in piece.to_pylist()}


def cut_head(node: NodeProcess, topic: str, offset: int) -> None:
    """What retention does, at a moment of our choice."""
    admin = AdminClient({"bootstrap.servers": node.kafka})
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        done.result(WAIT_S)


def test_offsets_that_are_gone_are_an_error_that_says_so(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    publish(shared, topic, [str(at) for at in range(100)])
    cut_head(shared, topic, 40)
    with pytest.raises(OffsetOutOfLog, match=rf"Offset 10 of {topic}/0 is gone: the log begins at 40 now") as caught:
        values_of(shared, OffsetRange(topic, 0, 10, 60))
    assert (caught.value.place, caught.value.wanted, caught.value.first) == (Place(topic, 0), 10, 40)


@pytest.mark.parametrize(("start", "end", "lost"), [(10, 60, 30), (0, 41, 40), (0, 40, 40), (5, 20, 15), (40, 50, 0)])
def test_offsets_that_are_gone_are_skipped_and_counted_if_wanted(
    shared: NodeProcess, start: int, end: int, lost: int
) -> None:
    topic, other = new_topic(shared), new_topic(shared)
    publish(shared, topic, [str(at) for at in range(100)])
    publish(shared, other, ["behind"])
    cut_head(shared, topic, 40)
    wanted = OffsetRange(topic, 0, start, end)
    told: list[tuple[OffsetRange, int]] = []
    found = values_of(
        shared, wanted, OffsetRange(other, 0, 0, 1), fail_on_loss=False, on_loss=lambda *one: told.append(one)
    )
    assert found == [b"%d" % at for at in range(max(start, 40), end)] + [b"behind"]
    assert told == ([(wanted, lost)] if lost else [])


def test_retention_that_overtakes_a_reader_is_noticed(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    publish(shared, topic, ["x" * 1_000] * 20_000)
    reading = read_arrow(shared.kafka, [whole(shared, topic)], ["value"], batch_bytes=1 << 20)
    next(reading)
    cut_head(shared, topic, 19_990)
    with pytest.raises(OffsetOutOfLog, match="the log begins at 19990 now"):
        list(reading)


def test_offsets_beyond_the_end_are_an_error_or_counted(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    publish(shared, topic, ["a", "b"])
    with pytest.raises(OffsetOutOfLog, match="beyond the end of the log, which is 2"):
        values_of(shared, OffsetRange(topic, 0, 5, 9))
    told: list[int] = []
    more: dict[str, Any] = {"fail_on_loss": False, "on_loss": lambda wanted, count: told.append(count)}
    assert values_of(shared, OffsetRange(topic, 0, 5, 9), **more) == [] and told == [4]
    with pytest.raises(OffsetOutOfLog, match=r"Offsets 2 to 8 .* did not come within 0.2 s.* up to 2 only"):
        values_of(shared, OffsetRange(topic, 0, 0, 9), patience_s=0.2)
    assert values_of(shared, OffsetRange(topic, 0, 0, 9), patience_s=0.2, **more) == [b"a", b"b"] and told == [4, 7]


def test_an_open_transaction_is_waited_for_up_to_a_time(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    txn = Txn(shared)
    txn.begin()
    txn.publish(topic, "a")
    with pytest.raises(OffsetOutOfLog, match="An open transaction holds them back"):
        values_of(shared, OffsetRange(topic, 0, 0, 1), patience_s=0.2)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(values_of(shared, OffsetRange(topic, 0, 0, 1))))
    thread.start()
    txn.end("commit")
    thread.join(WAIT_S)
    assert found == [b"a"]


def test_metadata_comes_with_messages_that_were_published_with_it(shared: NodeProcess) -> None:
    topic = new_topic(shared)
    publish(shared, topic, ["a"], priority="high", headers={"schema-id": "12"})
    publish(shared, topic, ["b"])
    (found,) = read_arrow(shared.kafka, [whole(shared, topic)], METADATA)
    assert found.column("priority").to_pylist() == [1, 2]
    assert found.column("schemaId").to_pylist() == [12, None]
