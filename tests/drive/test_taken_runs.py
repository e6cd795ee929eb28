"""A follower that takes many batches at once knows the same of producers and transactions as one that takes each."""

from __future__ import annotations

import random

from goqueue.broker import Broker
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header
from goqueue.format.control import marker
from goqueue.format.records import InTransaction, NewRecord, Sequenced, build
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, settings


def written(chance: random.Random) -> list[bytes]:
    """Transactions of three producers that end in one way or the other, and messages of others between them."""
    found, offset, sequences, is_open = list[bytes](), 0, dict.fromkeys(range(4), 0), set[int]()
    for _ in range(60):
        producer = chance.randrange(4)
        if producer in is_open and chance.random() < 0.4:
            batch = marker(producer, 0, chance.random() < 0.5, 1_000)
            is_open.discard(producer)
        else:
            count = chance.randrange(1, 4)
            kind = Sequenced if producer == 3 else InTransaction
            by = kind(producer, 0, sequences[producer])
            batch = build([NewRecord(None, b"x" * chance.randrange(50), (), 1_000)] * count, producer=by)
            sequences[producer] += count
            if producer != 3:
                is_open.add(producer)
        header = read_header(batch)
        found.append(_placed(batch, offset))
        offset += header.last_offset_delta + 1
    return found


def _placed(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:12] + (3).to_bytes(4, "big") + batch[16:]


def facts(partition: Partition) -> object:
    txns, producers = partition.state.txns, partition.dedupe.producers()
    return txns.open, list(txns.aborted), producers, partition.end_offset, partition.last_stable_offset


def test_a_run_of_batches_says_what_they_say_one_by_one() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings()) as broker:
            for seed in range(10):
                await compare(broker, seed)

    run_virtually(scenario)


async def compare(broker: Broker, seed: int) -> None:
    chance = random.Random(seed)
    batches = written(chance)
    topic = await broker.topics.create(f"t{seed}", 2, {})
    assert topic is not None
    found = broker.table.get(f"t{seed}")
    assert found is not None
    alone, together = found.partitions
    left = list(batches)
    for batch in batches:
        alone.take(batch, 1_000)
    while left:
        count = chance.randrange(1, 9)
        together.take(b"".join(left[:count]), 1_000)
        del left[:count]
    assert facts(together) == facts(alone)
    assert alone.state.txns.aborted, "the test has something to find"
