"""Logs that were compacted, at replicas that did not compact them themselves: what is missing is missing on purpose."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import Acks, InputMessage, PublishMessages
from goqueue.base.ids import TopicPartition
from goqueue.format.batch import strides
from goqueue.format.records import decode
from goqueue.log.partition_log import PartitionLog
from goqueue.sim.disk import CrashMode, SimDisk
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_damage import files, flip, log_of, record_of, shard_of

COMPACTED = {"cleanup.policy": "compact", "segment.bytes": 4_096, "min.cleanable.dirty.ratio": 0.01}


async def publish(nodes: Nodes, at: TopicPartition, count: int) -> None:
    for number in range(count):
        message = InputMessage(f"k{number % 7}".encode(), b"v" * 200, partition=at.partition)
        command = PublishMessages("t", [message], Acks.ALL)
        await patiently(lambda: nodes.leader_of(at).publish.messages(command))  # noqa: B023


async def publish_mostly_once(nodes: Nodes, at: TopicPartition, count: int) -> None:
    """Every third message has the same key."""
    for number in range(count):
        message = InputMessage(f"k{number if number % 3 else 0}".encode(), b"v" * 200, partition=at.partition)
        command = PublishMessages("t", [message], Acks.ALL)
        await patiently(lambda: nodes.leader_of(at).publish.messages(command))  # noqa: B023


async def in_sync(nodes: Nodes, at: TopicPartition) -> None:
    await until(lambda: set(record_of(nodes, shard_of(nodes, at)).in_sync) == set(nodes.brokers), 120)


def newest(log: PartitionLog) -> dict[bytes | None, int]:
    """Where the last message of each key is."""
    return {record.key: record.offset for batch in log.batches(0) for record in decode(batch)}


@pytest.mark.parametrize("mode", ["kept", "dropped"])
def test_a_replica_that_gets_a_compacted_log_takes_its_gaps_for_no_damage(
    monkeypatch: pytest.MonkeyPatch, mode: CrashMode
) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6, COMPACTED)
        at = nodes.place_at(0, "t")
        await publish(nodes, at, 120)
        await nodes.run_at(0, nodes.brokers[0].cleaner.clean_all())
        assert log_of(nodes, 0, at).notes.meta.gaps_to > 0
        nodes.kill(1, "kept")
        nodes._disks[1] = SimDisk()
        await nodes.start(1)
        await in_sync(nodes, at)
        await publish(nodes, at, 40)
        await asyncio.sleep(30)  # segments are sealed
        assert log_of(nodes, 1, at).home.stats.damaged_ranges == 0
        nodes.kill(1, mode)
        await publish(nodes, at, 5)
        await nodes.start(1)
        await in_sync(nodes, at)
        await nodes.run_at(1, nodes.brokers[1].scrubber.scrub_all())
        log = log_of(nodes, 1, at)
        assert (log.start_offset, log.end_offset, log.home.stats.damaged_ranges) == (0, 165, 0)
        assert newest(log) == newest(log_of(nodes, 0, at)) and len(newest(log)) == 7

    run_nodes(story, monkeypatch)


def test_a_new_replica_gets_to_the_end_of_a_log_whose_last_message_deletes_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If that one went too, there would be nothing to read behind it, for ever."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6, {**COMPACTED, "delete.retention.ms": 1_000, "segment.ms": 3_000})
        at = nodes.place_at(0, "t")
        await publish(nodes, at, 5)
        deletion = PublishMessages("t", [InputMessage(b"k1", None, partition=at.partition)], Acks.ALL)
        await nodes.leader_of(at).publish.messages(deletion)
        for _ in range(4):
            await asyncio.sleep(5)
            await nodes.run_at(0, nodes.brokers[0].cleaner.clean_all())
        assert log_of(nodes, 0, at).segments[-1].length == 0
        nodes.kill(1, "kept")
        nodes._disks[1] = SimDisk()
        await nodes.start(1)
        await in_sync(nodes, at)
        assert log_of(nodes, 1, at).end_offset == 6

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("place", [0, 3, 6, 7], ids=lambda place: f"byte {place}")
def test_an_offset_that_is_wrong_on_the_disk_is_not_taken_for_a_gap(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """What follows it would be lost without a word, since it comes before that offset."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6, COMPACTED)
        at = nodes.place_at(0, "t")
        await publish_mostly_once(nodes, at, 60)
        await asyncio.sleep(5)
        for node in range(3):
            await nodes.run_at(node, nodes.brokers[node].cleaner.clean_all())
        before = newest(log_of(nodes, 1, at))
        nodes.kill(1, "kept")
        disk = nodes._disks[1]
        path = next(one for one in files(disk, at) if len(batches_in(disk, one)) > 5)
        flip(disk, path, batches_in(disk, path)[2] + place)
        await nodes.start(1)
        await nodes.run_at(1, nodes.brokers[1].scrubber.scrub_all())
        await until(lambda: log_of(nodes, 1, at).home.stats.segments_mended > 0, 120)
        await in_sync(nodes, at)
        assert newest(log_of(nodes, 1, at)) == before and len(before) == 41

    run_nodes(story, monkeypatch)


def batches_in(disk: SimDisk, path: str) -> list[int]:
    return [start for start, _, _, _ in strides(disk.read_file(path) or b"")]
