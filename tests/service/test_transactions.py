"""Transactions of a whole broker in virtual time: what is inside one happens with it, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.base.commands import (
    Browse,
    Fetch,
    Fetched,
    FetchFrom,
    InputMessage,
    Isolation,
    PublishBatch,
    PublishMessages,
    ScheduledAt,
    StoredAt,
)
from goqueue.base.errors import (
    GoQueueError,
    InvalidField,
    InvalidGroup,
    OffsetOutOfRange,
    OutOfOrderSequence,
    StaleReceipt,
    StorageFailed,
)
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Delivered, Take
from goqueue.broker import Broker
from goqueue.core.groups.errors import OffsetMetadataTooLarge
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.core.txn.effects import TxnEffect
from goqueue.core.txn.errors import InvalidTxnState, ProducerFenced
from goqueue.core.txn.questions import ALLOWED
from goqueue.core.txn.records import TxnAnswer, TxnStage, TxnState
from goqueue.drive.partition import Partition
from goqueue.format.records import InTransaction, NewRecord, build
from goqueue.log.reader import WouldBlock
from goqueue.service.fetch import Fetching
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.service.brokers import broker_alone, broker_on, publish, settings

Story = Callable[[Broker], Awaitable[None]]


def tell(story: Story, disk: SimDisk | None = None, **log: object) -> SimDisk:
    disk = disk or SimDisk()

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(disk, loop, settings(**log)) as broker:
            await story(broker)

    run_virtually(scenario)
    return disk


class Producer:
    """As a REST client is one: a new epoch after each transaction."""

    def __init__(self, broker: Broker, name: str = "p", timeout_ms: int = 60_000, session_ms: int = 0) -> None:
        self._broker = broker
        self._name, self._timeout_ms, self._session_ms = name, timeout_ms, session_ms
        self.key = (name, -1, -1)

    def _now(self, state: TxnState) -> None:
        self.key = (self._name, state.producer_id, state.epoch)

    async def begin(self, fresh: bool = False) -> Producer:
        if fresh or self.key[1] < 0:
            verbs = self._broker.transactions
            self._now(await verbs.init(self._name, self._timeout_ms, session_ms=self._session_ms))
        await self._broker.transactions.begin(*self.key)
        return self

    async def publish(self, topic: str, *messages: InputMessage | str, sequence: int | None = None) -> list[object]:
        made = [InputMessage(None, one.encode()) if isinstance(one, str) else one for one in messages]
        command = PublishInTransaction(*self.key, [TopicMessages(topic, made)], sequence)
        return list(await self._broker.txn_publish.publish(command))

    async def answer(self, *taken: Delivered, kind: str = "ack", **more: object) -> None:
        answers = [TxnAnswer(one.receipt, kind, **more) for one in taken]  # type: ignore[arg-type]
        await self._broker.transactions.add_answers(*self.key, answers)

    async def end(self, commit: bool = True) -> TxnState:
        state = await self._broker.transactions.end(*self.key, commit=commit, bump=True)
        self._now(state)
        return state


async def read(broker: Broker, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[str]:
    offsets = await broker.browsing.offsets_from(topic, "earliest")
    page = await broker.browsing.read(Browse(topic, offsets, 10_000, isolation=isolation))
    return [(one.value or b"").decode() for one in page.messages]


async def take(broker: Broker, topic: str = "in", limit: int = 1, wait_ms: int = 0) -> list[Delivered]:
    return await broker.leasing.take(Take("g", [TopicPartition(topic, 0)], "me", limit, wait_ms_max=wait_ms))


# --- readers ---------------------------------------------------------------------------------------------------


def test_an_open_transaction_holds_readers_back_only_until_its_time_is_up() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker, timeout_ms=5_000).begin()
        await producer.publish("t", "open")
        await publish(broker, "t", "plain")
        assert await read(broker, "t") == []
        assert await read(broker, "t", Isolation.READ_UNCOMMITTED) == ["open", "plain"]
        loop = asyncio.get_running_loop()
        began = loop.time()
        page = await broker.browsing.read(Browse("t", {0: 0}, 10, 60_000))
        assert [one.value for one in page.messages] == [b"plain"]
        assert 4.9 <= loop.time() - began <= 5.1
        assert broker.transactions.tally.timed_out == 1
        with pytest.raises(ProducerFenced):
            await producer.publish("t", "late")
        with pytest.raises(ProducerFenced):
            await producer.end()

    tell(story)


def test_a_silent_rest_producer_loses_its_transaction_and_a_beating_one_does_not() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        silent = await Producer(broker, "silent", session_ms=3_000).begin()
        alive = await Producer(broker, "alive", session_ms=3_000).begin()
        await silent.publish("t", "silent")
        await alive.publish("t", "alive")
        for _ in range(8):
            await asyncio.sleep(1)
            broker.transactions.beat(*alive.key[1:])
        assert [state.transactional_id for state in broker.transactions.open()] == ["alive"]
        await alive.end()
        assert await read(broker, "t") == ["alive"]

    tell(story)


def test_reading_from_the_latest_begins_where_an_open_transaction_does() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        await publish(broker, "t", "before")
        producer = await Producer(broker).begin()
        await producer.publish("t", "inside")
        assert await broker.browsing.offsets_from("t", "latest") == {0: 1}
        assert await broker.browsing.offsets_from("t", "latest", Isolation.READ_UNCOMMITTED) == {0: 2}
        await producer.end()
        assert await broker.browsing.offsets_from("t", "latest") == {0: 3}

    tell(story)


def test_queue_consumers_see_committed_messages_only_and_wake_up_for_them() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("in", 1, {})
        producer = await Producer(broker).begin()
        await producer.publish("in", "gone")
        await producer.end(commit=False)
        await producer.begin()
        await producer.publish("in", "there")
        waiting = asyncio.ensure_future(take(broker, limit=10, wait_ms=10_000))
        await asyncio.sleep(1)
        assert not waiting.done()
        await producer.end()
        assert [one.stored.value for one in await waiting] == [b"there"]

    tell(story)


@pytest.mark.parametrize("fsync", ["interval", "always"])
def test_a_fetch_tells_which_transactions_were_aborted(fsync: str) -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        await producer.publish("t", "a")
        await producer.end(commit=False)
        await producer.begin()
        await producer.publish("t", "b")
        await producer.end()
        part = FetchFrom(TopicPartition("t", 0), 0, 1 << 20)
        command = Fetch([part], 1 << 20, isolation=Isolation.READ_COMMITTED)
        (answer,) = await broker.fetching.fetch(command)
        assert list(answer.aborted) == [(producer.key[1], 0)]

    tell(story, fsync=fsync)


def test_aborted_messages_that_are_deleted_while_they_are_read_are_not_handed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_off_loop = Partition._read_off_loop

    async def while_deleted(self: Partition, *asked: int) -> bytes:
        found = await read_off_loop(self, *asked)
        self.log.begin_drop_head(self.end_offset).run()
        self.state.txns.cut_head(self.start_offset)  # as the cleaner does
        return found

    def wait(*_: object) -> bytes:
        raise WouldBlock

    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        await producer.publish("t", "a")
        await producer.end(commit=False)
        partition = broker.topics.require("t").partition(0)
        read = partition.log.read
        monkeypatch.setattr(type(partition.log), "read", lambda self, *asked: read(*asked) if asked[3] else wait())
        monkeypatch.setattr(Partition, "_read_off_loop", while_deleted)
        command = Fetch([FetchFrom(partition.at, 0, 1 << 20)], 1 << 20, isolation=Isolation.READ_COMMITTED)
        (answer,) = await broker.fetching.fetch(command)
        assert isinstance(answer.error, OffsetOutOfRange) and not answer.batches

    tell(story)


def test_aborted_messages_that_are_deleted_before_they_are_decoded_are_not_handed_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch = Fetching.fetch

    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        await producer.publish("t", "a")
        await producer.end(commit=False)
        await publish(broker, "t", "b")
        partition = broker.topics.require("t").partition(0)

        async def deleted(self: Fetching, *asked: Any) -> list[Fetched]:
            found = await fetch(self, *asked)
            partition.log.begin_drop_head(2).run()
            partition.state.txns.cut_head(partition.start_offset)
            return found

        monkeypatch.setattr(Fetching, "fetch", deleted)
        assert await read(broker, "t") == ["b"]

    tell(story)


# --- acks, dead letters, offsets, delays -----------------------------------------------------------------------


def test_ack_and_publish_are_one() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("in", 1, {})
        await broker.topics.create("out", 1, {})
        await publish(broker, "in", "x")
        producer = await Producer(broker).begin()
        (taken,) = await take(broker)
        await producer.answer(taken)
        await producer.publish("out", "y")
        await producer.end(commit=False)
        assert await read(broker, "out") == []
        (again,) = await take(broker)
        assert (again.stored.offset, again.attempt, again.failures) == (0, 2, 0), "given back, and no failure"
        await producer.begin()
        await producer.answer(again)
        await producer.publish("out", "z")
        await producer.end()
        assert await read(broker, "out") == ["z"]
        await asyncio.sleep(300)
        assert await take(broker) == []

    tell(story)


def test_a_message_that_its_consumer_lost_cannot_be_acked_by_a_commit() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("in", 1, {})
        await broker.topics.create("out", 1, {})
        await publish(broker, "in", "x")
        producer = await Producer(broker).begin()
        (taken,) = await take(broker)
        await producer.answer(taken)
        await producer.publish("out", "y")
        broker.leasing.release("g", "me")
        with pytest.raises(StaleReceipt):
            await producer.end()
        assert broker.transactions.describe("p").stage is TxnStage.ONGOING
        await producer.end(commit=False)
        assert await read(broker, "out") == []

    tell(story)


def test_between_the_decision_and_the_ack_nobody_can_take_the_message_away() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("in", 1, {})
        await publish(broker, "in", "x")
        producer = await Producer(broker).begin()
        (taken,) = await take(broker)
        await producer.answer(taken)
        effects = broker.txn_effects
        perform = effects.perform

        async def slowly(effect: TxnEffect) -> None:
            broker.leasing.release("g", "me")  # its consumer leaves the group
            await asyncio.sleep(600)  # and the disk is slow
            await perform(effect)

        effects.perform = slowly  # type: ignore[method-assign]
        await producer.end()
        await asyncio.sleep(3_600)
        assert await take(broker) == []

    tell(story)


def test_a_rejection_inside_a_transaction_moves_the_message_to_the_dead_letters_with_it() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("in", 1, {})
        await publish(broker, "in", "bad")
        producer = await Producer(broker).begin()
        (taken,) = await take(broker)
        await producer.answer(taken, kind="reject", reason="no such customer")
        await producer.end(commit=False)
        await asyncio.sleep(5)
        assert broker.topics.find("in.dlq") is None
        (taken,) = await take(broker)
        await producer.begin()
        await producer.answer(taken, kind="reject", reason="no such customer")
        await producer.end()
        await asyncio.sleep(5)
        assert await read(broker, "in.dlq") == ["bad"]
        assert await take(broker) == []

    tell(story)


def test_a_nack_inside_a_transaction_counts_as_a_failure_once_it_commits() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("in", 1, {})
        await publish(broker, "in", "x")
        producer = await Producer(broker).begin()
        (taken,) = await take(broker)
        await producer.answer(taken, kind="nack", delay_ms=2_000)
        await producer.end()
        assert await take(broker) == []
        (again,) = await take(broker, wait_ms=3_000)
        assert again.failures == 1

    tell(story)


def test_delayed_messages_are_scheduled_by_the_commit_and_never_by_an_abort() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        (told,) = await producer.publish("t", InputMessage(None, b"never", delay_ms=1_000))
        assert isinstance(told, ScheduledAt) and told.offset == -1
        await asyncio.sleep(2)
        assert (await broker.scheduling.stats()).pending == 0
        await producer.end(commit=False)
        await producer.begin()
        await producer.publish(
            "t", InputMessage(None, b"soon", delay_ms=1_000), InputMessage(None, b"late", delay_ms=90_000)
        )
        await asyncio.sleep(2)
        assert await read(broker, "t") == []
        await producer.end()
        await asyncio.sleep(0.1)
        assert await read(broker, "t") == ["soon"], "its time was up before the commit"
        await asyncio.sleep(100)
        assert await read(broker, "t") == ["soon", "late"]
        assert broker.txn_coordinators.delayed_bytes == 0

    tell(story)


def test_offsets_move_with_the_commit_and_are_unstable_until_then() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        await publish(broker, "t", "x", "y")
        at = TopicPartition("t", 0)
        producer = await Producer(broker).begin()
        asked = CommitRequest("g", "", -1, None, [OffsetCommit("t", 0, 2)])
        with pytest.raises(InvalidTxnState):
            await broker.transactions.add_offsets(*producer.key, asked)  # Kafka's producers name the group first
        await broker.transactions.add_group(*producer.key, "g")
        await broker.transactions.add_offsets(*producer.key, asked)
        assert broker.transactions.unstable("g") == {at}
        assert broker.transactions.unstable("other") == set()
        assert at not in broker.groups.offsets("g")
        await producer.end()
        assert broker.transactions.unstable("g") == set()
        assert broker.groups.offsets("g")[at].offset == 2

    tell(story)


# --- repeated requests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "metadata", "refused"), [("g", "x" * 5_000, OffsetMetadataTooLarge), ("", "", InvalidGroup)]
)
def test_offsets_that_no_commit_could_move_are_refused_at_once(
    group: str, metadata: str, refused: type[GoQueueError]
) -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("in", 1, {})
        producer = await Producer(broker).begin()
        asked = CommitRequest(group, "", -1, None, [OffsetCommit("in", 0, 5, -1, metadata)])
        with pytest.raises(refused):
            await broker.transactions.add_offsets(*producer.key, asked, is_named=False)
        fine = CommitRequest("g", "", -1, None, [OffsetCommit("in", 0, 5)])
        await broker.transactions.add_offsets(*producer.key, fine, is_named=False)
        await producer.end()
        assert broker.groups.offsets("g")[TopicPartition("in", 0)].offset == 5

    tell(story)


def test_a_publish_with_a_number_is_stored_once_however_often_it_is_sent() -> None:
    big = [InputMessage(None, bytes(400_000), partition=0) for _ in range(14)]  # seven batches: more than the last five

    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        first = await producer.publish("t", *big, sequence=0)
        assert await producer.publish("t", *big, sequence=0) == first
        second = await producer.publish("t", "x", sequence=1)
        assert await producer.publish("t", "x", sequence=1) == second
        with pytest.raises(InvalidField):
            await producer.publish("t", "x", "y", sequence=1)
        await producer.publish("t", *(f"{n}" for n in range(3)), sequence=7)
        assert await producer.publish("t", *big, sequence=0) == first
        for sequence in range(8, 13):
            await producer.publish("t", "x", sequence=sequence)
        with pytest.raises(OutOfOrderSequence):
            await producer.publish("t", *big, sequence=0)
        await producer.end()
        assert len(await read(broker, "t")) == 14 + 1 + 3 + 5

    tell(story)


def test_the_number_is_remembered_over_a_restart() -> None:
    kept: list[object] = []

    async def before(broker: Broker) -> None:
        await broker.topics.create("t", 3, {})
        producer = await Producer(broker).begin()
        kept.append(await producer.publish("t", *(f"{n}" for n in range(9)), sequence=3))
        kept.append(producer.key)

    async def after(broker: Broker) -> None:
        producer = Producer(broker)
        producer.key = kept[1]  # type: ignore[assignment]
        assert await producer.publish("t", *(f"{n}" for n in range(9)), sequence=3) == kept[0]
        await producer.end()
        assert len(await read(broker, "t")) == 9

    tell(after, tell(before))


def test_a_request_with_a_mistake_stores_nothing() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        with pytest.raises(GoQueueError):
            await producer.publish("t", "good", InputMessage(None, b"bad", partition=9))
        await producer.end()
        assert await read(broker, "t", Isolation.READ_UNCOMMITTED) == []

    tell(story)


def test_requests_of_one_producer_wait_for_each_other() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        told = await asyncio.gather(*(producer.publish("t", f"{n}") for n in range(20)))
        assert sorted(one.offset for (one,) in told if isinstance(one, StoredAt)) == list(range(20))
        await producer.end()
        assert len(await read(broker, "t")) == 20

    tell(story, fsync="always")


def test_beginning_twice_is_fine_until_something_was_done() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        await producer.begin()
        await producer.publish("t", "x")
        with pytest.raises(InvalidTxnState):
            await producer.begin()

    tell(story)


# --- restarts and repairs --------------------------------------------------------------------------------------


def test_messages_whose_transaction_nobody_knows_are_aborted_at_the_start() -> None:
    """A power cut took the coordinator's last records, not the messages."""

    async def before(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        broker.txn_coordinators.of_producer(900).machine.may_write = lambda *_: ALLOWED  # type: ignore[method-assign]
        batch = build([NewRecord(None, b"orphan", (), 5)], 0, InTransaction(900, 3, 0))
        await broker.publish.batch(PublishBatch(TopicPartition("t", 0), batch))
        await publish(broker, "t", "plain")
        assert await read(broker, "t") == []

    async def after(broker: Broker) -> None:
        assert await read(broker, "t") == ["plain"]

    disk = tell(before)
    tell(after, disk)
    tell(after, disk)


def test_an_end_that_cannot_be_carried_out_at_the_start_is_carried_out_later() -> None:
    async def before(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        await producer.publish("t", "x")
        coordinator = broker.txn_coordinators.of(producer.key[0])
        coordinator.host.write(coordinator.machine.end(*producer.key, True, 0, bump=True).records)

    async def after(broker: Broker) -> None:
        assert await read(broker, "t") == []
        await asyncio.sleep(3)
        assert await read(broker, "t") == ["x"]
        assert broker.transactions.describe("p").epoch == 1, "its next transaction has an epoch of its own"

    disk = tell(before)

    async def scenario(loop: VirtualLoop) -> None:
        broker = broker_alone(settings(), disk, VirtualClock(loop))
        effects, failures = broker.txn_effects, iter(range(2))
        perform = effects.perform

        async def fails_twice(effect: TxnEffect) -> None:
            for _ in failures:
                raise StorageFailed("not now")
            await perform(effect)

        effects.perform = fails_twice  # type: ignore[method-assign]
        await broker.start()
        await after(broker)
        await broker.stop()

    run_virtually(scenario)


def test_an_administrator_ends_a_transaction_and_its_producer_is_shut_out() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        producer = await Producer(broker).begin()
        await producer.publish("t", "x")
        with pytest.raises(InvalidTxnState):
            await broker.transactions.mark(TopicPartition("t", 0), producer.key[1], 0, True)
        ended = await broker.transactions.abort_any("p")
        assert ended.stage is TxnStage.COMPLETE_ABORT
        with pytest.raises(ProducerFenced):
            await producer.end()
        await publish(broker, "t", "after")
        assert await read(broker, "t") == ["after"]

    tell(story)


def test_topics_that_were_deleted_do_not_hold_up_an_end() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, {})
        await broker.topics.create("gone", 1, {})
        producer = await Producer(broker).begin()
        await producer.publish("t", "x")
        await producer.publish("gone", InputMessage(None, b"y"), InputMessage(None, b"z", delay_ms=10))
        await broker.topics.delete("gone")
        await producer.end()
        await asyncio.sleep(1)
        assert await read(broker, "t") == ["x"]

    tell(story)


# --- compaction ------------------------------------------------------------------------------------------------

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": 1_024,
    "min.cleanable.dirty.ratio": 0.01,
    "delete.retention.ms": 86_400_000,
}


