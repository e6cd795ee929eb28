"""Disks that lose bits, ends and files: who is damaged does not count, does not lead, and gets back what it lacks."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from functools import partial

import pytest

from goqueue.base.commands import Acks, Fetch, FetchFrom, InputMessage, Isolation, PublishMessages, StoredAt
from goqueue.base.ids import TopicPartition
from goqueue.core.cluster.records import NOBODY, ShardRecord
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.drive.coordinators import GROUPS_TOPIC
from goqueue.drive.partition_replica import PartitionReplica
from goqueue.drive.shard_damage import RANGE
from goqueue.format.batch import split, strides
from goqueue.format.records import decode
from goqueue.log.journal_entries import FILES
from goqueue.log.mending import is_damaged
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment import Seal, Segment
from goqueue.service.storage import Storage
from goqueue.sim.disk import CrashMode, SimDisk, SimFile
from tests.nodes.cluster import Nodes, patiently, run_nodes, until

SMALL = {"segment.bytes": 4_096}


def shard_of(nodes: Nodes, at: TopicPartition) -> int:
    return nodes.any.node.shard_map.of_partition(at)


def record_of(nodes: Nodes, shard: int) -> ShardRecord:
    return nodes.any.metadata.image.shard(shard)


async def filled(nodes: Nodes, leader: int = 0, count: int = 60) -> TopicPartition:
    """A partition that the node leads, of several segments."""
    await nodes.create("t", 6, SMALL)
    at = nodes.place_at(leader, "t")
    await publish(nodes, at, 0, count)
    await until(lambda: len(set(bytes_of(nodes, at).values())) == 1)
    return at


async def publish(nodes: Nodes, at: TopicPartition, first: int, count: int) -> None:
    for number in range(first, first + count):
        message = InputMessage(None, f"{number:04d}".encode() * 50, partition=at.partition)
        command = PublishMessages("t", [message], Acks.ALL)
        (stored,) = await patiently(lambda: nodes.leader_of(at).publish.messages(command))  # noqa: B023
        assert isinstance(stored, StoredAt), stored


def log_of(nodes: Nodes, node: int, at: TopicPartition) -> PartitionLog:
    topic = nodes.brokers[node].table.get(at.topic)
    assert topic is not None
    return topic.partitions[at.partition].log


def bytes_of(nodes: Nodes, at: TopicPartition) -> dict[int, bytes]:
    found = {}
    for node in nodes.brokers:
        log = log_of(nodes, node, at)
        found[node] = b"".join(bytes(batch) for batch in log.batches(log.start_offset))
    return found


def flip(disk: SimDisk, path: str, position: int) -> None:
    inode = disk._names[path]
    assert inode is not None and position < len(inode.now)
    inode.now[position] ^= 0x10
    inode.safe = bytes(inode.now)


def files(disk: SimDisk, at: TopicPartition) -> list[str]:
    prefix = f"logs/{at.topic}/{at.partition}/"
    return sorted(name for name in disk._names if name.startswith(prefix) and name.endswith(".log"))


async def whole(nodes: Nodes, at: TopicPartition, count: int) -> None:
    """Everybody is in sync again, with the same bytes, and nothing is missing."""
    await until(lambda: is_whole(nodes, at), 120)
    for node in nodes.brokers:
        log = log_of(nodes, node, at)
        assert (log.start_offset, log.end_offset) == (0, count)


def is_whole(nodes: Nodes, at: TopicPartition) -> bool:
    in_sync, known = record_of(nodes, shard_of(nodes, at)).in_sync, nodes.any.metadata.image.nodes()
    if set(in_sync) != set(nodes.brokers) or any(one.damaged for one in known.values()):
        return False
    damaged = any(is_damaged(log_of(nodes, node, at)) for node in nodes.brokers)
    return not damaged and len(set(bytes_of(nodes, at).values())) == 1


async def restart(nodes: Nodes, node: int, change: Callable[[SimDisk], None]) -> None:
    nodes.kill(node, "kept")
    await until(lambda: all(record_of(nodes, shard).leader != node for shard in nodes.any.metadata.image.shards()))
    change(nodes._disks[node])
    await nodes.start(node)


@pytest.mark.parametrize("place", [0, 3, 7, 8, 11, 12, 15, 16, 17], ids=lambda place: f"byte {place}")
@pytest.mark.parametrize("is_down", [True, False], ids=["while it is down", "while it runs"])
def test_what_no_crc_covers_is_fetched_again_too(monkeypatch: pytest.MonkeyPatch, place: int, is_down: bool) -> None:
    """The offset, the length and the epoch in the head of a batch."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        damage = partial(flip_head, at=at, place=place)
        if is_down:
            await restart(nodes, 1, damage)
        else:
            await until(lambda: all(one.seal for one in log_of(nodes, 1, at).segments[:-1]))
            damage(nodes._disks[1])
        before = log_of(nodes, 1, at).home.stats.segments_mended
        await nodes.run_at(1, nodes.brokers[1].scrubber.scrub_all())
        await publish(nodes, at, 60, 5)
        await until(lambda: log_of(nodes, 1, at).home.stats.segments_mended > before, 120)
        await whole(nodes, at, 65)

    run_nodes(story, monkeypatch)


