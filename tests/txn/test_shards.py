"""Every shard has a transaction coordinator: an id is kept by one of them, and what all keep is one node's."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import InputMessage
from goqueue.base.errors import NotLoaded, Overloaded
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.core.txn.errors import InvalidProducerMapping, OwnersFull, ProducerFenced, UnknownTransaction
from goqueue.core.txn.questions import IsOpen, MayWrite, ProducerActive
from goqueue.core.txn.records import TxnOwner, TxnStage, TxnState, decode_record
from goqueue.core.txn.staged import kept_with, staged_id
from goqueue.drive.coordinators import TRANSACTIONS_TOPIC
from goqueue.format.records import decode
from goqueue.service.shard_loading import ShardClocks
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages
from goqueue.sim.disk import SimDisk
from tests.service.brokers import settings, sharded
from tests.txn.shards import kept_in, name_in, shards_of
from tests.txn.staged.world import commit, read, stage, tell

SHARDS = 3
THREE = sharded(SHARDS, settings())
Who = tuple[str, int, int]


async def begin(broker: Broker, name: str, timeout_ms: int = 60_000) -> Who:
    state = await broker.transactions.init(name, timeout_ms)
    who = (name, state.producer_id, state.epoch)
    await broker.transactions.begin(*who)
    return who


async def put(broker: Broker, who: Who, topic: str, value: bytes = b"v", delay_ms: int | None = None) -> None:
    """One message into every partition."""
    partitions = range(len(broker.topics.require(topic).partitions))
    messages = [InputMessage(None, value, partition=number, delay_ms=delay_ms) for number in partitions]
    await broker.txn_publish.publish(PublishInTransaction(*who, [TopicMessages(topic, messages)]))


# --- which one keeps it ----------------------------------------------------------------------------------------


def test_each_id_is_kept_by_the_coordinator_of_its_shard_alone_also_after_a_start() -> None:
    async def before(broker: Broker) -> None:
        await broker.topics.create("t", SHARDS, {})
        assert sorted(shards_of(broker, "t")) == list(range(SHARDS))
        for shard in range(SHARDS):
            who = await begin(broker, name_in(broker, shard))
            await put(broker, who, "t", f"{shard}".encode())
            await broker.transactions.end(*who, commit=shard != 1, bump=True)
        await after(broker)

    async def after(broker: Broker) -> None:
        for shard in range(SHARDS):
            name = name_in(broker, shard)
            assert kept_in(broker, name) == [shard]
            ended = TxnStage.COMPLETE_ABORT if shard == 1 else TxnStage.COMPLETE_COMMIT
            assert broker.transactions.describe(name).stage is ended
        assert await read(broker, "t") == ["0", "2"] * SHARDS

    tell(after, tell(before, chosen=THREE), THREE)


@pytest.mark.parametrize("owner", ["q", "a/b", "50%", "%2F/%25", "query/7 ü"])
def test_a_staged_writer_is_kept_with_its_owner(owner: str) -> None:
    assert kept_with(staged_id(owner, "w/0%", 3)) == owner


@pytest.mark.parametrize("name", ["p", "staged", "staged/p", "staged/a/b", "staged/a/b/0/1", "stagedish/a/b/0"])
def test_any_other_id_is_kept_by_its_own_name(name: str) -> None:
    assert kept_with(name) == name


def test_the_writers_of_an_owner_are_decided_in_one_batch_of_one_log() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", SHARDS, {})
        for shard in range(SHARDS):
            owner = name_in(broker, shard, "owner/")
            writers = [await stage(broker, 0, f"{number}", owner=owner) for number in range(4)]
            for number, one in enumerate(writers):
                await one.write("t", number % SHARDS, f"{shard}.{number}")
            assert (await commit(broker, 0, *writers, owner=owner)).outcome == "committed"
            assert all(kept_in(broker, one.key[0]) == [shard] for one in writers)
            assert decisions(broker, owner) == [(shard, {one.key[0] for one in writers})]
        assert len(await read(broker, "t")) == 4 * SHARDS
        assert [one.owner for one in broker.staged.owners(2)] == sorted(
            name_in(broker, shard, "owner/") for shard in range(SHARDS)
        )[:2]

    tell(story, chosen=THREE)


def decisions(broker: Broker, owner: str) -> list[tuple[int, set[str]]]:
    """Of each batch that has the owner's number: its shard, and whose commits are in it."""
    found: list[tuple[int, set[str]]] = []
    topic = broker.table.get(TRANSACTIONS_TOPIC)
    assert topic is not None
    for shard, partition in enumerate(topic.partitions):
        for batch in partition.log.batches(0):
            records = [decode_record(one.key or b"", one.value) for one in decode(batch)]
            if any(isinstance(one, TxnOwner) and one.owner == owner for one in records):
                states = [one for one in records if isinstance(one, TxnState)]
                found.append((shard, {one.transactional_id for one in states if one.commits}))
    return found


