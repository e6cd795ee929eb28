"""Groups on a disk that is full, or whose sync fails: through the verbs, on the host."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from goqueue.base.errors import DiskFull, GoQueueError, NotLoaded, StorageFailed
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.settings import GroupsSection, Settings
from goqueue.broker import Broker
from goqueue.core.groups import CommitRequest, JoinReply, JoinRequest, OffsetCommit, SyncReply, SyncRequest
from goqueue.drive.coordinators import GROUPS_TOPIC, GroupHost
from goqueue.service.group_metrics import GroupCollector
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, publish, settings


def host(broker: Broker) -> GroupHost:
    return broker.group_hosts.of("g")


def join(broker: Broker, group: str, member_id: str = "", new_member_id: str = "m") -> Any:
    protocols = [("range", b"r")]
    request = JoinRequest(
        group,
        member_id,
        None,
        "client",
        "/127.0.0.1",
        "consumer",
        protocols,
        10_000,
        20_000,
        False,
        True,
        new_member_id,
    )
    return broker.groups.join(request)


def sync(broker: Broker, group: str, member_id: str, generation: int, *given: tuple[str, bytes]) -> Any:
    return broker.groups.sync(SyncRequest(group, member_id, None, generation, assignments=given))


def patient(**log: object) -> Settings:
    """A first rebalance waits for more members."""
    return replace(settings(**log), groups=GroupsSection(initial_rebalance_delay_ms=3_000))


async def committed(broker: Broker, group: str, offset: int) -> None:
    await broker.groups.commit_all(CommitRequest(group, "", -1, None, [OffsetCommit("t", 0, offset)]))


def test_a_full_disk_leaves_groups_as_they_were_and_everybody_who_waits_is_told_at_once() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, patient(disk_used_percent_max=100)) as broker:
            await broker.topics.create("t", 1, {})
            await committed(broker, "g", 3)
            first = await asyncio.gather(join(broker, "g", new_member_id="one"), join(broker, "g", new_member_id="two"))
            generation = first[0].generation
            leader = first[0].leader
            follower = "two" if leader == "one" else "one"
            elsewhere = join(broker, "other")
            waiting = sync(broker, "g", follower, generation)
            assert not waiting.done() and not elsewhere.done()
            machine, before = host(broker).machine, broker.groups.describe("other")
            disk.full_at = disk.space_calls
            assert isinstance(sync(broker, "g", leader, generation, ("one", b"1"), ("two", b"2")), DiskFull)
            assert isinstance(waiting.result(), DiskFull), "told at once, not when it asks again"
            with pytest.raises(DiskFull):
                await committed(broker, "g2", 4)
            assert host(broker).machine is machine, "nothing is read again"
            assert {at.topic: one.offset for at, one in broker.groups.offsets("g").items()} == {"t": 3}
            assert broker.groups.describe("g").state == "Empty", "as it was last stored"
            assert broker.groups.describe("other") == before and not elsewhere.done()
            disk.free_space()
            assert isinstance(await elsewhere, JoinReply), "another group goes on"
            again = await join(broker, "g", new_member_id="three")
            result = sync(broker, "g", "three", again.generation, ("three", b"3"))
            assert isinstance(result, SyncReply) and result.assignment == b"3"
        async with broker_on(disk, loop) as broker:
            assert [one.member_id for one in broker.groups.describe("g").members] == ["three"]

    run_virtually(scenario)


def test_a_sync_that_failed_is_told_to_all_who_wait_and_groups_are_read_again() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, patient(fsync="always")) as broker:
            await broker.topics.create("t", 1, {})
            await committed(broker, "g", 3)
            names = (f"other{number}" for number in itertools.count())
            waiting = join(broker, next(name for name in names if broker.group_hosts.of(name) is host(broker)))
            await host(broker).wait_durable()
            before, epoch = host(broker).machine, host(broker).epoch
            disk.fails_sync = True
            with pytest.raises(StorageFailed):
                await committed(broker, "g", 4)
            assert isinstance(await waiting, GoQueueError)
            if not host(broker).is_loaded:
                assert isinstance(join(broker, "g"), NotLoaded)
            disk.fails_sync = False
            await asyncio.sleep(2)
            assert host(broker).machine is not before and host(broker).epoch == epoch + 1
            assert [one.offset for one in broker.groups.offsets("g").values()] in ([3], [4])
            with pytest.raises(StorageFailed):
                await committed(broker, "g", 5)
        async with broker_on(disk, loop) as broker:
            await committed(broker, "g", 6)
            assert [one.offset for one in broker.groups.offsets("g").values()] == [6]

    run_virtually(scenario)


def offset_of(broker: Broker, group: str) -> list[int]:
    return [one.offset for one in broker.groups.offsets(group).values()]


def test_acks_move_the_group_also_if_its_records_could_not_be_written_or_were_being_read() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, settings(disk_used_percent_max=100)) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "one", "two", "three")
            messages = await broker.leasing.take(Take("g", [TopicPartition("t", 0)], "c", 3))
            partition = await broker.open_internal_partition(GROUPS_TOPIC, broker.node.shard_map.of_id("g"))
            host(broker).unload()
            assert await broker.leasing.ack([messages[0].receipt]) == [None]
            await asyncio.sleep(2)
            await host(broker).load(partition)
            await asyncio.sleep(2)
            assert offset_of(broker, "g") == [1]
            assert await broker.leasing.ack([messages[1].receipt]) == [None]
            disk.full_at = disk.space_calls
            await asyncio.sleep(0.5)
            assert offset_of(broker, "g") == [1], "it could not be written"
            disk.free_space()
            await asyncio.sleep(2)
            assert offset_of(broker, "g") == [2], "it is told again by itself"

    run_virtually(scenario)


def test_a_scrape_does_without_groups_that_are_being_read() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            collector = GroupCollector(broker.groups, broker.topics, broker.clock, 100)
            list(collector.look())  # in slices
            assert "goqueue_groups" in [one.name for one in collector.collect()]
            host(broker).unload()
            list(collector.look())  # in slices
            assert list(collector.collect()) == []

    run_virtually(scenario)