def flip_head(disk: SimDisk, at: TopicPartition, place: int) -> None:
    """Of the third batch of the first file."""
    path = files(disk, at)[0]
    starts = [start for start, _, _, _ in strides(disk.read_file(path) or b"")]
    flip(disk, path, starts[2] + place)


def test_a_leader_that_does_not_know_yet_what_is_acknowledged_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer without batches would be taken for a compaction that left none. If both have one history it knows."""
    monkeypatch.setattr("goqueue.drive.shard_damage._is_of_one_history", lambda *_: False)

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        topic = nodes.brokers[0].table.get("t")
        assert topic is not None
        state, asked = topic.partitions[at.partition].state, [0]

        async def as_if_it_just_began(by: int, to: int, verb: str) -> None:
            if verb == RANGE:
                asked[0] += 1
                state.high_watermark = 0 if asked[0] == 1 else 60

        nodes.before_call = as_if_it_just_began
        await restart(nodes, 1, partial(flip_head, at=at, place=20))
        await nodes.run_at(1, nodes.brokers[1].scrubber.scrub_all())
        await until(lambda: log_of(nodes, 1, at).home.stats.segments_mended > 0, 120)
        await whole(nodes, at, 60)
        assert asked[0] > 1

    run_nodes(story, monkeypatch)


def test_a_leader_that_is_damaged_in_the_same_place_does_not_say_that_nothing_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In what no CRC covers, so that it did not notice. Another replica leads then, and both are mended."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        nodes.kill(1, "kept")
        await until(lambda: all(one.seal for one in log_of(nodes, 0, at).segments[:-1]))
        path = files(nodes._disks[1], at)[0]
        starts = [start for start, _, _, _ in strides(nodes._disks[1].read_file(path) or b"")]
        for start in starts[1:4]:
            flip(nodes._disks[1], path, start + 70)
        flip(nodes._disks[0], path, starts[2] + 7)
        await nodes.start(1)
        await nodes.run_at(1, nodes.brokers[1].scrubber.scrub_all())
        await until(lambda: log_of(nodes, 1, at).home.stats.segments_mended > 0, 120)
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("lost", [1, 3])
def test_files_that_a_log_began_with_come_back_from_the_others(
    monkeypatch: pytest.MonkeyPatch, node: int, lost: int
) -> None:
    """Who lost them must not tell the others to begin where it does."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        for one in range(3):
            nodes.kill(one, "kept")
        for path in files(nodes._disks[node], at)[:lost]:
            nodes._disks[node].remove(path)
        await asyncio.gather(*map(nodes.start, range(3)))
        await nodes.until_led()
        await publish(nodes, at, 60, 5)
        await whole(nodes, at, 65)

    run_nodes(story, monkeypatch)