# --- producers that partitions ask about -----------------------------------------------------------------------


def test_a_producer_is_found_wherever_it_is_kept_and_an_unknown_one_is_told_so() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        for shard in range(SHARDS):
            name, producer_id, epoch = await begin(broker, name_in(broker, shard))
            await put(broker, (name, producer_id, epoch), "t")
            for _ in range(2):  # looked for, and remembered
                assert broker.txn_questions.may_write_now(MayWrite(producer_id, epoch, "t", 0)).error is None  # type: ignore[union-attr]
                assert broker.txn_questions.is_open(IsOpen(producer_id, epoch, "t", 0)).abort_as is None
                assert broker.transactions.writes_to(producer_id, TopicPartition("t", 0))
                assert broker.transactions.name_of(producer_id) == name
                assert broker.transactions.beat(producer_id, epoch).transactional_id == name
        unknown = MayWrite(99_999, 0, "t", 0)
        assert isinstance(broker.transactions.may_write(unknown).error, InvalidProducerMapping)
        assert broker.txn_questions.is_open(IsOpen(99_999, 4, "t", 0)).abort_as == 4
        assert not broker.transactions.writes_to(99_999, TopicPartition("t", 0))
        broker.txn_questions.active(ProducerActive(99_999, 0))
        with pytest.raises(UnknownTransaction):
            broker.transactions.beat(99_999, None)

    tell(story, chosen=THREE)


def test_while_one_coordinator_loads_the_others_serve_and_nobody_is_called_unknown() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", SHARDS, {})
        here, away = [await begin(broker, name_in(broker, shard)) for shard in (0, 2)]
        for who in (here, away):
            await put(broker, who, "t", who[0].encode())
        coordinator = broker.txn_coordinators.of(away[0])
        partition = coordinator.host._partition
        assert partition is not None
        coordinator.host.unload()
        await broker.transactions.end(*here, commit=True)
        broker.txn_questions.active(ProducerActive(away[1], away[2]))
        with pytest.raises(NotLoaded):
            broker.transactions.may_write(MayWrite(away[1], away[2], "t", 0))
        with pytest.raises(NotLoaded):
            broker.transactions.may_write(MayWrite(99_999, 0, "t", 0))
        with pytest.raises(NotLoaded):
            await broker.transactions.end(*away, commit=True)
        await coordinator.load(partition)
        await broker.transactions.end(*away, commit=True)
        assert sorted(await read(broker, "t")) == sorted([here[0], away[0]] * SHARDS)

    tell(story, chosen=THREE)


def test_a_producer_that_got_a_new_id_is_not_found_by_its_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.core.txn.epochs.EPOCH_MAX", 1)
    monkeypatch.setattr("goqueue.core.txn.machine.EPOCH_MAX", 1)

    async def story(broker: Broker) -> None:
        name = name_in(broker, 2)
        first = (await broker.transactions.init(name, 60_000)).producer_id
        assert broker.transactions.name_of(first) == name
        while (state := await broker.transactions.init(name, 60_000)).producer_id == first:
            pass
        assert broker.transactions.name_of(state.producer_id) == name
        with pytest.raises(UnknownTransaction):
            broker.transactions.beat(first, None)

    tell(story, chosen=THREE)


# --- all of them together --------------------------------------------------------------------------------------


def test_what_is_shown_and_counted_is_the_whole_node() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        open_ = [await begin(broker, name_in(broker, shard)) for shard in (2, 0, 1)]
        for shard, who in enumerate(open_):
            asked = CommitRequest("g", "", -1, None, [OffsetCommit("t", shard, shard)])
            await broker.transactions.add_offsets(*who, asked, is_named=False)
        names = sorted(who[0] for who in open_)
        assert [one.transactional_id for one in broker.transactions.all()] == names
        assert [one.transactional_id for one in broker.transactions.open()] == names
        assert broker.transactions.unstable("g") == {TopicPartition("t", number) for number in range(3)}
        assert broker.metrics.registry.get_sample_value("goqueue_transactions_open") == 3
        for who in open_[:2]:
            await broker.transactions.end(*who, commit=True)
        assert [one.transactional_id for one in broker.transactions.open()] == [open_[2][0]]
        assert broker.metrics.registry.get_sample_value("goqueue_transactions_open") == 1
        assert (broker.transactions.tally.begun, broker.transactions.tally.committed) == (3, 2)

    tell(story, chosen=THREE)


