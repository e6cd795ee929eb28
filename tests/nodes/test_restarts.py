"""A node that comes back keeps what it has: it may be all that is left of what was acknowledged."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.errors import NotLeader, TakingOver
from goqueue.base.ids import TopicPartition
from goqueue.base.metadata import Commit
from goqueue.core.cluster.records import SHARDS, ShardRecord, decode
from goqueue.drive.membership import NodeMembership
from goqueue.drive.shard_damage import ShardDamage
from goqueue.service.storage import Storage
from goqueue.sim.disk import SimDisk
from tests.nodes.cluster import Nodes, run_nodes, until
from tests.nodes.test_damage import bytes_of, filled, log_of, lose_end, publish, record_of, shard_of


async def back_in_sync(nodes: Nodes, at: TopicPartition) -> None:
    await until(lambda: set(record_of(nodes, shard_of(nodes, at)).in_sync) == set(nodes.brokers), 120)
    await until(lambda: len(set(bytes_of(nodes, at).values())) == 1, 120)


def is_answered(nodes: Nodes, at: TopicPartition) -> bool:
    try:
        nodes.leader_of(at).topics.require(at.topic).partition(at.partition).check_epoch(-1)
    except NotLeader:
        return False
    return True


@pytest.mark.parametrize("node", [0, 1])
def test_who_starts_again_cuts_nothing_that_the_leader_has(monkeypatch: pytest.MonkeyPatch, node: int) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        nodes.kill(node, "kept")
        await publish(nodes, at, 60, 5)
        await nodes.start(node)
        await publish(nodes, at, 65, 5)
        await back_in_sync(nodes, at)
        assert [log_of(nodes, one, at).notes.cuts for one in range(3)] == [0, 0, 0]

    run_nodes(story, monkeypatch)


def test_both_followers_start_again_and_then_the_leader_loses_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        for node in (1, 2):
            nodes.kill(node, "kept")
        await asyncio.gather(*map(nodes.start, (1, 2)))
        await until(lambda: log_of(nodes, 1, at).end_offset == 60)
        nodes.kill(0)
        await nodes.until_led()
        assert [log_of(nodes, node, at).end_offset for node in (1, 2)] == [60, 60]

    run_nodes(story, monkeypatch)


def test_a_leader_whose_session_is_over_answers_nobody_from_that_moment_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have stood still for a while: others may lead what it has."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        partition = nodes.brokers[0].topics.require(at.topic).partition(at.partition)
        partition.check_epoch(-1)
        nodes.end_session(0)
        for check in (partition.check_led, lambda: partition.check_epoch(-1)):
            with pytest.raises(TakingOver):
                check()
        await until(lambda: is_answered(nodes, at))

    run_nodes(story, monkeypatch)


def test_what_was_deleted_does_not_come_back_with_a_leader_that_had_not_heard_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that deleted it is killed at once; when it is back, the next leader drops it too."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        broker = nodes.brokers[0]
        storage = Storage(broker.topics, broker.cleaner, broker.space, "")
        assert await storage.delete_records(at.topic, at.partition, 20) == 20
        nodes.kill(0, "kept")
        await nodes.until_led()
        assert [log_of(nodes, node, at).start_offset for node in (1, 2)] == [0, 0], "they had heard of it"
        await nodes.start(0)
        await until(lambda: all(log_of(nodes, node, at).start_offset == 20 for node in range(3)), 60)
        assert record_of(nodes, shard_of(nodes, at)).leader != 0, "it leads again, and had them drop it"

    run_nodes(story, monkeypatch)


def test_what_one_replica_dropped_by_itself_stays_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own retention, with a clock that is ahead: nobody asked for it."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        broker = nodes.brokers[1]
        await broker.cleaner.drop_head(broker.topics.require(at.topic).partition(at.partition), 20)
        nodes.kill(1, "kept")
        await nodes.start(1)
        await until(lambda: set(record_of(nodes, shard_of(nodes, at)).in_sync) == set(nodes.brokers), 120)
        await publish(nodes, at, 60, 5)
        await asyncio.sleep(5)
        assert [log_of(nodes, node, at).start_offset for node in range(3)] == [0, 20, 0]

    run_nodes(story, monkeypatch)


def test_a_lost_tail_is_not_forgotten_by_a_start_that_comes_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine comes back from a power cut, and the node's first start on it is killed before it counts."""

    async def story(nodes: Nodes) -> None:
        nodes.fsync = "never"
        await nodes.start_all()
        at = await filled(nodes, leader=0)
        for node in range(3):
            nodes.kill(node, "dropped" if node == 1 else "kept")
        nodes.boots[1] = "after the power cut"
        with monkeypatch.context() as patch:
            patch.setattr(ShardDamage, "begin", lambda _: asyncio.sleep(3600))
            starting = asyncio.ensure_future(nodes.start(1))
            await asyncio.sleep(1)
            nodes.kill(1, "kept")
            await asyncio.wait([starting])
        await nodes.start(1)
        await asyncio.sleep(1)
        assert nodes.led_by(1) == [], "others have more, and it waits for them"
        await asyncio.gather(*map(nodes.start, (0, 2)))
        await back_in_sync(nodes, at)
        assert log_of(nodes, 1, at).end_offset == 60
        await asyncio.sleep(2)
        for node in range(3):
            nodes.kill(node, "kept")
        await nodes.start(1)
        await asyncio.sleep(1)
        assert len(nodes.led_by(1)) == 6, "nothing is lost any more, and it counts at once"

    run_nodes(story, monkeypatch, is_started=False)