def test_so_does_the_file_of_a_log_that_begins_within_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch begins before the log does."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6, SMALL)
        at = nodes.place_at(0, "t")
        for first in range(0, 60, 5):
            five = [InputMessage(None, f"{first + one:04d}".encode() * 50, partition=at.partition) for one in range(5)]
            await nodes.leader_of(at).publish.messages(PublishMessages("t", five, Acks.ALL))
        broker = nodes.brokers[0]
        await Storage(broker.topics, broker.cleaner, broker.space, "").delete_records("t", at.partition, 12)
        await until(lambda: all(log_of(nodes, one, at).start_offset == 12 for one in range(3)))
        await restart(nodes, 1, lambda disk: disk.remove(files(disk, at)[0]))
        await until(lambda: is_whole(nodes, at), 120)
        log = log_of(nodes, 1, at)
        assert (log.start_offset, log.end_offset, log.segments[0].base_offset) == (12, 60, 10)
        nodes.kill(1, "kept")
        await nodes.start(1)
        await until(lambda: is_whole(nodes, at), 120)
        assert log_of(nodes, 1, at).start_offset == 12

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("segment", [0, 1, -1])
def test_a_follower_that_was_damaged_fetches_the_range_again(monkeypatch: pytest.MonkeyPatch, segment: int) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        await restart(nodes, 1, lambda disk: flip(disk, files(disk, at)[segment], 100))
        await nodes.run_at(1, nodes.brokers[1].scrubber.scrub_all())
        await publish(nodes, at, 60, 5)
        await whole(nodes, at, 65)

    run_nodes(story, monkeypatch)


