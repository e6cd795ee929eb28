"""A broker with a bug planted in it: the checker names the kind. Without the bug the same story is flawless."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from goqueue.base.commands import PublishBatch
from goqueue.base.ids import Offset, TopicPartition
from goqueue.broker import Broker
from goqueue.core.dedupe import Dedupe
from goqueue.core.partition import PartitionState
from goqueue.core.partition_txns import PartitionTxns
from goqueue.core.txn import machine
from goqueue.core.txn.effects import Effect, TxnEffect, WriteMarker
from goqueue.core.txn.machine import Transactions
from goqueue.core.txn.questions import ALLOWED
from goqueue.core.txn.table import TransactionTable
from goqueue.drive.host import Host
from goqueue.drive.partition import Partition
from goqueue.drive.txn_coordinator import TransactionCoordinator
from goqueue.format.batch import split
from goqueue.format.records import NewRecord, build
from goqueue.service.txn_partitions import TransactionPartitions
from goqueue.sim.disk import SimDisk
from tests.txn.checker import Kind, check, kinds
from tests.txn.history import History, Outcome
from tests.txn.lives import Watch
from tests.txn.world import (
    TOPIC,
    Client,
    Reader,
    Story,
    cut_power,
    live,
    read_to_the_end,
    refused,
    transactional_batch,
)

Patch = pytest.MonkeyPatch
Lives = Callable[[SimDisk, History], None]
Plant = Callable[[Patch], None]


# --- stories -------------------------------------------------------------------------------------------------


def in_one_life(story: Story) -> Lives:
    async def whole(broker: Broker, history: History) -> None:
        await story(broker, history)
        await read_to_the_end(broker, history)

    def lives(disk: SimDisk, history: History) -> None:
        assert not live(disk, whole, history)

    lives.__name__ = story.__name__
    return lives


@in_one_life
async def a_zombie_writes(broker: Broker, history: History) -> None:
    """A producer is replaced in the middle of its transaction and goes on, while its successor works."""
    zombie, heir = Client(broker, history), Client(broker, history)
    await zombie.init()
    zombie.begin()
    await zombie.write(0, "z1")
    await heir.init()
    heir.begin()
    await heir.write(0, "h1")
    await refused(zombie.write(0, "z2", add=False))
    history.ended(zombie.txn, Outcome.ABORTED)  # it was replaced: nothing of it may ever be seen
    await heir.write(1, "h2")
    await heir.commit()


@in_one_life
async def a_late_write(broker: Broker, history: History) -> None:
    """A batch of an aborted transaction was long under way; it arrives while the next one is open."""
    client = Client(broker, history, bumps=True)
    await client.init()
    client.begin()
    await client.write(0, "a1")
    late = transactional_batch(["a2"], client.producer_id, client.epoch, 1)
    history.wrote(client.txn, 0, "a2")
    await client.abort()
    client.begin()
    await client.add(0)
    await refused(client.send(0, late))
    await client.write(1, "b1")
    await client.commit()


@in_one_life
async def commits_and_aborts(broker: Broker, history: History) -> None:
    """Two producers, one of each kind, and a reader that looks at every stage."""
    first, second = Client(broker, history, "a"), Client(broker, history, "b", bumps=True)
    watching = Reader(broker, history, "watching")
    await first.init()
    await second.init()
    for turn in range(6):
        for name, client in (("a", first), ("b", second)):
            client.begin()
            await client.write(0, f"{turn}.{name}.0")
            await client.write(1, f"{turn}.{name}.1", f"{turn}.{name}.2")
        await watching.poll()
        await (first.commit() if turn % 2 else first.abort())
        await watching.poll()
        await (second.commit() if turn % 3 else second.abort())
        await watching.poll()


@in_one_life
async def an_answer_is_lost(broker: Broker, history: History) -> None:
    """The producer sends its batch again, since it heard nothing."""
    client = Client(broker, history)
    await client.init()
    client.begin()
    batch = await client.write(0, "v1", "v2")
    await client.send(0, batch)
    await client.commit()


@in_one_life
async def one_large_poll(broker: Broker, history: History) -> None:
    client = Client(broker, history)
    await client.init()
    for turn in range(5):
        client.begin()
        await client.write(0, f"{turn}")
        await client.commit()
    await Reader(broker, history, "first").poll()


async def _writes_to_both(broker: Broker, history: History) -> Client:
    client = Client(broker, history)
    await client.init()
    client.begin()
    await client.write(0, "v0")
    await client.write(1, "v1")
    return client


def the_power_goes_after_the_answer(disk: SimDisk, history: History) -> None:
    async def story(broker: Broker, history: History) -> None:
        client = await _writes_to_both(broker, history)
        await client.commit()
        cut_power(disk)
        await broker.topics.create("other", 1, {})

    assert live(disk, story, history)
    assert not live(disk.crash("dropped"), read_to_the_end, history, at_s=60)


def the_power_goes_between_two_markers(disk: SimDisk, history: History) -> None:
    async def story(broker: Broker, history: History) -> None:
        client = await _writes_to_both(broker, history)

        effects = broker.txn_effects
        perform = effects.perform

        async def mark_the_first_only(effect: TxnEffect) -> None:
            if isinstance(effect, WriteMarker) and effect.partition == 0:
                await perform(effect)
                await effects.wait_durable([effect])
                cut_power(disk)

        effects.perform = mark_the_first_only  # type: ignore[method-assign]
        await client.commit()

    assert live(disk, story, history)
    assert not live(disk.crash("dropped"), read_to_the_end, history, at_s=60)


def the_power_goes_under_a_reader(disk: SimDisk, history: History) -> None:
    """It polls while a write is not safe yet; after the cut another value is written."""

    async def story(broker: Broker, history: History) -> None:
        history.wrote("alone", 0, "v0")
        batch = build([NewRecord(b"k", b"v0", (), 1_767_225_600_000)])
        broker.publish.append(PublishBatch(TopicPartition(TOPIC, 0), batch))
        await Reader(broker, history, "quick").poll()
        cut_power(disk)
        await broker.publish.wait_durable(TopicPartition(TOPIC, 0))

    async def later(broker: Broker, history: History) -> None:
        client = Client(broker, history)
        await client.init()
        client.begin()
        await client.write(0, "w0")
        await client.commit()
        await read_to_the_end(broker, history)

    assert live(disk, story, history)
    assert not live(disk.crash("dropped"), later, history, at_s=60)


STORIES: list[Lives] = [
    a_zombie_writes,
    a_late_write,
    commits_and_aborts,
    an_answer_is_lost,
    one_large_poll,
    the_power_goes_after_the_answer,
    the_power_goes_between_two_markers,
    the_power_goes_under_a_reader,
]


# --- bugs ----------------------------------------------------------------------------------------------------


def coordinator_without_fence(patch: Patch) -> None:
    patch.setattr(Transactions, "may_write", lambda *_: ALLOWED)


def partition_without_fence(patch: Patch) -> None:
    careful = Dedupe.check

    def careless(self: Dedupe, header: Any) -> Any:
        known = self._producers.get(header.producer_id)
        return None if known is not None and header.producer_epoch < known.epoch else careful(self, header)

    patch.setattr(Dedupe, "check", careless)


def no_fence(patch: Patch) -> None:
    coordinator_without_fence(patch)
    partition_without_fence(patch)


def one_epoch_for_all_transactions(patch: Patch) -> None:
    patch.setattr(machine, "bumped", lambda state, fresh_id: state)


def a_marker_is_skipped(patch: Patch) -> None:
    careful = TransactionPartitions.mark

    def careless(self: TransactionPartitions, effect: WriteMarker) -> None:
        if effect.partition != 1:
            careful(self, effect)

    patch.setattr(TransactionPartitions, "mark", careless)


def an_aborted_one_gets_a_commit_marker(patch: Patch) -> None:
    careful = TransactionPartitions.mark

    def careless(self: TransactionPartitions, effect: WriteMarker) -> None:
        careful(self, msgspec.structs.replace(effect, commit=effect.commit or effect.partition == 1))

    patch.setattr(TransactionPartitions, "mark", careless)


def an_early_answer(patch: Patch) -> None:
    def careless(self: TransactionCoordinator, effect: Effect) -> None:
        asyncio.get_running_loop().call_later(1, careful, self, effect)

    careful = TransactionCoordinator.perform
    patch.setattr(TransactionCoordinator, "perform", careless)
    patch.setattr(Host, "is_durable", True)


def the_doubtful_is_left_alone(patch: Patch) -> None:
    patch.setattr(TransactionTable, "in_doubt", lambda self: [])


def readers_are_not_told_what_is_aborted(patch: Patch) -> None:
    patch.setattr(PartitionTxns, "overlapping", lambda self, begin, end: [])


def readers_pass_open_transactions(patch: Patch) -> None:
    def careless(self: PartitionTxns, end: Offset) -> Offset:
        return end

    patch.setattr(PartitionTxns, "stable", careless)


def repetitions_are_stored(patch: Patch) -> None:
    patch.setattr(Dedupe, "check", lambda self, header: None)


def readers_do_not_wait_for_the_disk(patch: Patch) -> None:
    careful = PartitionState.appended

    def careless(self: PartitionState, end_offset: Offset) -> bool:
        self._reads_wait_for_sync = False
        return careful(self, end_offset)

    patch.setattr(PartitionState, "appended", careless)


def _first_large_read(patch: Patch, spoil: Callable[[list[bytes]], list[bytes]]) -> None:
    careful = Partition.read
    spoilt: list[bool] = []

    async def careless(self: Partition, *asked: Any) -> bytes:
        found = await careful(self, *asked)
        batches = [bytes(one) for one in split(found)]
        if self.at.topic != TOPIC or len(batches) < 6 or spoilt:
            return found
        spoilt.append(True)
        return b"".join(spoil(batches))

    patch.setattr(Partition, "read", careless)


def a_read_leaves_a_batch_out(patch: Patch) -> None:
    _first_large_read(patch, lambda batches: batches[:2] + batches[3:])


def a_read_swaps_batches(patch: Patch) -> None:
    _first_large_read(patch, lambda batches: [batches[2], batches[1], batches[0], *batches[3:]])


CAUGHT: list[tuple[Plant, Lives, Kind]] = [
    (no_fence, a_zombie_writes, Kind.ABORTED_READ),
    (one_epoch_for_all_transactions, a_late_write, Kind.ABORTED_READ),
    (readers_are_not_told_what_is_aborted, commits_and_aborts, Kind.ABORTED_READ),
    (readers_pass_open_transactions, commits_and_aborts, Kind.ABORTED_READ),
    (an_aborted_one_gets_a_commit_marker, commits_and_aborts, Kind.TORN),
    (a_marker_is_skipped, commits_and_aborts, Kind.TORN),
    (a_marker_is_skipped, commits_and_aborts, Kind.LOST),
    (an_early_answer, the_power_goes_after_the_answer, Kind.LOST),
    (the_doubtful_is_left_alone, the_power_goes_between_two_markers, Kind.TORN),
    (repetitions_are_stored, an_answer_is_lost, Kind.DOUBLED),
    (readers_do_not_wait_for_the_disk, the_power_goes_under_a_reader, Kind.TWO_VALUES),
    (a_read_leaves_a_batch_out, one_large_poll, Kind.SKIP),
    (a_read_swaps_batches, one_large_poll, Kind.REVERSAL),
]


def _name(one: object) -> str:
    return str(getattr(one, "__name__", one))


@pytest.mark.parametrize(("plant", "lives", "kind"), CAUGHT, ids=_name)
def test_the_checker_catches(monkeypatch: Patch, watched_lives: Watch, plant: Plant, lives: Lives, kind: Kind) -> None:
    plant(monkeypatch)
    history = History()
    lives(SimDisk(), history)
    watched_lives.forget()
    assert kind in kinds(history)


@pytest.mark.parametrize("lives", STORIES, ids=_name)
def test_without_a_bug_the_same_story_is_flawless(lives: Lives) -> None:
    history = History()
    lives(SimDisk(), history)
    assert check(history) == []
    assert history.final


@pytest.mark.parametrize("plant", [coordinator_without_fence, partition_without_fence], ids=_name)
def test_two_fences_stand_one_behind_the_other(monkeypatch: Patch, plant: Plant) -> None:
    """Either alone keeps a zombie out."""
    plant(monkeypatch)
    history = History()
    a_zombie_writes(SimDisk(), history)
    assert check(history) == []