def keyed(key: str, value: str) -> InputMessage:
    return InputMessage(key.encode(), value.encode() + bytes(200))


async def values(broker: Broker, isolation: Isolation = Isolation.READ_COMMITTED) -> dict[str, str]:
    page = await broker.browsing.read(Browse("t", {0: 0}, 10_000, isolation=isolation))
    return {(one.key or b"").decode(): (one.value or b"").rstrip(b"\0").decode() for one in page.messages}


def test_compaction_drops_aborted_messages_and_they_hide_nothing() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, COMPACTED)
        producer = await Producer(broker).begin()
        await producer.publish("t", keyed("k", "kept"))
        await producer.end()
        await producer.begin()
        await producer.publish("t", keyed("k", "aborted"), keyed("only", "aborted"))
        await producer.end(commit=False)
        for number in range(12):
            await producer.begin()
            await producer.publish("t", keyed(f"fill-{number}", "x"))
            await producer.end()
        log = broker.topics.require("t").partitions[0].log
        before = log.size_bytes
        await broker.cleaner.clean_all()
        assert log.size_bytes < before and log.notes.meta.compacted_to > 4
        found = await values(broker)
        assert found["k"] == "kept" and "only" not in found and len(found) == 13
        assert "only" not in await values(broker, Isolation.READ_UNCOMMITTED)

    async def after(broker: Broker) -> None:
        found = await values(broker)
        assert found["k"] == "kept" and "only" not in found and len(found) == 13

    tell(after, tell(story))


