"""An end is carried out in many places. A death between any two steps, and every step done again, leaves nothing undone
and does nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec
import pytest

from goqueue.base.commands import InputMessage
from goqueue.base.encoding import decode, encode
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Take
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.core.txn import machine
from goqueue.core.txn.effects import TransactionEnd, TxnEffect, end_of
from goqueue.core.txn.records import TxnAnswer, TxnStage
from goqueue.core.txn.table import TransactionTable
from goqueue.drive.partition_producers import PartitionProducers
from goqueue.drive.schedule import Schedule
from goqueue.format.batch import read_header
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages
from goqueue.sim.disk import CrashMode, SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.cuts import run_until_cut
from tests.service.brokers import broker_on, publish, settings, sharded
from tests.txn.lives import Watch
from tests.txn.staged.world import read

Place = Literal["partitions", "groups", "ack", "nack", "reject", "delayed"]
EVERYWHERE: Final[list[Place]] = ["partitions", "groups", "ack", "nack", "reject", "delayed"]
IN: Final = TopicPartition("in", 0)


class Courier:
    """Sends effects as bytes, each twice, and dies before the step of that number."""

    def __init__(self, disk: SimDisk, dies_at: int = -1) -> None:
        self.steps = 0
        self._disk = disk
        self._dies_at = dies_at

    def join(self, broker: Broker) -> None:
        effects = broker.txn_effects
        perform, wait_durable = effects.perform, effects.wait_durable

        async def twice(effect: TxnEffect) -> None:
            self._step()
            for _ in range(2):
                await perform(decode(encode(effect), TxnEffect))  # type: ignore[arg-type]

        async def wait(sent: Sequence[TxnEffect]) -> None:
            self._step()
            await wait_durable(sent)
            self._step()

        effects.perform, effects.wait_durable = twice, wait  # type: ignore[method-assign, assignment]

    def _step(self) -> None:
        if self.steps == self._dies_at:
            self._disk.crash_at = self._disk.steps
            self._disk.step()
        self.steps += 1


class Transaction:
    """One that touches these places, and what is to be found there when it is over."""

    def __init__(self, places: Sequence[Place], commit: bool) -> None:
        self._places = places
        self._commit = commit
        self._answered: dict[int, Place] = {}

    async def run(self, broker: Broker, courier: Courier) -> None:
        courier.join(broker)
        for topic, partitions in (("in", 1), ("out", 2), ("later", 1)):
            await broker.topics.create(topic, partitions, {})
        await publish(broker, "in", *(f"x{number}" for number in range(4)))
        state = await broker.transactions.init("p", 60_000)
        who = ("p", state.producer_id, state.epoch)
        await broker.transactions.begin(*who)
        for place in self._places:
            await self._touch(broker, who, place)
        await broker.flusher.force()
        await broker.transactions.end(*who, commit=self._commit, bump=True)

    async def _touch(self, broker: Broker, who: tuple[str, int, int], place: Place) -> None:
        if place == "partitions":
            messages = [InputMessage(None, b"v", partition=number) for number in range(2)]
            await broker.txn_publish.publish(PublishInTransaction(*who, [TopicMessages("out", messages)]))
        elif place == "delayed":
            messages = [InputMessage(None, value, delay_ms=50) for value in (b"d0", b"d1")]
            await broker.txn_publish.publish(PublishInTransaction(*who, [TopicMessages("later", messages)]))
        elif place == "groups":
            for group, offset in (("g1", 1), ("g2", 2)):
                asked = CommitRequest(group, "", -1, None, [OffsetCommit("in", 0, offset)])
                await broker.transactions.add_offsets(*who, asked, is_named=False)
        else:
            (taken,) = await broker.leasing.take(Take("q", [IN], "me", 1))
            self._answered[taken.stored.offset] = place
            await broker.transactions.add_answers(*who, [TxnAnswer(taken.receipt, place)])

    async def check(self, broker: Broker) -> None:
        await asyncio.sleep(10)  # what was nacked comes again
        (state,) = broker.transactions.all()
        assert state.stage is (TxnStage.COMPLETE_COMMIT if self._commit else TxnStage.COMPLETE_ABORT)
        assert state.epoch == 1, "one end, one new epoch"
        await self._check_logs(broker)
        for group, offset in (("g1", 1), ("g2", 2)):
            moved = broker.groups.offsets(group).get(IN)
            assert (moved.offset if moved else None) == (offset if self._is_done("groups") else None)
        await self._check_queue(broker)

    def _is_done(self, place: Place) -> bool:
        return self._commit and place in self._places

    async def _check_logs(self, broker: Broker) -> None:
        assert await read(broker, "out") == (["v", "v"] if self._is_done("partitions") else [])
        assert Counter(await read(broker, "later")) == Counter(["d0", "d1"] if self._is_done("delayed") else [])
        for partition in broker.topics.require("out").partitions:
            headers = [read_header(batch) for batch in partition.log.batches(0)]
            assert [one.is_control for one in headers] == ([False, True] if "partitions" in self._places else [])
            assert partition.last_stable_offset == partition.high_watermark

    async def _check_queue(self, broker: Broker) -> None:
        """An ack and a rejection take a message away; a nack counts as a failure; an abort gives all back."""
        assert sum(one.in_flight for one in broker.queue_stats.reliability("q", "in")) == 0, "held for ever"
        found = await broker.leasing.take(Take("q", [IN], "other", 10))
        failures = {one.stored.offset: one.failures for one in found}
        answered = self._answered if self._commit else {}
        expected = {offset: int(answered.get(offset) == "nack") for offset in range(4)}
        assert failures == {
            offset: count for offset, count in expected.items() if answered.get(offset) not in ("ack", "reject")
        }
        rejected = [f"x{offset}" for offset, place in answered.items() if place == "reject"]
        is_there = broker.topics.find("in.dlq") is not None
        assert (await read(broker, "in.dlq") if is_there else []) == rejected


def chosen_for(mode: CrashMode, shards: int = 0) -> Settings:
    chosen = settings(fsync="interval" if mode == "kept" else "always", fsync_interval_ms=1_000)
    return sharded(shards, chosen)


def start_again(disk: SimDisk, mode: CrashMode, transaction: Transaction) -> None:
    """The last life: what is still in doubt is sent twice once more."""
    chosen = chosen_for(mode)

    async def scenario(loop: VirtualLoop) -> None:
        loop._virtual.now_s = 5.0
        async with broker_on(disk, loop, chosen) as broker:
            await transaction.check(broker)

    run_virtually(scenario)


def from_the_start(courier: Courier, patch: pytest.MonkeyPatch) -> Courier:
    """It is there before a broker finishes what was in doubt."""
    careful = Broker.start

    async def start(self: Broker) -> object:
        courier.join(self)
        return await careful(self)

    patch.setattr(Broker, "start", start)
    return courier


async def only_start(broker: Broker, courier: Courier) -> None:
    """A life that is over when what was in doubt is done."""


def die_everywhere(places: Sequence[Place], commit: bool, mode: CrashMode, shards: int = 0) -> int:
    """Returns how many steps there are."""
    chosen = chosen_for(mode, shards)
    dies_at = 0
    while True:
        disk, transaction = SimDisk(), Transaction(places, commit)
        was_cut = run_until_cut(disk, chosen, transaction.run, Courier(disk, dies_at))
        start_again(disk.crash(mode, dies_at), mode, transaction)
        if not was_cut:
            return dies_at
        dies_at += 1


@pytest.mark.parametrize("mode", ["kept", "dropped"])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("places", [*([one] for one in EVERYWHERE), EVERYWHERE], ids="+".join)
def test_a_death_between_any_two_steps(places: list[Place], commit: bool, mode: CrashMode) -> None:
    steps = die_everywhere(places, commit, mode)
    assert steps >= 2 + (2 if "partitions" in places else 0) + (commit and len(places) > 1) * 6


def test_a_second_death_while_a_start_finishes_what_the_first_one_left(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(fsync="interval", fsync_interval_ms=1_000)
    deaths: Counter[int] = Counter()
    first = 0
    while True:
        disk, transaction = SimDisk(), Transaction(["partitions", "groups", "ack", "delayed"], commit=True)
        if not run_until_cut(disk, chosen, transaction.run, Courier(disk, first)):
            break
        second = 0
        while True:
            again = disk.crash("kept")
            with monkeypatch.context() as patch:
                was_cut = run_until_cut(again, chosen, only_start, from_the_start(Courier(again, second), patch))
            start_again(again.crash("kept"), "kept", transaction)
            if not was_cut:
                break
            deaths[first] += 1
            second += 1
        first += 1
    assert len(deaths) == first and min(deaths.values()) == max(deaths.values()) == first, deaths


# --- planted bugs ----------------------------------------------------------------------------------------------


def markers_are_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionProducers, "needs_marker", lambda *_: True)


def marked_entries_are_not_recognised(patch: pytest.MonkeyPatch) -> None:
    async def none(self: Schedule, start: int) -> set[str]:
        return set()

    patch.setattr(Schedule, "marks", none)


def the_doubtful_is_left_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionTable, "in_doubt", lambda self: [])


def an_end_is_noted_without_its_last_effect(patch: pytest.MonkeyPatch) -> None:
    def careless(end: TransactionEnd) -> TransactionEnd:
        return msgspec.structs.replace(end, effects=end.effects[:-1])

    patch.setattr(machine, "end_of", lambda *given: careless(end_of(*given)))


@pytest.mark.parametrize(
    ("plant", "place"),
    [
        (markers_are_written_again, "partitions"),
        (marked_entries_are_not_recognised, "delayed"),
        *((the_doubtful_is_left_alone, place) for place in EVERYWHERE),
        *((an_end_is_noted_without_its_last_effect, place) for place in EVERYWHERE),
    ],
)
def test_a_planted_bug_is_caught(
    monkeypatch: pytest.MonkeyPatch, watched_lives: Watch, plant: Callable[[pytest.MonkeyPatch], None], place: Place
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        die_everywhere([place], True, "kept")
    watched_lives.forget()