def test_a_leader_that_is_damaged_hands_over_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        shard = shard_of(nodes, at)
        before = record_of(nodes, shard)
        flip(nodes._disks[0], files(nodes._disks[0], at)[1], 100)
        await nodes.run_at(0, nodes.brokers[0].scrubber.scrub_all())
        await until(lambda: record_of(nodes, shard).leader != 0)
        assert record_of(nodes, shard).leader in before.in_sync
        await publish(nodes, at, 60, 5)
        await whole(nodes, at, 65)
        assert nodes.brokers[0].node.storage_stats.segments_mended == 1

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("is_gone", [False, True], ids=["a bad sector", "a deleted file"])
@pytest.mark.parametrize("node", [0, 1])
def test_what_the_disk_cannot_give_back_is_fetched_again(
    monkeypatch: pytest.MonkeyPatch, node: int, is_gone: bool
) -> None:
    """Both are an error of every read, and no wrong bytes."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        await until(lambda: all(one.seal for one in log_of(nodes, node, at).segments[:-1]))
        before = log_of(nodes, node, at).home.stats.segments_mended
        path = files(nodes._disks[node], at)[1]
        if is_gone:
            for segment in log_of(nodes, node, at).segments:
                segment.let_go()
            nodes._disks[node].remove(path)
        else:
            spoil(monkeypatch, nodes._disks[node], path)
        if node == 0:  # a reader meets it
            for offset in range(60):
                assert await patiently(lambda: first_at(nodes, at, offset)) == f"{offset:04d}" * 50  # noqa: B023
        else:
            await nodes.run_at(node, nodes.brokers[node].scrubber.scrub_all())
        await until(lambda: log_of(nodes, node, at).home.stats.segments_mended > before, 120)
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


def test_nor_does_it_hold_up_who_fetches_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the leader's log, if nobody else has it: other logs, and other shards."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        await until(lambda: all(one.seal for one in log_of(nodes, 0, at).segments[:-1]))
        for node in (1, 2):
            nodes.kill(node, "kept")
            nodes._disks[node] = SimDisk()
        image = nodes.any.metadata.image
        await until(lambda: all(image.shard(shard).in_sync == (0,) for shard in image.shards()))
        spoil(monkeypatch, nodes._disks[0], files(nodes._disks[0], at)[1])
        await nodes.start(1)
        others = [shard for shard in image.shards() if shard != shard_of(nodes, at)]
        await until(lambda: all(1 in image.shard(shard).in_sync for shard in others), 60)
        other = next(one for number in range(6) if shard_of(nodes, one := TopicPartition("t", number)) in others)
        async with asyncio.timeout(5):
            await publish(nodes, other, 61, 20)

    run_nodes(story, monkeypatch)


def test_what_a_leader_could_not_read_once_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else has it, and nothing is written any more that would make it look."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        await until(lambda: all(one.seal for one in log_of(nodes, 0, at).segments[:-1]))
        for node in (1, 2):
            nodes.kill(node, "kept")
            nodes._disks[node] = SimDisk()
        image = nodes.any.metadata.image
        await until(lambda: all(image.shard(shard).in_sync == (0,) for shard in image.shards()))
        with monkeypatch.context() as patch:
            spoil(patch, nodes._disks[0], files(nodes._disks[0], at)[1])
            await nodes.start(1)
            await until(lambda: log_of(nodes, 0, at).segments[1].differs, 60)
            await asyncio.sleep(1)
        await until(lambda: 1 in record_of(nodes, shard_of(nodes, at)).in_sync, 60)
        assert log_of(nodes, 1, at).end_offset == 60

    run_nodes(story, monkeypatch)


def spoil(monkeypatch: pytest.MonkeyPatch, disk: SimDisk, path: str) -> None:
    inode, read = disk._names[path], SimFile.read

    def read_or_fail(self: SimFile, position: int, size: int) -> bytes:
        if self._inode is inode and position <= 2_000 < position + size:
            raise OSError(errno.EIO, "a bad sector")
        return read(self, position, size)

    monkeypatch.setattr(SimFile, "read", read_or_fail)


def test_nobody_is_told_of_damage_that_another_replica_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        flip(nodes._disks[0], files(nodes._disks[0], at)[1], 100)
        await nodes.run_at(0, nodes.brokers[0].scrubber.scrub_all())
        for offset in range(60):
            assert await patiently(lambda: first_at(nodes, at, offset)) == f"{offset:04d}" * 50  # noqa: B023

    run_nodes(story, monkeypatch)


async def first_at(nodes: Nodes, at: TopicPartition, offset: int) -> str:
    command = Fetch([FetchFrom(at, offset, 1)], 1, 1, 0, Isolation.READ_COMMITTED)
    (answer,) = await nodes.leader_of(at).fetching.fetch(command)
    if answer.error is not None:
        raise answer.error
    (value,) = [(one.value or b"").decode() for batch in split(answer.batches) for one in decode(batch)]
    return value


def test_the_brokers_own_logs_are_checked_before_they_are_led_from(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        group = nodes.id_at(0, "g")
        shard = nodes.any.metadata.image.shard_of_id(group)
        at = TopicPartition(GROUPS_TOPIC, shard)
        await nodes.create("t", 6, SMALL)
        for number in range(20):
            await commit(nodes, group, number)
        await restart(nodes, 0, lambda disk: flip(disk, files(disk, at)[0], 100))
        await until(lambda: is_whole(nodes, at), 120)

    run_nodes(story, monkeypatch)


async def commit(nodes: Nodes, group: str, offset: int) -> None:
    request = CommitRequest(group, "", -1, None, [OffsetCommit("t", 0, offset)])
    await patiently(lambda: nodes.keeper_of(group).groups.commit_all(request))


def test_a_log_that_lost_its_end_is_not_led_and_takes_nothing_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        for node in (1, 2):
            nodes.kill(node, "kept")
        nodes.kill(0, "kept")
        lose_end(nodes._disks[0], at)
        await nodes.start(0)  # alone it could not know what is missing
        await asyncio.sleep(5)
        assert record_of(nodes, shard_of(nodes, at)).leader == NOBODY
        await nodes.start(1)
        await nodes.start(2)
        await nodes.until_led()
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


def lose_end(disk: SimDisk, at: TopicPartition) -> None:
    """The last batch is damaged, and the journal that had it is gone."""
    path = files(disk, at)[-1]
    inode = disk._names[path]
    assert inode is not None
    flip(disk, path, len(inode.now) - 20)
    for name in FILES:
        disk._names.pop(name, None)
        disk._safe.pop(name, None)


def test_all_replicas_damaged_in_different_places_mend_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        for node in range(3):
            flip(nodes._disks[node], files(nodes._disks[node], at)[node], 100)
        await asyncio.gather(*(nodes.run_at(node, nodes.brokers[node].scrubber.scrub_all()) for node in range(3)))
        await until(lambda: sum(one.node.storage_stats.segments_mended for one in nodes.brokers.values()) == 3, 120)
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_also_if_none_of_them_knows_what_was_acknowledged(
    monkeypatch: pytest.MonkeyPatch, order: tuple[int, int, int]
) -> None:
    """All were started again, and none counts but the leader: nothing is acknowledged anew before they are mended."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        await until(lambda: all(one.seal for node in range(3) for one in log_of(nodes, node, at).segments[:-1]))
        for node in range(3):
            nodes.kill(node, "kept")
            disk = nodes._disks[node]
            path = files(disk, at)[order[node]]
            disk._names.pop(path)
            disk._safe.pop(path)
        await asyncio.gather(*map(nodes.start, range(3)))
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