def test_who_lost_its_disk_is_not_taken_for_the_start_that_was_in_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's word for the earlier start is long on its way to the store, as when the answer did not come."""

    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        shard = shard_of(nodes, at)
        nodes.kill(1, "kept")
        await until(lambda: 1 not in record_of(nodes, shard).in_sync)
        gate, asked = asyncio.Event(), asyncio.Event()
        commit = nodes._clients[0].commit

        async def late(wanted: Commit) -> int:
            record = decode(wanted.puts.get(f"{SHARDS}{shard}", ""), ShardRecord)
            if record is not None and 1 in record.in_sync and not gate.is_set():
                asked.set()
                await gate.wait()
            return await commit(wanted)

        monkeypatch.setattr(nodes._clients[0], "commit", late)
        await nodes.start(1)
        await asyncio.wait_for(asked.wait(), 60)
        nodes.kill(1)
        nodes._disks[1] = SimDisk()
        with nodes.held_fetches(0):
            await nodes.start(1)
            nodes.kill(2, "kept")
            await asyncio.sleep(1)
            gate.set()
            await asyncio.sleep(1)
            record = record_of(nodes, shard)
            assert log_of(nodes, 1, at).end_offset == 0 and 1 not in (*record.in_sync, *record.eligible), record
        await nodes.start(2)
        await publish(nodes, at, 60, 5)
        await back_in_sync(nodes, at)

    run_nodes(story, monkeypatch)


def test_a_lost_end_is_not_forgotten_either(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        for node in range(3):
            nodes.kill(node, "kept")
        lose_end(nodes._disks[1], at)
        with monkeypatch.context() as patch:
            patch.setattr(NodeMembership, "tell", lambda _, **__: asyncio.sleep(3600))  # the store is away
            starting = asyncio.ensure_future(nodes.start(1))
            await asyncio.sleep(60)
            nodes.kill(1, "kept")
            await asyncio.wait([starting])
        await nodes.start(1)
        await asyncio.sleep(1)
        assert shard_of(nodes, at) not in nodes.led_by(1), "others have more, and it waits for them"
        await asyncio.gather(*map(nodes.start, (0, 2)))
        await back_in_sync(nodes, at)
        assert log_of(nodes, 1, at).end_offset == 60

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_node_stops_and_starts_again_on_a_full_disk(monkeypatch: pytest.MonkeyPatch, is_killed: bool) -> None:
    async def story(nodes: Nodes) -> None:
        at = await filled(nodes, leader=0)
        nodes._disks[1].full_at = nodes._disks[1].space_calls
        if is_killed:
            nodes.kill(1, "kept")
        else:
            await nodes.run_at(1, nodes.brokers.pop(1).stop())
        disk = nodes._disks[1]
        disk.full_at = disk.space_calls
        await nodes.start(1)
        await asyncio.sleep(3)
        disk.free_space()
        await back_in_sync(nodes, at)

    run_nodes(story, monkeypatch)


@pytest.mark.parametrize("fsync", ["always", "interval"])
def test_nor_by_a_start_that_ends_before_it_has_looked(monkeypatch: pytest.MonkeyPatch, fsync: str) -> None:
    """Its logs are open, and synced as they are, while others are still being opened."""

    async def story(nodes: Nodes) -> None:
        nodes.fsync = fsync
        await nodes.start_all()
        at = await filled(nodes, leader=0)
        await asyncio.sleep(2)
        for node in range(3):
            nodes.kill(node, "kept")
        lose_end(nodes._disks[1], at)
        with monkeypatch.context() as patch:
            patch.setattr(ShardDamage, "begin", lambda _: asyncio.sleep(3600))
            starting = asyncio.ensure_future(nodes.start(1))
            await asyncio.sleep(60)
            nodes.kill(1, "kept")
            await asyncio.wait([starting])
        await nodes.start(1)
        await asyncio.sleep(1)
        assert shard_of(nodes, at) not in nodes.led_by(1), "others have more, and it waits for them"
        await asyncio.gather(*map(nodes.start, (0, 2)))
        await back_in_sync(nodes, at)
        assert log_of(nodes, 1, at).end_offset == 60
        await asyncio.sleep(2)
        for node in range(3):
            nodes.kill(node, "kept")
        await nodes.start(1)
        await asyncio.sleep(1)
        assert len(nodes.led_by(1)) == 6, "nothing is missing any more, and it counts at once"

    run_nodes(story, monkeypatch, is_started=False)