def test_compaction_stops_before_an_open_transaction() -> None:
    async def story(broker: Broker) -> None:
        await broker.topics.create("t", 1, COMPACTED)
        for number in range(6):
            await broker.publish.messages(_plain(keyed("k", f"{number}")))
        open_ = await Producer(broker, timeout_ms=900_000).begin()
        await open_.publish("t", keyed("k", "open"))
        first = broker.topics.require("t").partitions[0].state.last_stable_offset
        for number in range(12):
            await broker.publish.messages(_plain(keyed("other", f"{number}")))
        await broker.cleaner.clean_all()
        log = broker.topics.require("t").partitions[0].log
        assert 0 < log.notes.meta.compacted_to <= first
        await open_.end(commit=False)
        await broker.cleaner.clean_all()
        assert await values(broker) == {"k": "5", "other": "11"}

    tell(story)


def _plain(message: InputMessage) -> PublishMessages:
    return PublishMessages("t", [message])


def test_two_transactions_that_end_in_one_millisecond_both_move_the_group() -> None:
    """Of one producer and epoch: older clients of Kafka keep theirs."""

    async def story(broker: Broker) -> None:
        await broker.topics.create("in", 1, {})
        producer = Producer(broker)
        for offset in (5, 6):
            await producer.begin()
            request = CommitRequest("g", "", -1, None, [OffsetCommit("in", 0, offset)])
            await broker.transactions.add_offsets(*producer.key, request, is_named=False)
            await broker.transactions.end(*producer.key, commit=True)
            at = TopicPartition("in", 0)
            assert broker.groups.offsets("g", [at])[at].offset == offset

    tell(story)
