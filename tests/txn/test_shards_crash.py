"""Ids, partitions, groups, queue views and delayed messages of one transaction are in different shards, and the node
dies between any two steps: it is wholly visible or wholly invisible."""

from __future__ import annotations

import pytest

from goqueue.broker import Broker
from goqueue.sim.disk import CrashMode
from tests.cuts import steps_of
from tests.service import test_transactions_crash as everything
from tests.service.brokers import publish, settings, sharded
from tests.txn import test_power_cuts as power_cuts
from tests.txn.history import History
from tests.txn.shards import name_in, shards_of
from tests.txn.staged import test_crash as staged
from tests.txn.staged.world import OWNER
from tests.txn.test_effects import EVERYWHERE, die_everywhere
from tests.txn.world import TOPIC, Client, Reader, make_topic

SHARDS = 3
CUTS = [("always", "dropped"), pytest.param("interval", "kept", marks=pytest.mark.slow)]


def assert_apart(broker: Broker, *ids: str, topics: tuple[str, ...]) -> None:
    """These are in more than one shard, and so are the partitions among themselves."""
    shard_of = broker.node.shard_map
    partitions = [shard for topic in topics for shard in shards_of(broker, topic)]
    assert len({*partitions, *(shard_of.of_id(one) for one in ids)}) == SHARDS and len(set(partitions)) > 1


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("mode", ["kept", "dropped"])
def test_a_death_between_any_two_steps_of_an_end_that_crosses_shards(commit: bool, mode: CrashMode) -> None:
    assert die_everywhere(EVERYWHERE, commit, mode, SHARDS) >= 4 + commit * 6


async def places(broker: Broker) -> None:
    await broker.topics.create("in", 1, {})
    await publish(broker, "in", *(f"{n}" for n in range(everything.INPUTS)))
    await broker.topics.create("a", 2, {})
    await broker.topics.create("later", 1, {})
    assert_apart(broker, "p", "og", topics=("in", "a", "later"))


async def all_kinds(broker: Broker, ledger: everything.Ledger) -> None:
    """A commit and an abort."""
    await places(broker)
    who = await broker.transactions.init("p", everything.TIMEOUT_MS)
    who = await ledger.transact(broker, who, "first", 1, commit=True)
    await ledger.transact(broker, who, "second", 2, commit=False)


@pytest.mark.parametrize(("fsync", "mode"), CUTS)
def test_a_cut_at_every_write_of_transactions_that_cross_shards(fsync: str, mode: CrashMode) -> None:
    chosen = sharded(SHARDS, settings(fsync=fsync, fsync_interval_ms=100))
    first = steps_of(chosen, places)
    assert everything.cut_everywhere(chosen, mode, all_kinds, first) > first + 20


async def producers_of_all_shards(broker: Broker, history: History) -> None:
    """Each commits, aborts, and leaves something to its heir, over partitions of two shards."""
    clients = [Client(broker, history, name_in(broker, shard), bumps=shard == 1) for shard in range(SHARDS)]
    assert_apart(broker, *(one._name for one in clients), topics=(TOPIC,))
    watching = Reader(broker, history, "watching")
    for client in clients:
        await client.init()
    for client in clients:
        client.begin()
        await client.write(0, f"{client._name}.0")
        await client.write(1, f"{client._name}.1")
    for place, client in enumerate(clients):
        await (client.abort() if place == 1 else client.commit())
        await watching.poll()
    for client in clients:
        client.begin()
        await client.write(1, f"open.{client._name}")
        heir = Client(broker, history, client._name)
        await heir.init()
        heir.begin()
        await heir.write(0, f"heir.{client._name}")
        await heir.commit()
    await watching.poll()


@pytest.mark.parametrize("mode", ["kept", "dropped", pytest.param("torn", marks=pytest.mark.slow)])
def test_histories_of_producers_of_all_shards_can_be_wherever_the_power_goes(mode: CrashMode) -> None:
    chosen = sharded(SHARDS, settings(fsync="always"))
    first = steps_of(chosen, make_topic)
    assert power_cuts.cut_everywhere(chosen, mode, a_life=producers_of_all_shards, first=first) > first + 20


async def staged_places(broker: Broker) -> None:
    for topic, partitions in (("a", 2), ("b", 1)):
        await broker.topics.create(topic, partitions, {})
    assert_apart(broker, OWNER, topics=staged.TOPICS)


async def one_staged_batch(broker: Broker, ledger: staged.Ledger) -> None:
    await staged_places(broker)
    writers, values = await ledger.fill(broker, 0)
    await ledger.commit(broker, 0, writers, values)
    await ledger.commit(broker, 0, writers, values)


@pytest.mark.parametrize(("fsync", "mode"), CUTS)
def test_a_cut_at_every_write_of_a_staged_batch_that_crosses_shards(fsync: str, mode: CrashMode) -> None:
    chosen = sharded(SHARDS, staged.chosen_with(fsync=fsync, fsync_interval_ms=100))
    first = steps_of(chosen, staged_places)
    assert staged.cut_everywhere(chosen, mode, one_staged_batch, first) > first + 20
