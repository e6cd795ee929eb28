"""A whole broker in virtual time on a simulated disk."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from goqueue.base.access import Access
from goqueue.base.clock import Clock
from goqueue.base.commands import Fetch, FetchFrom, InputMessage, PublishMessages, StoredAt
from goqueue.base.entropy import Entropy
from goqueue.base.ids import TopicPartition
from goqueue.base.limits import KIB
from goqueue.base.log_settings import LogSettings
from goqueue.base.node_settings import NodeSettings
from goqueue.base.settings import Settings, TopicSettings
from goqueue.broker import Broker
from goqueue.drive.schedule_index import IN_MEMORY
from goqueue.format.batch import split
from goqueue.format.records import Record, decode
from goqueue.node_services import NodeServices, Ports
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, in_place


class SeededEntropy:
    def __init__(self) -> None:
        self._count = 0

    def token(self, size: int) -> bytes:
        self._count += 1
        return (self._count % (1 << 8 * size)).to_bytes(size, "big")


def settings(**log: object) -> Settings:
    small = {"cleanup_interval_ms": 10_000, "index_interval_bytes": 256, "journal_bytes": 64 * KIB}
    chosen = {**small, **log}
    node = NodeSettings(shards=int(os.environ.get("NODE_SHARDS", "0")))
    return Settings(log=LogSettings(**chosen), topics=TopicSettings(partitions=1), node=node)  # type: ignore[arg-type]


def sharded(shards: int, chosen: Settings) -> Settings:
    return msgspec.structs.replace(chosen, node=NodeSettings(shards=shards))


def broker_alone(
    chosen: Settings,
    disk: SimDisk,
    clock: Clock,
    entropy: Entropy | None = None,
    index: str = IN_MEMORY,
    access: Access | None = None,
) -> Broker:
    """A node of one shard, with nothing but the disk shared with others."""
    return Broker(NodeServices(chosen, Ports(disk, in_place, clock, entropy or SeededEntropy()), access=access), index)


@asynccontextmanager
async def broker_on(disk: SimDisk, loop: VirtualLoop, chosen: Settings | None = None) -> AsyncIterator[Broker]:
    broker = broker_alone(chosen or settings(), disk, VirtualClock(loop))
    await broker.start()
    yield broker
    await broker.stop()


def shard_of(broker: Broker, topic: str, partition: int = 0) -> int:
    """Where the partition's delayed messages wait."""
    return broker.topics.require(topic).record.shard_of(partition)


async def publish(broker: Broker, topic: str, *values: str, key: str | None = None) -> list[int]:
    encoded = None if key is None else key.encode()
    messages = [InputMessage(encoded, value.encode()) for value in values]
    results = await broker.publish.messages(PublishMessages(topic, messages))
    offsets: list[int] = []
    for result in results:
        if isinstance(result, Exception):
            raise result
        assert isinstance(result, StoredAt)
        offsets.append(result.offset)
    return offsets


async def fetch(broker: Broker, topic: str, offset: int, wait_ms: int = 0, partition: int = 0) -> list[Record]:
    """Records of one partition from an offset on, with the error raised if there is one."""
    part = FetchFrom(TopicPartition(topic, partition), offset, 1 << 20)
    (answer,) = await broker.fetching.fetch(Fetch([part], 1 << 20, 1, wait_ms))
    if answer.error is not None:
        raise answer.error
    return [one for batch in split(answer.batches) for one in decode(batch) if one.offset >= offset]


async def fetch_all(broker: Broker, topic: str, offset: int) -> list[Record]:
    records: list[Record] = []
    while found := await fetch(broker, topic, offset):
        records += found
        offset = found[-1].offset + 1
    return records
