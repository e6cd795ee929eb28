"""A minute of a three-node cluster under load and faults, in virtual time, for many seeds: what was promised holds."""

from __future__ import annotations

import asyncio
import logging
import os
from functools import partial
from typing import Final

import pytest

from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.log_settings import Fsync
from goqueue.broker import Broker
from goqueue.sim.cluster import ClusterPlan, SimCluster
from goqueue.sim.faults import Faults
from goqueue.sim.time import VirtualLoop, run_virtually
from goqueue.sim.workload import (
    IdempotentProducer,
    LeaseLedger,
    LogReader,
    Violation,
    Worker,
    check_log,
    check_replicas,
    read_from,
)

LONG: Final = os.environ.get("GOQUEUE_LONG_TESTS") == "1"
SEEDS: Final = range(int(os.environ.get("SIM_FROM", "0")), int(os.environ.get("SIM_TO", "2000" if LONG else "6")))
SECONDS: Final = 60.0 if LONG else 10.0
WORKERS = int(os.environ.get("SIM_WORKERS", "2"))
TOPIC: Final = "t"
PARTITIONS: Final = 3


async def minute(loop: VirtualLoop, seed: int, fsync: Fsync) -> list[str]:
    """What happened; `Violation` if it must not."""
    cluster = SimCluster(loop, seed, ClusterPlan(fsync=fsync))
    await cluster.start()
    await cluster.nodes[0].ask(lambda broker: broker.topics.create(TOPIC, PARTITIONS, {}))
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    await cluster.until(lambda: all(cluster.leader_of(at) is not None for at in places))
    producers = {at: IdempotentProducer(cluster, at, 1_000 + number) for number, at in enumerate(places)}
    readers, ledger = {at: LogReader(cluster, at) for at in places}, LeaseLedger()
    workers = [Worker(cluster, ledger, places, f"worker {number}") for number in range(WORKERS)]
    runs = [one.run() for one in producers.values()] + [one.run() for one in readers.values()]
    clients = [loop.create_task(run) for run in runs + [one.run() for one in workers]]
    faults = Faults(cluster, seed)
    try:
        await faults.run(SECONDS)
        await cluster.until(lambda: cluster.is_healed)
        written = [len(one.acknowledged) for one in producers.values()]
        await asyncio.sleep(5)
        for before, one in zip(written, producers.values(), strict=True):
            if len(one.acknowledged) <= before:
                raise Violation("a producer does not get on after the faults")
        for client in clients:
            if client.done():
                client.result()
            client.cancel()
        await asyncio.sleep(2)
        for at in places:
            leader = cluster.leader_of(at)
            assert leader is not None
            values = await leader.ask(partial(_read_all, at))
            check_log(values, [producers[at]])
            for offset, value in readers[at].seen.items():
                if values.get(offset) != value:
                    raise Violation(f"{at} {offset} was read as {value} and is {values.get(offset)}")
            check_replicas(cluster, at)
    except (Violation, TimeoutError) as violation:
        raise AssertionError(f"seed {seed}, fsync {fsync}: {violation!r}\n" + "\n".join(faults.told)) from violation
    return faults.told


async def _read_all(at: TopicPartition, broker: Broker) -> dict[Offset, str]:
    return await read_from(broker, at, 0)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.parametrize("fsync", ["interval", "always"])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_was_promised_is_broken(seed: int, fsync: Fsync) -> None:
    run_virtually(lambda loop: minute(loop, seed, fsync))


def test_a_seed_is_the_same_minute_every_time() -> None:
    told = [run_virtually(lambda loop: minute(loop, 3, "interval")) for _ in range(2)]
    assert told[0] == told[1]