def test_every_shard_lets_transactions_run_out_of_time_and_hears_of_a_clock_that_was_set() -> None:
    async def story(broker: Broker) -> None:
        (clocks,) = [one for one in broker.timekeepers if isinstance(one, ShardClocks)]
        assert {one.host for one in broker.txn_coordinators} <= set(clocks._hosts())
        open_ = [await begin(broker, name_in(broker, shard), timeout_ms=5_000) for shard in range(SHARDS)]
        await asyncio.sleep(10)
        assert broker.transactions.open() == [] and broker.transactions.tally.timed_out == SHARDS
        for who in open_:
            with pytest.raises(ProducerFenced):
                await broker.transactions.end(*who, commit=True)

    tell(story, chosen=THREE)


def test_delayed_messages_of_open_transactions_are_bounded_over_all_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        first, second = [await begin(broker, name_in(broker, shard)) for shard in (0, 1)]
        await put(broker, first, "t", b"x" * 1_000, delay_ms=50)
        held = broker.txn_coordinators.delayed_bytes
        assert held >= 1_000
        monkeypatch.setattr("goqueue.service.txn_publish.TXN_DELAYED_BYTES_MAX", 2 * held - 1)
        with pytest.raises(Overloaded):
            await put(broker, second, "t", b"x" * 1_000, delay_ms=50)
        await broker.transactions.end(*first, commit=True)
        await put(broker, second, "t", b"x" * 1_000, delay_ms=50)

    tell(story, chosen=THREE)


def test_owners_of_staged_sets_are_bounded_over_all_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.core.txn.staged.STAGED_OWNERS_MAX", SHARDS)

    async def story(broker: Broker) -> None:
        owners = [name_in(broker, shard, "owner") for shard in range(SHARDS)]
        writers = [await stage(broker, 0, owner=owner) for owner in owners]
        another = name_in(broker, 1, "another")
        with pytest.raises(OwnersFull):
            await stage(broker, 0, owner=another)
        with pytest.raises(OwnersFull):
            await broker.staged.commit(another, 0, [])
        for owner, writer in zip(owners, writers, strict=True):
            await stage(broker, 0, "other", owner=owner)
            assert (await commit(broker, 0, writer, owner=owner)).dropped == 1

    tell(story, chosen=THREE)


# --- growth ----------------------------------------------------------------------------------------------------


def test_a_node_that_grows_keeps_ids_epochs_and_owners_and_goes_on_with_what_was_open() -> None:
    left: list[Who] = []
    names = [f"p{number}" for number in range(6)]

    async def with_one(broker: Broker) -> None:
        await broker.topics.create("old", 2, {})
        for name in names:
            who = await begin(broker, name)
            await put(broker, who, "old", name.encode())
            left.append(who)
        writer = await stage(broker, 7, owner="owner")
        await writer.write("old", 0, "staged")
        await commit(broker, 7, writer, owner="owner")

    async def with_three(broker: Broker) -> None:
        await broker.topics.create("new", SHARDS, {})
        assert set(shards_of(broker, "new")) == {1, 2} and shards_of(broker, "old") == [0, 0], "the emptiest"
        replaced = names[0]
        state = await broker.transactions.init(replaced, 60_000)
        assert (state.producer_id, state.epoch) > left[0][1:], "fenced by a later epoch of the same producer"
        with pytest.raises(ProducerFenced):
            await put(broker, left[0], "old", b"zombie")
        for who in left[1:]:
            await put(broker, who, "new", who[0].encode())
            await broker.transactions.end(*who, commit=True)
        assert all(kept_in(broker, name) == [0] for name in names)
        writer = await stage(broker, 7, owner="owner")
        assert (await commit(broker, 7, writer, owner="owner")).outcome == "already"
        writer = await stage(broker, 8, owner="owner")
        await writer.write("new", 1, "more")
        assert (await commit(broker, 8, writer, owner="owner")).outcome == "committed"
        await again(broker)

    async def again(broker: Broker) -> None:
        assert sorted(await read(broker, "old")) == sorted([*names[1:] * 2, "staged"])
        assert sorted(await read(broker, "new")) == sorted([*names[1:] * SHARDS, "more"])

    disk = tell(with_one, SimDisk(), sharded(1, settings()))
    tell(with_three, disk, THREE, at_s=1)
    tell(again, disk, THREE, at_s=2)
