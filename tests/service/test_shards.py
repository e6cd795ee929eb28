"""A node of several shards: what belongs to which, what crosses, and how their number grows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from goqueue.base.errors import StorageFailed
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.limits import SHARDS_MAX
from goqueue.base.node_settings import NodeSettings
from goqueue.base.settings import Settings
from goqueue.base.startup_errors import FewerShards
from goqueue.broker import Broker
from goqueue.core.groups.errors import TooManyGroups
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.drive.delivery_runner import DELIVERIES_TOPIC
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, publish, settings
from tests.service.dead import buried, over

Life = Callable[[Broker], Awaitable[None]]


def of_shards(count: int, **log: object) -> Settings:
    return replace(settings(**log), node=NodeSettings(shards=count))


def lives(*stories: tuple[int, Life]) -> None:
    """One data directory, one life after the other, each with so many shards."""

    async def run(loop: VirtualLoop) -> None:
        disk = SimDisk()
        for count, story in stories:
            async with broker_on(disk, loop, of_shards(count)) as broker:
                await story(broker)

    run_virtually(run)


def names_of_all_shards(broker: Broker, prefix: str) -> list[str]:
    """A name that hashes to each shard."""
    found: dict[int, str] = {}
    for number in range(10_000):
        name = f"{prefix}{number}"
        found.setdefault(broker.node.shard_map.of_id(name), name)
    return [found[shard] for shard in sorted(found)]


async def take_all(broker: Broker, topic: str, group: str) -> list[str]:
    places = [one.at for one in broker.topics.require(topic).partitions]
    taken = await broker.leasing.take(Take(group, places, "me", 1_000))
    assert await broker.leasing.ack([one.receipt for one in taken]) == [None] * len(taken)
    return sorted((one.stored.value or b"").decode() for one in taken)


async def commit(broker: Broker, group: str, offset: int) -> None:
    await broker.groups.commit_all(CommitRequest(group, "", -1, None, [OffsetCommit("t", 0, offset)]))


def test_partitions_and_groups_are_spread_over_all_shards() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 16, {})
        assert sorted(broker.topics.require("t").record.shards) == sorted([*range(8), *range(8)])
        for group in names_of_all_shards(broker, "g"):
            await commit(broker, group, 0)
        assert [host.machine.count() for host in broker.group_hosts] == [1] * 8
        assert len(broker.groups.list()) == broker.groups.count() == 8

    lives((8, story))


def test_a_poll_draws_from_every_shard_and_acks_move_the_group_wherever_it_is() -> None:
    sent = [f"m{number}" for number in range(40)]

    async def before(broker: Broker) -> None:
        await broker.topics.create("t", 8, {})
        for value in sent:
            await publish(broker, "t", value, key=value)
        for group in names_of_all_shards(broker, "g"):
            assert await take_all(broker, "t", group) == sorted(sent)
            assert sum(one.lag for one in broker.groups.lag(group)) == 0
        assert all(runner.views for runner in broker.delivery_runners)

    async def after(broker: Broker) -> None:
        for group in names_of_all_shards(broker, "g"):
            assert await take_all(broker, "t", group) == []
            assert sum(one.offset for one in broker.groups.offsets(group).values()) == len(sent)

    lives((8, before), (8, after))


def test_a_dead_letter_goes_to_a_topic_in_another_shard_and_comes_back() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        await publish(broker, "t", "bad")
        (bad,) = await broker.leasing.take(Take("g", [TopicPartition("t", 0)], "me", 1))
        assert await broker.leasing.reject([bad.receipt], "no good") == [None]
        await buried(broker, "t")
        homes = [broker.node.shard_map.of_partition(TopicPartition(name, 0)) for name in ("t", "t.dlq")]
        assert homes[0] != homes[1]
        task = await broker.redrives.start("t.dlq")
        assert (await over(broker, task)).moved == 1
        assert await take_all(broker, "t", "g") == ["bad"]

    lives((8, story))


def test_the_bound_on_groups_holds_for_all_shards_together() -> None:
    async def run(loop: VirtualLoop) -> None:
        chosen = of_shards(8)
        few = replace(chosen, groups=replace(chosen.groups, groups_max=3))
        async with broker_on(SimDisk(), loop, few) as broker:
            await broker.topics.create("t", 1, {})
            names = names_of_all_shards(broker, "g")
            for group in names[:3]:
                await commit(broker, group, 0)
            with pytest.raises(TooManyGroups):
                await commit(broker, names[3], 0)
            await commit(broker, names[0], 1)
            await broker.groups.delete(names[1])
            await commit(broker, names[3], 0)

    run_virtually(run)


def test_shards_can_be_added_and_what_was_there_stays_where_it_is() -> None:
    async def one(broker: Broker) -> None:
        await broker.topics.create("t", 4, {})
        await publish(broker, "t", "a", key="a")
        assert await take_all(broker, "t", "g") == ["a"]
        await publish(broker, "t", "b", key="b")

    async def three(broker: Broker) -> None:
        assert broker.topics.describe(DELIVERIES_TOPIC).num_partitions == 3
        assert broker.topics.require("t").record.shards == (0, 0, 0, 0)
        assert {broker.node.shard_map.of_id(f"g{number}") for number in range(1_000)} == {0}, "no id moves"
        assert await take_all(broker, "t", "g") == ["b"]
        await broker.topics.create("u", 4, {})
        assert set(broker.topics.require("u").record.shards) == {1, 2}, "where the fewest partitions are"
        await publish(broker, "u", "c", key="c")

    async def again(broker: Broker) -> None:
        assert len(broker.group_hosts) == 3
        assert await take_all(broker, "t", "g") == []
        assert await take_all(broker, "u", "g") == ["c"]

    lives((1, one), (3, three), (0, again))


@pytest.mark.parametrize("first", [1, SHARDS_MAX])
def test_a_node_has_as_many_shards_as_the_setting_allows(first: int) -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create(f"t{len(broker.group_hosts)}", 1, {})

    async def most(broker: Broker) -> None:
        assert len(broker.group_hosts) == SHARDS_MAX
        await broker.topics.create("t", SHARDS_MAX, {})
        assert len(set(broker.topics.require("t").record.shards)) > SHARDS_MAX // 2

    lives((first, story), (SHARDS_MAX, most))


def test_fewer_shards_than_there_are_is_refused() -> None:
    async def nothing(broker: Broker) -> None:
        pass

    with pytest.raises(FewerShards, match="3 shards; start with as many or more, not with 2"):
        lives((3, nothing), (2, nothing))


def test_a_shard_whose_views_are_being_read_holds_up_nobody_else() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 2, {})
        for number in range(20):
            await publish(broker, "t", f"m{number}", key=f"k{number}")
        here, there = (one.at for one in broker.topics.require("t").partitions)
        broken = broker.delivery_runners.at(there)
        assert broken is not broker.delivery_runners.at(here)
        broken.host.unload()
        taken = await broker.leasing.take(Take("g", [here], "me", 100))
        assert taken and await broker.leasing.ack([one.receipt for one in taken]) == [None] * len(taken)
        await asyncio.sleep(0.1)
        assert broker.groups.offsets("g")[here].offset == taken[-1].stored.offset + 1
        await broken.load(
            await broker.open_internal_partition(DELIVERIES_TOPIC, broker.node.shard_map.of_partition(there))
        )
        assert await broker.leasing.take(Take("g", [there], "me", 100))

    lives((2, story))


def test_a_shard_whose_log_failed_holds_up_no_group_and_no_message_of_another() -> None:
    async def run(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop, of_shards(3, fsync="always")) as broker:
            await broker.topics.create("t", 3, {})
            for number in range(30):
                await publish(broker, "t", f"m{number}", key=f"k{number}")
            bad, *others = (one.at for one in broker.topics.require("t").partitions)
            disk.fails_sync = True
            with pytest.raises(StorageFailed):
                await broker.leasing.take(Take("g", [bad], "me", 1))
            disk.fails_sync = False
            await asyncio.sleep(3)
            for at in others:
                (taken,) = await broker.leasing.take(Take("g", [at], "me", 1))
                assert await broker.leasing.ack([taken.receipt]) == [None]
            for group in names_of_all_shards(broker, "h"):
                await commit(broker, group, 0)

    run_virtually(run)
