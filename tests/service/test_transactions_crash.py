"""A node dies at any point of lives with transactions: each is wholly visible or wholly invisible, in logs, groups,
queues and the schedule, and nobody is held back for ever."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from goqueue.base.commands import Browse, InputMessage, Isolation, StoredAt
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.settings import Settings, TransactionSettings
from goqueue.broker import Broker
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.core.txn.records import TxnAnswer, TxnState
from goqueue.drive.coordinators import TRANSACTIONS_CODEC
from goqueue.drive.host import Host
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages
from goqueue.sim.disk import CrashMode, SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.cuts import CUT_STEP, at_leisure, first_cut, run_until_cut
from tests.service.brokers import broker_on, publish, settings

INPUTS = 4
TIMEOUT_MS = 20_000


class Ledger:
    """What was tried and what was answered."""

    def __init__(self) -> None:
        self.ended: dict[str, bool] = {}  # answered: committed or aborted
        self.inputs: dict[str, int] = {}  # the message that the transaction acks
        self.numbers: dict[str, int] = {}  # the offset that it moves the group to

    async def transact(self, broker: Broker, who: TxnState, name: str, number: int, commit: bool | None) -> TxnState:
        """Takes one message, publishes to two partitions and one delayed, moves a group, acks, and ends."""
        verbs = broker.transactions
        key = (who.transactional_id, who.producer_id, who.epoch)
        await verbs.begin(*key)
        take = Take("g", [TopicPartition("in", 0)], "me", 1)
        (taken,) = await broker.leasing.take(take)
        self.inputs[name] = taken.stored.offset
        self.numbers[name] = number
        await verbs.add_answers(*key, [TxnAnswer(taken.receipt)])
        value = name.encode()
        parts = [
            TopicMessages("a", [InputMessage(None, value, partition=0), InputMessage(None, value, partition=1)]),
            TopicMessages("later", [InputMessage(None, value, partition=0, delay_ms=50)]),
        ]
        for _ in range(2):  # sent again, as by a client that heard nothing
            await broker.txn_publish.publish(PublishInTransaction(*key, parts, sequence=0))
        commits = CommitRequest("og", "", -1, None, [OffsetCommit("in", 0, number)])
        await verbs.add_offsets(*key, commits, is_named=False)
        if commit is None:
            return who
        ended = await verbs.end(*key, commit=commit, bump=True)
        self.ended[name] = commit
        return ended

    async def check(self, broker: Broker) -> None:
        if broker.topics.find("later") is None:
            assert not self.ended
            return
        at_0, at_1 = await values(broker, "a", 0), await values(broker, "a", 1)
        later = await values(broker, "later", 0)
        assert all(count == 1 for count in (*at_0.values(), *at_1.values(), *later.values())), "twice"
        assert at_0 == at_1 == later, "torn"
        for name, committed in self.ended.items():
            assert (name in at_0) == committed, name
        moved = broker.groups.offsets("og").get(TopicPartition("in", 0))
        numbers = [self.numbers[name] for name in at_0]
        assert (moved.offset if moved else 0) == max(numbers, default=0), "the group was not moved with it"
        take = Take("g", [TopicPartition("in", 0)], "other", INPUTS)
        left = {one.stored.offset for one in await broker.leasing.take(take)}
        there = set(range(broker.topics.require("in").partitions[0].state.high_watermark))
        assert there - left == {self.inputs[name] for name in at_0}, "acks were not carried out with it"
        for partition in (*broker.topics.require("a").partitions, *broker.topics.require("in").partitions):
            assert partition.state.last_stable_offset == partition.state.high_watermark, "stuck"
        assert broker.transactions.open() == []


async def values(broker: Broker, topic: str, partition: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    offsets = {partition: 0}
    while True:
        page = await broker.browsing.read(Browse(topic, offsets, 100))
        if not page.messages:
            return seen
        seen.update((one.value or b"").decode() for one in page.messages)
        offsets = dict(page.next_offsets)


Script = Callable[[Broker, Ledger], Awaitable[None]]


async def a_life(broker: Broker, ledger: Ledger) -> None:
    """Two commits with an abort between them, one that is left open until its time is up, and its heir."""
    await broker.topics.create("in", 1, {})
    await publish(broker, "in", *(f"{n}" for n in range(INPUTS)))
    await broker.topics.create("a", 2, {})
    await broker.topics.create("later", 1, {})
    who = await broker.transactions.init("p", TIMEOUT_MS)
    who = await ledger.transact(broker, who, "first", 1, commit=True)
    who = await ledger.transact(broker, who, "second", 2, commit=False)
    await asyncio.sleep(0.2)
    who = await ledger.transact(broker, who, "third", 3, commit=True)
    await ledger.transact(broker, who, "silent", 4, commit=None)
    await asyncio.sleep(TIMEOUT_MS / 1000 + 1)
    who = await broker.transactions.init("p", TIMEOUT_MS)
    await ledger.transact(broker, who, "open", 5, commit=None)
    who = await broker.transactions.init("p", TIMEOUT_MS)
    await ledger.transact(broker, who, "heir", 6, commit=True)


def check_after(disk: SimDisk, chosen: Settings, ledger: Ledger) -> None:
    """Once what was open ran out of time; then again after a clean stop."""

    async def scenario(loop: VirtualLoop) -> None:
        loop._virtual.now_s = 60.0
        async with broker_on(disk, loop, at_leisure(chosen)) as broker:
            await asyncio.sleep(TIMEOUT_MS / 1000 + 90)  # leases that a transaction asked to extend hold so long
            await ledger.check(broker)
        async with broker_on(disk, loop, chosen) as broker:
            if broker.topics.find("later") is not None:
                assert await values(broker, "a", 0) == await values(broker, "later", 0)
                who = await broker.transactions.init("p", TIMEOUT_MS)
                key = ("p", who.producer_id, who.epoch)
                await broker.transactions.begin(*key)
                part = TopicMessages("a", [InputMessage(None, b"at last", partition=1)])
                (placed,) = await broker.txn_publish.publish(PublishInTransaction(*key, [part]))
                assert isinstance(placed, StoredAt)
                await broker.transactions.end(*key, commit=True, bump=True)
                assert "at last" in await values(broker, "a", 1)

    run_virtually(scenario)


def test_a_death_after_each_record_of_the_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written up to the record is there, nothing else."""
    careful = Host.write
    chosen = settings(fsync="interval", fsync_interval_ms=100)
    kinds: set[str] = set()
    number = 0
    while True:
        disk, ledger, written = SimDisk(), Ledger(), 0

        def write(
            self: Host[Any, Any],
            records: Sequence[Any],
            epoch: int | None = None,
            disk: SimDisk = disk,
            number: int = number,
        ) -> int:
            nonlocal written
            first = careful(self, records, epoch)
            if self._codec is not TRANSACTIONS_CODEC:
                return first
            if written == number:
                disk.crash_at = disk.steps
                kinds.add(str(getattr(records[0], "stage", "gone")))
            written += 1
            return first

        with monkeypatch.context() as patch:
            patch.setattr(Host, "write", write)
            cut = run_until_cut(disk, chosen, a_life, ledger)
        if not cut:
            break
        try:
            check_after(disk.crash("kept"), chosen, ledger)
        except BaseException:
            print(f"after record {number}")
            raise
        number += 1
    assert number > 30
    assert kinds == {"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}


def cut_everywhere(chosen: Settings, mode: CrashMode, script: Script, first: int = 0) -> int:
    crash_at = first + first_cut(mode)
    while True:
        disk, ledger = SimDisk(crash_at), Ledger()
        if not run_until_cut(disk, chosen, script, ledger):
            return crash_at
        try:
            check_after(disk.crash(mode, crash_at), chosen, ledger)
        except BaseException:
            print(f"crash_at={crash_at} mode={mode}")
            raise
        crash_at += CUT_STEP


@pytest.mark.parametrize(("fsync", "mode"), [("interval", "kept"), ("always", "dropped"), ("always", "torn")])
def test_a_cut_at_every_write(fsync: str, mode: CrashMode) -> None:
    assert cut_everywhere(settings(fsync=fsync, fsync_interval_ms=100), mode, a_life) > 150


@pytest.mark.parametrize("mode", ["dropped", "torn"])
def test_ends_that_wait_for_the_disk_where_nothing_else_does(mode: CrashMode) -> None:
    """With `transactions.sync=always` no power cut leaves a part of one, whatever else the last second loses."""
    chosen = msgspec.structs.replace(
        settings(fsync="interval", fsync_interval_ms=1_000), transactions=TransactionSettings(sync="always")
    )

    async def script(broker: Broker, ledger: Ledger) -> None:
        await broker.topics.create("in", 1, {})
        await publish(broker, "in", *(f"{n}" for n in range(INPUTS)))
        await broker.topics.create("a", 2, {})
        await broker.topics.create("later", 1, {})
        await broker.flusher.force()
        who = await broker.transactions.init("p", TIMEOUT_MS)
        who = await ledger.transact(broker, who, "first", 1, commit=True)
        who = await ledger.transact(broker, who, "second", 2, commit=False)
        who = await ledger.transact(broker, who, "third", 3, commit=True)

    assert cut_everywhere(chosen, mode, script) > 60


def test_isolation_is_chosen_by_the_reader() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop) as broker:
            await broker.topics.create("a", 1, {})
            who = await broker.transactions.init("p", TIMEOUT_MS)
            key = ("p", who.producer_id, who.epoch)
            await broker.transactions.begin(*key)
            part = TopicMessages("a", [InputMessage(None, b"v")])
            await broker.txn_publish.publish(PublishInTransaction(*key, [part]))
            assert not (await broker.browsing.read(Browse("a", {0: 0}, 10))).messages
            everything = Browse("a", {0: 0}, 10, isolation=Isolation.READ_UNCOMMITTED)
            assert len((await broker.browsing.read(everything)).messages) == 1

    run_virtually(scenario)
