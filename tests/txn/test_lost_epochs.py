"""A power cut takes what the coordinator wrote last and leaves what producers wrote: no epoch is used twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.core.txn.errors import ProducerFenced
from goqueue.core.txn.records import TxnStage
from goqueue.service.txn_recovery import TransactionRecovery
from goqueue.sim.disk import SimDisk
from tests.cuts import run_until_cut
from tests.service.brokers import settings
from tests.txn.history import History
from tests.txn.lives import Watch
from tests.txn.staged.world import read, stuck, tell
from tests.txn.world import TOPIC, Client, make_topic

Story = Callable[[Broker, Client], Awaitable[None]]


def sync(broker: Broker, partition: int) -> None:
    """Makes one partition safe, and nothing else."""
    log = broker.topics.require(TOPIC).partition(partition).log
    job = log.begin_sync()
    assert job is not None
    job.run()
    log.finish_sync(job)


def cut_after(story: Story, bumps: bool = True) -> tuple[SimDisk, Client]:
    """A producer that is known to the disk; then the story, of which the disk keeps only what it syncs itself."""
    disk = SimDisk()
    clients: list[Client] = []

    async def life(broker: Broker, ledger: None) -> None:
        await make_topic(broker)
        client = Client(broker, History(), bumps=bumps)
        clients.append(client)
        await client.init()
        await broker.flusher.force()
        await story(broker, client)
        disk.crash_at = disk.steps
        await broker.topics.create("other", 1, {})

    assert run_until_cut(disk, settings(), life, None)
    return disk.crash("dropped"), clients[0]


async def begins_and_writes(broker: Broker, client: Client) -> None:
    await client.init()
    client.begin()
    await client.write(0, "before")
    sync(broker, 0)


async def commits(broker: Broker, client: Client) -> None:
    client = Client(broker, History())
    await client.init()
    client.begin()
    await client.write(0, "after")
    await client.commit()


def test_what_is_written_after_the_cut_is_not_taken_for_what_was_written_before() -> None:
    async def after(broker: Broker) -> None:
        await commits(broker, Client(broker, History()))
        assert await read(broker, TOPIC) == ["after"] and stuck(broker, [TOPIC]) == []

    disk, _ = cut_after(begins_and_writes)
    tell(after, disk)


def test_without_the_care_it_would_be(monkeypatch: pytest.MonkeyPatch, watched_lives: Watch) -> None:
    async def careless(self: TransactionRecovery) -> int:
        return 0

    monkeypatch.setattr(TransactionRecovery, "pass_lost_epochs", careless)

    async def after(broker: Broker) -> None:
        await commits(broker, Client(broker, History()))
        assert await read(broker, TOPIC) == [], "the test would fail without the care"

    disk, _ = cut_after(begins_and_writes)
    tell(after, disk)
    with pytest.raises(AssertionError, match="lost write"):
        watched_lives.judge()


def test_a_transaction_that_lost_a_partition_is_not_committed_without_it() -> None:
    async def adds_another(broker: Broker, client: Client) -> None:
        client.begin()
        await client.write(0, "known")
        await broker.flusher.force()
        await client.write(1, "lost to the coordinator")
        sync(broker, 1)

    disk, client = cut_after(adds_another)

    async def after(broker: Broker) -> None:
        zombie = Client(broker, History(), bumps=True)
        zombie.producer_id, zombie.epoch = client.producer_id, client.epoch
        with pytest.raises(ProducerFenced):
            await zombie.commit()
        assert [state.stage for state in broker.transactions.all()] == [TxnStage.COMPLETE_ABORT]
        await commits(broker, zombie)
        assert await read(broker, TOPIC) == ["after"] and stuck(broker, [TOPIC]) == []

    tell(after, disk)


def test_one_that_lost_nothing_goes_on() -> None:
    async def writes(broker: Broker, client: Client) -> None:
        client.begin()
        await client.write(0, "known")
        await broker.flusher.force()

    disk, client = cut_after(writes)

    async def after(broker: Broker) -> None:
        assert await broker.txn_recovery.pass_lost_epochs() == 0
        key = ("p", client.producer_id, client.epoch)
        await broker.transactions.add_partitions(*key, [TopicPartition(TOPIC, 1)])
        await broker.transactions.end(*key, commit=True)
        assert await read(broker, TOPIC) == ["known"]

    tell(after, disk)


def test_a_disk_that_fails_does_not_keep_the_node_from_starting() -> None:
    disk, _ = cut_after(begins_and_writes)

    async def after(broker: Broker) -> None:
        (state,) = broker.transactions.all()

        def fails(records: object, epoch: int | None = None) -> int:
            raise GoQueueError("the disk failed")

        broker.topics.require(TOPIC).partition(0).dedupe.producers()[0].epoch = state.epoch + 5
        broker.txn_coordinators.of(state.transactional_id).host.write = fails  # type: ignore[method-assign]
        assert await broker.txn_recovery.pass_lost_epochs() == 0

    tell(after, disk)
