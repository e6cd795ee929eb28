"""The coordinator's log cannot be written, or not made durable: nobody is told what does not hold, and it goes on."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.errors import GoQueueError, StorageFailed
from goqueue.broker import Broker
from goqueue.core.txn.machine import Transactions, TxnLimits
from goqueue.core.txn.records import TxnStage
from goqueue.drive.partition import Partition
from goqueue.sim.disk import SimDisk
from tests.txn.checker import check
from tests.txn.history import History
from tests.txn.staged import world as staged
from tests.txn.world import Client, again, live, read_to_the_end, stuck


def refuse(broker: Broker, times: int) -> list[int]:
    """The next appends to the log of the coordinator of `p` fail; how many are left."""
    host, left = broker.txn_coordinators.of("p").host, [times]
    careful = host._append

    def append(records: object, now: int) -> int:
        if left[0]:
            left[0] -= 1
            raise StorageFailed("not now")
        return careful(records, now)  # type: ignore[arg-type]

    host._append = append  # type: ignore[method-assign]
    return left


def test_a_decision_that_is_refused_changes_nothing_and_can_be_asked_for_again() -> None:
    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history)
        await client.init()
        client.begin()
        await client.write(0, "v0")
        await client.write(1, "v1")
        before = broker.transactions.all()
        left = refuse(broker, 1)
        with pytest.raises(StorageFailed):
            await client.commit()
        assert left == [0] and broker.transactions.all() == before
        await client.commit()
        await read_to_the_end(broker, history)
        assert stuck(broker) == []

    history = History()
    assert not live(SimDisk(), story, history)
    assert check(history) == []


def test_an_end_whose_note_is_refused_is_noted_later() -> None:
    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history, bumps=True)
        await client.init()
        client.begin()
        await client.write(0, "v0")
        effects, noted = broker.txn_effects, list[list[int]]()
        wait_durable = effects.wait_durable

        async def then_refuse(sent: object) -> None:
            await wait_durable(sent)  # type: ignore[arg-type]
            if not noted:
                noted.append(refuse(broker, 2))

        effects.wait_durable = then_refuse  # type: ignore[method-assign, assignment]
        await client.commit()
        assert noted == [[0]] and client.epoch == 1
        await read_to_the_end(broker, history)

    history = History()
    assert not live(SimDisk(), story, history)
    assert check(history) == []


def test_a_transaction_whose_time_is_up_while_the_log_refuses_is_aborted_when_it_does_not() -> None:
    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history)
        await client.init()
        client.begin()
        await client.write(0, "v0")
        left = refuse(broker, 3)
        await asyncio.sleep(5.5)
        assert left[0] < 3 and broker.transactions.describe("p").stage is TxnStage.ONGOING
        await asyncio.sleep(10)
        assert left == [0] and broker.transactions.describe("p").stage is TxnStage.COMPLETE_ABORT
        assert stuck(broker) == [] and broker.transactions.tally.timed_out == 1

    assert not live(SimDisk(), story, History())


def test_after_a_sync_that_failed_the_end_is_carried_out_as_the_log_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked is told to ask again; what the log holds of the decision is carried out."""

    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history, bumps=True)
        await client.init()
        client.begin()
        await client.write(0, "v0")
        await client.write(1, "v1")
        coordinator = broker.txn_coordinators.of("p")
        loads, partition = coordinator.host.epoch, coordinator.host._partition
        careful, failed = Partition.wait_durable, list[bool]()

        async def fails(self: Partition) -> None:
            if self is partition and not failed:
                failed.append(True)
                raise StorageFailed("the disk failed")
            await careful(self)

        monkeypatch.setattr(Partition, "wait_durable", fails)
        with pytest.raises(GoQueueError):
            await client.commit()
        await asyncio.sleep(5)
        assert coordinator.host.epoch == loads + 1, "it loaded again"
        assert broker.transactions.describe("p").stage is TxnStage.COMPLETE_COMMIT
        await client.commit()
        client.begin()
        await client.write(0, "w0")
        await client.commit()
        await read_to_the_end(broker, history)
        assert stuck(broker) == []

    history = History()
    assert not live(SimDisk(), story, history)
    assert check(history) == []


def test_a_snapshot_and_the_log_make_the_same_table() -> None:
    async def story(broker: Broker, history: History) -> None:
        first, second = Client(broker, history, "a", bumps=True), Client(broker, history, "b")
        for client in (first, second):
            await client.init()
            client.begin()
            await client.write(0, f"{client._name}0")
        await first.commit()
        one = await staged.stage(broker, 0)
        await staged.commit(broker, 0, one)
        await staged.stage(broker, 1, "left open")
        partitions = broker.table.get("__transaction_state").partitions  # type: ignore[union-attr]
        for coordinator, partition in zip(broker.txn_coordinators, partitions, strict=True):
            table = coordinator.table
            fresh = Transactions(TxnLimits(1, 1, 1))
            for record in table.snapshot():
                fresh.apply(record)
            assert list(fresh.table.snapshot()) == list(table.snapshot()) and fresh.table.open() == table.open()
            await coordinator.load(partition)
            assert list(coordinator.table.snapshot()) == list(fresh.table.snapshot())
        await again(lambda: broker.transactions.end("b", second.producer_id, second.epoch, False))

    assert not live(SimDisk(), story, History())
