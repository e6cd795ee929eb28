"""Rare turns: a producer that hangs up, topics that go, ends that are asked for again after a crash."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.broker import Broker
from goqueue.core.txn.effects import TxnEffect
from goqueue.core.txn.records import TxnStage
from goqueue.sim.disk import SimDisk
from tests.txn.checker import check
from tests.txn.history import History
from tests.txn.world import TOPIC, Client, cut_power, live, read_to_the_end, stuck


@pytest.mark.parametrize("turns", range(1, 12))
def test_a_producer_that_hangs_up_while_its_transaction_ends_leaves_nothing_in_doubt(turns: int) -> None:
    """Its request is given up at any point; whoever comes with its id can go on, and readers too."""

    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history)
        await client.init()
        client.begin()
        await client.write(0, "v0")
        await client.write(1, "v1")
        ending = asyncio.ensure_future(client.commit())
        for _ in range(turns):
            await asyncio.sleep(0)
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        heir = Client(broker, history)
        await heir.init()
        heir.begin()
        await heir.write(0, "h0")
        await heir.commit()
        await read_to_the_end(broker, history)
        assert stuck(broker) == []

    history = History()
    assert not live(SimDisk(), story, history)
    assert check(history) == []


@pytest.mark.parametrize("turns", range(1, 12))
def test_a_successor_that_hangs_up_leaves_nothing_in_doubt(turns: int) -> None:
    """The same while it ends what its predecessor left open."""

    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history)
        await client.init()
        client.begin()
        await client.write(0, "v0")
        heir = Client(broker, history)
        beginning = asyncio.ensure_future(heir.init())
        for _ in range(turns):
            await asyncio.sleep(0)
        beginning.cancel()
        await asyncio.gather(beginning, return_exceptions=True)
        await heir.init()
        heir.begin()
        await heir.write(0, "h0")
        await heir.commit()
        await read_to_the_end(broker, history)
        assert stuck(broker) == []

    history = History()
    assert not live(SimDisk(), story, history)
    assert check(history) == []


def test_a_topic_that_came_back_with_fewer_partitions() -> None:
    """What the transaction wrote is gone with the old topic; its end must not wait for a partition that is no more."""

    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history)
        await client.init()
        client.begin()
        await client.write(0, "v0")
        await client.write(1, "v1")
        await broker.topics.delete(TOPIC)
        await broker.topics.create(TOPIC, 1, {})
        async with asyncio.timeout(30):
            await client.commit()

    assert not live(SimDisk(), story, History())


def test_an_end_asked_for_again_after_a_crash_gives_the_new_epoch() -> None:
    """The client begins its sequences anew with it; with the old epoch its writes would count as repetitions."""
    disk, history = SimDisk(), History()
    client: list[Client] = []

    async def until_the_decision(broker: Broker, history: History) -> None:
        client.append(Client(broker, history, bumps=True))
        await client[0].init()
        client[0].begin()
        await client[0].write(0, "v0")

        async def no_time_left(effect: TxnEffect) -> None:
            assert broker.transactions.describe("p").stage is TxnStage.PREPARE_COMMIT
            cut_power(disk)

        broker.txn_effects.perform = no_time_left  # type: ignore[method-assign]
        await client[0].commit()

    async def again(broker: Broker, history: History) -> None:
        one, before = client[0], client[0].epoch
        one._broker = broker
        await one.commit()
        assert one.epoch > before
        one.begin()
        await one.write(0, "w0")
        await one.commit()
        await read_to_the_end(broker, history)

    assert live(disk, until_the_decision, history)
    assert not live(disk.crash("dropped"), again, history, at_s=1)
    assert check(history) == []
