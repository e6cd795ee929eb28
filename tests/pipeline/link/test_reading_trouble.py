"""Reading while things go wrong: topics go, nodes go, bytes go bad. Each is waited for or told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from goqueue.format.batch import read_header
from goqueue.pipeline.link.cluster import Place
from goqueue.pipeline.link.errors import CorruptData, NodeUnreachable, PipelineError, TopicNotFound
from goqueue.pipeline.link.reading import OffsetRange, read_arrow
from tests.door.kafka.raw import Line, batch, produce_to
from tests.format.bombs import malformed
from tests.pipeline.link.shop import fixed_ports, new_topic, publish, values_of, whole


def test_wrong_wishes_are_refused_at_once(shared: NodeProcess) -> None:
    wanted = [OffsetRange("t", 0, 0, 1)]
    with pytest.raises(PipelineError, match="There is no column 'valeu'"):
        read_arrow(shared.kafka, wanted, ["valeu"])
    with pytest.raises(PipelineError, match="No column was asked for"):
        read_arrow(shared.kafka, wanted, [])
    with pytest.raises(PipelineError, match="is no isolation"):
        read_arrow(shared.kafka, wanted, ["value"], isolation="dirty")
    with pytest.raises(TopicNotFound):
        values_of(shared, OffsetRange("nowhere", 0, 0, 1))
    with pytest.raises(TopicNotFound, match="/7 on the node"):
        values_of(shared, OffsetRange(new_topic(shared), 7, 0, 1))


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_topic_that_is_deleted_meanwhile_is_an_error(shared: NodeProcess, is_made_again: bool) -> None:
    """A new topic of the same name is not the one that was asked for."""
    topic = new_topic(shared)
    publish(shared, topic, ["x" * 1_000] * 20_000)
    reading = read_arrow(shared.kafka, [whole(shared, topic)], ["value"], batch_bytes=1 << 20)
    next(reading)
    httpx.delete(f"{shared.url}/topics/{topic}").raise_for_status()
    if is_made_again:
        httpx.post(f"{shared.url}/topics", json={"name": topic, "num_partitions": 1}).raise_for_status()
        publish(shared, topic, ["y" * 1_000] * 20_000)
    with pytest.raises(TopicNotFound, match="it was deleted"):
        list(reading)


@pytest.fixture
def returning(tmp_path: Path) -> Iterator[NodeProcess]:
    """A node that keeps its addresses over restarts."""
    flags, release = fixed_ports()
    release()
    with NodeProcess(tmp_path / "data", *flags) as node:
        yield node


def test_a_node_that_goes_down_in_the_middle_is_waited_for(returning: NodeProcess) -> None:
    topic = new_topic(returning)
    publish(returning, topic, [f"{at:01000d}" for at in range(20_000)])
    wanted = whole(returning, topic)
    found: list[bytes] = []
    starting: list[threading.Thread] = []
    for number, piece in enumerate(read_arrow(returning.kafka, [wanted], ["value"], batch_bytes=1 << 20)):
        found += piece.column(0).to_pylist()
        if number in (1, 4):
            for thread in starting:
                thread.join()
            returning.kill()
            starting.append(threading.Thread(target=returning.start))
            starting[-1].start()
    for thread in starting:
        thread.join()
    assert found == [b"%01000d" % at for at in range(20_000)]


def test_a_node_that_stays_away_is_named(returning: NodeProcess) -> None:
    topic = new_topic(returning)
    publish(returning, topic, ["x" * 1_000] * 20_000)
    wanted = whole(returning, topic)
    reading = read_arrow(returning.kafka, [wanted], ["value"], batch_bytes=1 << 20, patience_s=0.5)
    next(reading)
    returning.kill()
    with pytest.raises(NodeUnreachable, match=f"No node answered at {returning.kafka} for 0.5 s"):
        list(reading)


def test_a_batch_that_was_damaged_on_disk_is_told_with_its_place(node: NodeProcess) -> None:
    topic = new_topic(node)
    for number in range(5):
        publish(node, topic, [f"{number}-{at}" for at in range(10)])
    (segment,) = [one for one in node.data_dir.rglob("*.log") if b"4-9" in one.read_bytes()]
    place = segment.read_bytes().index(b"3-5")
    with segment.open("r+b") as file:
        file.seek(place)
        file.write(b"X")
    with pytest.raises(CorruptData, match=rf"The records of {topic}/0 at offset \d+ cannot be read") as caught:
        values_of(node, whole(node, topic))
    assert caught.value.place == Place(topic, 0)
    assert values_of(node, OffsetRange(topic, 0, 0, 30), batch_bytes=1)[-1] == b"2-9"


UNREADABLE = (
    "junk",
    "a record is cut off",
    "headers below nothing",
    "gzip that is none",
    "zstd of junk",
    "a bomb of bytes",
    "a bomb of headers",
)


def test_what_a_producer_wrote_unreadably_fails_with_its_place_or_is_passed_over_and_told(node: NodeProcess) -> None:
    topic = new_topic(node)
    spoiled = [(name, bad) for name, bad in malformed() if name in UNREADABLE]
    with Line(node.kafka) as line:
        for name, bad in spoiled:
            for one in (batch(name.encode()), bad):
                (result,) = line.ask(produce_to(topic, 0, one), version=9).responses[0].partition_responses
                assert result.error_code == 0
    publish(node, topic, ["the end"])
    wanted = whole(node, topic)
    with pytest.raises(CorruptData, match=r"at offset 1 cannot be read.*failOnDataLoss") as caught:
        values_of(node, wanted)
    assert caught.value.offset == 1
    lost: list[int] = []
    reading = read_arrow(
        node.kafka, [wanted], ["value", "headers"], fail_on_loss=False, on_loss=lambda _, count: lost.append(count)
    )
    found = [value for piece in reading for value in piece.column(0).to_pylist()]
    assert found == [*(name.encode() for name, _ in spoiled), b"the end"]
    assert sum(lost) == sum(read_header(bad).record_count for _, bad in spoiled)
