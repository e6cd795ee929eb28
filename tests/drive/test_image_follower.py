"""Nodes that follow one store: who changes it sees the change, and so does everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from goqueue.base.errors import MetadataConflict, StoreOutOfReach
from goqueue.base.metadata import ABSENT, Change, Commit, Revision, Snapshot, WatchedTooLate
from goqueue.core.cluster.records import ReservedIds, ShardRecord, TopicRecord, decode, encode
from goqueue.drive.image_follower import ImageFollower
from goqueue.service.producers import ProducerIds
from goqueue.sim.disk import SimDisk
from goqueue.sim.metadata import SimMetadata, SimMetadataStore
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch_all, publish


def topic(name: str) -> str:
    return encode(TopicRecord(name, f"id-{name}", 1, {}, 1))


async def following(store: SimMetadataStore, told: list[Change] | None = None) -> ImageFollower:
    told = [] if told is None else told
    follower = ImageFollower(store.client(), told.append)
    await follower.start()
    return follower


def test_a_change_is_in_the_image_of_who_made_it_and_soon_in_the_others() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        store, told = SimMetadataStore(), list[Change]()
        one, other = await following(store), await following(store, told)
        await one.commit(Commit({"topics/a": topic("a")}))
        assert one.image.topic("a") is not None
        await asyncio.sleep(1)
        assert other.image.topic("a") is not None
        assert [entry.key for change in told for entry in change.puts] == ["topics/a"]
        with pytest.raises(MetadataConflict):
            await other.commit(Commit({"topics/a": topic("a")}, modified={"topics/a": ABSENT}))
        await one.stop()
        await other.stop()

    run_virtually(scenario)


def test_who_fails_at_a_change_goes_on_with_the_next() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        store = SimMetadataStore()

        def fail(change: Change) -> None:
            if any(entry.key == "topics/a" for entry in change.puts):
                raise RuntimeError("of no use")

        follower = ImageFollower(store.client(), fail)
        await follower.start()
        store.commit(Commit({"topics/a": topic("a")}))
        await asyncio.sleep(1)
        store.commit(Commit({"topics/b": topic("b")}, ["topics/a"]))
        await asyncio.sleep(5)
        assert follower.image.topic("a") is None and follower.image.topic("b") is not None
        await follower.stop()

    run_virtually(scenario)


class SetBackStore(SimMetadata):
    """Is set back to a backup behind a commit of which nobody has heard yet."""

    def __init__(self, store: SimMetadataStore) -> None:
        super().__init__(store)
        self.revision, self.is_set_back = 10, asyncio.Event()

    async def read(self) -> Snapshot:
        return Snapshot(self.revision, {})

    async def commit(self, commit: Commit) -> Revision:
        return 11

    async def watch(self, after: Revision) -> AsyncIterator[Change]:
        await self.is_set_back.wait()
        if after > self.revision:
            raise WatchedTooLate("Changes are known up to an earlier revision.")
        await asyncio.Event().wait()
        yield Change(after, [], [])


def test_nobody_waits_for_a_change_that_went_as_the_store_was_set_back() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        store = SetBackStore(SimMetadataStore())
        follower = ImageFollower(store, lambda change: None)
        await follower.start()
        changing = asyncio.ensure_future(follower.commit(Commit({"topics/a": topic("a")})))
        await asyncio.sleep(1)
        assert not changing.done()
        store.revision = 4
        store.is_set_back.set()
        with pytest.raises(StoreOutOfReach, match="set back"):
            await asyncio.wait_for(changing, 60)
        await follower.stop()

    run_virtually(scenario)


def test_who_fell_too_far_behind_reads_all_again() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        store, told = SimMetadataStore(), list[Change]()
        client = store.client()
        late = ImageFollower(client, told.append)
        await late.start()
        await asyncio.sleep(1)
        client.watches_stale = True
        store.commit(Commit({"topics/a": topic("a"), "topics/b": topic("b")}))
        await asyncio.sleep(1)
        store.commit(Commit({"topics/c": topic("c")}, ["topics/a"]))
        store.state.forget_history()
        client.watches_stale = False
        store.wake()
        await asyncio.sleep(1)
        assert [one.name for one in late.image.topics()] == ["b", "c"]
        assert late.image.revision == store.state.revision
        await late.commit(Commit({"topics/d": topic("d")}))
        assert late.image.topic("d") is not None
        await late.stop()

    run_virtually(scenario)


def test_two_nodes_never_hand_out_the_same_producer_id() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        store = SimMetadataStore()
        followers = [await following(store) for _ in range(3)]
        nodes = [ProducerIds(follower) for follower in followers]
        given = await asyncio.gather(*(node.next_id() for node in nodes for _ in range(2_500)))
        assert len(set(given)) == len(given) == 7_500
        reserved = decode(store.state.read().entries["producer-ids/next"].value, ReservedIds)
        assert reserved is not None and reserved.below > max(given)
        for follower in followers:
            await follower.stop()

    run_virtually(scenario)


def test_partitions_write_in_the_epoch_of_their_shard_as_soon_as_it_changes() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "a", "b")
            number = broker.topics.require("t").record.shard_of(0)
            later = encode(msgspec.structs.replace(broker.metadata.image.shard(number), epoch=5))
            await broker.metadata.commit(Commit({f"shards/{number}": later}))
            partition = broker.topics.require("t").partition(0)
            assert partition.leader_epoch == 5 and partition.epoch_end(0) == (0, 2)
            await publish(broker, "t", "c")
            assert [partition.epoch_at(offset) for offset in range(3)] == [0, 0, 5]
        async with broker_on(disk, loop) as broker:
            partition = broker.topics.require("t").partition(0)
            assert (partition.leader_epoch, partition.epoch_end(4), partition.epoch_end(5)) == (5, (0, 2), (5, 3))

    run_virtually(scenario)


def test_a_topic_never_gets_the_messages_of_one_that_had_its_name() -> None:
    """Its log is set aside whole, whatever order the files of a deletion and a creation came to the disk in."""

    async def scenario(loop: VirtualLoop) -> None:
        disk = SimDisk()
        async with broker_on(disk, loop) as broker:
            await broker.topics.create("t", 1, {})
            await publish(broker, "t", "old")
            record = broker.topics.require("t").record
            another = encode(msgspec.structs.replace(record, id="another"))
            await broker.metadata.commit(Commit({"topics/t": another}))
        async with broker_on(disk, loop) as broker:
            assert broker.topics.describe("t").messages == 0
            assert await publish(broker, "t", "new") == [0]
            assert [one.value for one in await fetch_all(broker, "t", 0)] == [b"new"]
        assert disk.names("orphans") == ["t-0-before-another"]

    run_virtually(scenario)


def test_a_shard_that_is_written_by_hand_and_makes_no_sense_is_not_believed() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        store = SimMetadataStore()
        follower = await following(store)
        await follower.commit(Commit({"shards/0": encode(ShardRecord(0, 0, (0,), (0,)))}))
        await follower.commit(Commit({"shards/1": "{}"}))
        assert follower.image.shards() == [0] and follower.image.unreadable == {"shards/1"}
        await follower.stop()

    run_virtually(scenario)