def test_a_directory_that_was_emptied_is_filled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        nodes.kill(0, "kept")
        nodes._disks[0] = SimDisk()
        await publish(nodes, at, 60, 5)
        await nodes.start(0)
        await whole(nodes, at, 65)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("mode", ["dropped", "torn"])
def test_a_power_cut_of_all_at_once_takes_nothing_that_was_acknowledged(
    monkeypatch: pytest.MonkeyPatch, mode: CrashMode
) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        for node in range(3):
            nodes.kill(node, mode)
        await asyncio.gather(*map(nodes.start, range(3)))
        await nodes.until_led()
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("is_leader", [False, True])
def test_a_directory_that_is_deleted_under_a_running_node_comes_back_from_the_others(
    monkeypatch: pytest.MonkeyPatch, is_leader: bool
) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes)
        node = 0 if is_leader else 1
        disk, directory = nodes._disks[node], log_of(nodes, node, at).home.directory
        disk.remove_tree(directory)
        await until(lambda: disk.is_dir(directory) and disk.read_file(f"{directory}/meta.json") is not None)
        await publish(nodes, at, 60, 20)
        await until(lambda: node in record_of(nodes, shard_of(nodes, at)).in_sync)
        await until(lambda: len(set(bytes_of(nodes, at).values())) == 1)
        assert log_of(nodes, node, at).end_offset == 80 and log_of(nodes, node, at).failure is None
        names = [name for name in disk.names(directory) if name.endswith(".log")]
        assert names == [f"{one.base_offset:020d}.log" for one in log_of(nodes, node, at).segments]

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("node", [0, 1])
def test_who_lost_a_directory_does_not_count_before_it_has_everything_again(
    monkeypatch: pytest.MonkeyPatch, node: int
) -> None:
    """However long that takes. Who led it before would get it back, and the others would cut off what they have."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes)
        shard, go_on = shard_of(nodes, at), slowly(monkeypatch, at)
        nodes._disks[node].remove_tree(log_of(nodes, node, at).home.directory)
        await until(lambda: log_of(nodes, node, at).end_offset == 0)
        for _ in range(150):
            await asyncio.sleep(0.1)
            assert log_of(nodes, node, at).end_offset == 0 and node not in record_of(nodes, shard).in_sync
        go_on()
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


def slowly(monkeypatch: pytest.MonkeyPatch, at: TopicPartition) -> Callable[[], None]:
    """Nobody is sent anything of the log, until what this returns is called."""
    read_tail, is_slow = PartitionReplica.read_tail, [True]

    def read(self: PartitionReplica, offset: int, bytes_max: int) -> bytes:
        return b"" if is_slow and self.partition.at == at else read_tail(self, offset, bytes_max)

    monkeypatch.setattr(PartitionReplica, "read_tail", read)
    return is_slow.clear


def test_who_drops_a_log_is_not_eligible_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leader dies before it has got anything again, and is waited for."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes)
        shard = shard_of(nodes, at)
        nodes.kill(2, "kept")
        await until(lambda: record_of(nodes, shard).in_sync == (0, 1))
        go_on = slowly(monkeypatch, at)
        nodes._disks[1].remove_tree(log_of(nodes, 1, at).home.directory)
        await until(lambda: log_of(nodes, 1, at).end_offset == 0)
        nodes.kill(0, "kept")
        go_on()
        await asyncio.sleep(10)
        assert record_of(nodes, shard).leader == NOBODY
        await asyncio.gather(nodes.start(0), nodes.start(2))
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


def test_nor_is_who_cuts_what_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows what is acknowledged: too few are in sync since the last start. Nor whether the leader's history is
    the same, as one of an earlier version does not look."""
    monkeypatch.setattr("goqueue.drive.shard_damage._is_of_one_history", lambda leader, ask: False)

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes)
        shard = shard_of(nodes, at)
        nodes.kill(2, "kept")
        await until(lambda: record_of(nodes, shard).in_sync == (0, 1))
        nodes.kill(0, "kept")
        nodes.kill(1, "kept")
        go_on = slowly(monkeypatch, at)
        for path in files(nodes._disks[1], at)[-2:]:
            flip(nodes._disks[1], path, 100)
        await asyncio.gather(nodes.start(0), nodes.start(1))
        await nodes.run_at(1, nodes.brokers[1].scrubber.scrub_all())
        await until(lambda: record_of(nodes, shard).eligible == (1,))
        await until(lambda: log_of(nodes, 1, at).end_offset < 60)
        assert (record_of(nodes, shard).in_sync, record_of(nodes, shard).eligible) == ((0,), ())
        go_on()
        await nodes.start(2)
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("is_leader", [False, True])
def test_a_node_that_is_killed_before_it_notices_a_deleted_directory_does_not_count(
    monkeypatch: pytest.MonkeyPatch, is_leader: bool
) -> None:
    """The others are down when it comes back: who has nothing must not lead, and have them cut off what they have."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        node = 0 if is_leader else 1
        nodes._disks[node].remove_tree(log_of(nodes, node, at).home.directory)
        for one in range(3):
            nodes.kill(one, "kept")
        for name in FILES:  # as where nothing is synced at once, or long ago
            nodes._disks[node].remove(name)
        starting = asyncio.ensure_future(nodes.start(node))
        await asyncio.sleep(20)
        await asyncio.gather(starting, *(nodes.start(one) for one in range(3) if one != node))
        await nodes.until_led()
        await whole(nodes, at, 60)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_node_that_cannot_write_a_log_neither_leads_its_shard_nor_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Until it is started again: then it looks at its disk, and fetches what it lacks."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        log_of(nodes, failing, at).fail(OSError(errno.EIO, "the disk fails"))
        await until(lambda: failing not in record_of(nodes, shard_of(nodes, at)).in_sync)
        assert record_of(nodes, shard_of(nodes, at)).leader not in (failing, NOBODY)
        await publish(nodes, at, 60, 5)
        nodes.kill(failing, "kept")
        await nodes.start(failing)
        await until(lambda: failing in record_of(nodes, shard_of(nodes, at)).in_sync, 120)
        await until(lambda: len(set(bytes_of(nodes, at).values())) == 1, 120)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("failing", [0, 1])
def test_nor_one_that_cannot_seal_a_segment(monkeypatch: pytest.MonkeyPatch, failing: int) -> None:
    """Its log takes no writes any more either."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0, count=10)
        write_seal = Segment.write_seal

        def fail(self: Segment, tombstones_since: int | None = None) -> Seal:
            if self.home is log_of(nodes, failing, at).home:
                raise OSError(errno.EIO, "the disk fails")
            return write_seal(self, tombstones_since)

        monkeypatch.setattr(Segment, "write_seal", fail)
        log_of(nodes, failing, at).roll()
        await publish(nodes, at, 10, 1)
        await until(lambda: failing not in record_of(nodes, shard_of(nodes, at)).in_sync)
        assert record_of(nodes, shard_of(nodes, at)).leader not in (failing, NOBODY)
        await publish(nodes, at, 11, 5)

    run_nodes(story, monkeypatch)
