"""Clients of a simulated cluster, and what they remember: it is held against what the cluster has in the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

import msgspec

from goqueue.base.commands import Acks, Appended, Fetch, FetchFrom, Isolation, PublishBatch
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.leases import Delivered, Take
from goqueue.broker import Broker
from goqueue.format.batch import HEADER_BYTES, assemble, read_header, split, verify
from goqueue.format.records import NewRecord, build, decode
from goqueue.sim.cluster import SimCluster, SimNode
from goqueue.sim.violation import Violation

GROUP: Final = "workers"
LEASE_MS: Final = 5_000
_PAUSE_S: Final = 0.05
_GRANTED_MS: Final = 1  # of rounding


class IdempotentProducer:
    """Writes numbers to one partition, each until it is acknowledged, never one before the last."""

    def __init__(self, cluster: SimCluster, at: TopicPartition, producer_id: int) -> None:
        self.acknowledged: list[str] = []
        self.longest_wait_s = 0.0
        self._cluster = cluster
        self._at = at
        self._producer_id = producer_id

    @property
    def count(self) -> int:
        return len(self.acknowledged)

    async def run(self) -> None:
        number = 0
        while True:
            value = f"{self._producer_id}:{number}"
            began = self._cluster.loop.time()
            await self._until_stored(value, number)
            self.longest_wait_s = max(self.longest_wait_s, self._cluster.loop.time() - began)
            self.acknowledged.append(value)
            number += 1
            await asyncio.sleep(self._cluster.chance.uniform(0.0, 0.25))

    async def _until_stored(self, value: str, number: int) -> None:
        now = self._cluster.nodes[0].clock.now_ms()
        batch = _numbered(build([NewRecord(b"k", value.encode(), (), now)]), self._producer_id, number)
        while True:
            leader = self._cluster.leader_of(self._at)
            try:
                if leader is not None:
                    await leader.ask(lambda broker: self._store(broker, batch))
                    return
            except GoQueueError:
                pass
            await asyncio.sleep(_PAUSE_S)

    async def _store(self, broker: Broker, batch: bytes) -> Appended:
        """What counts is when the leader says so; the answer may be lost."""
        appended = await broker.publish.batch(PublishBatch(self._at, batch, Acks.ALL))
        self._cluster.on_acknowledged(self._at, appended.last_offset)
        return appended


def _numbered(batch: bytes, producer_id: int, sequence: int) -> bytes:
    header = msgspec.structs.replace(
        read_header(batch), producer_id=producer_id, producer_epoch=0, base_sequence=sequence
    )
    return assemble(header, batch[HEADER_BYTES:])


class LogReader:
    """Reads a partition again and again: an offset that was read once stays what it was."""

    def __init__(self, cluster: SimCluster, at: TopicPartition) -> None:
        self.seen: dict[Offset, str] = {}
        self._cluster = cluster
        self._at = at

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._cluster.chance.uniform(0.05, 0.4))
            leader = self._cluster.leader_of(self._at)
            if leader is not None:
                await self._read(leader, max(0, len(self.seen) - 20))

    async def _read(self, node: SimNode, offset: Offset) -> None:
        try:
            values = await node.ask(lambda broker: self._read_held(node, broker, offset))
        except GoQueueError:
            return
        for place, value in values.items():
            if self.seen.setdefault(place, value) != value:
                raise Violation(f"{self._at} {place} was read as {self.seen[place]} and as {value}")

    async def _read_held(self, node: SimNode, broker: Broker, offset: Offset) -> dict[Offset, str]:
        """Whose session was over when it was asked does not answer."""
        is_held = node.client is not None and node.client.has_session
        values = await read_from(broker, self._at, offset)
        if not is_held:
            raise Violation(f"node {node.number} answers from {self._at} after its session")
        return values


async def read_from(broker: Broker, at: TopicPartition, offset: Offset) -> dict[Offset, str]:
    """The values of a partition from an offset on, as far as readers of committed data may go."""
    found: dict[Offset, str] = {}
    partition = broker.topics.require(at.topic).partition(at.partition)
    while True:
        part = FetchFrom(at, offset, 1 << 20)
        (answer,) = await broker.fetching.fetch(Fetch([part], 1 << 20, 1, 0, Isolation.READ_COMMITTED))
        if answer.error is not None:
            raise answer.error
        headers = [(batch, read_header(batch)) for batch in split(answer.batches)]
        for batch, header in headers:
            verify(batch, header)  # as clients do
            if partition.is_visible(header):
                records = [record for record in decode(batch) if record.offset >= offset]
                found |= {record.offset: (record.value or b"").decode() for record in records}
        if not headers:
            return found
        offset = headers[-1][1].last_offset + 1


class Worker:
    """Takes messages of all partitions under leases and acknowledges most of them."""

    def __init__(self, cluster: SimCluster, ledger: LeaseLedger, places: list[TopicPartition], name: str) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._places = places
        self._name = name

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._cluster.chance.uniform(0.02, 0.2))
            at = self._cluster.chance.choice(self._places)
            leader = self._cluster.leader_of(at)
            if leader is not None:
                await self._work(leader, at)

    async def _work(self, node: SimNode, at: TopicPartition) -> None:
        take = Take(GROUP, [at], self._name, 3, LEASE_MS)
        try:
            taken = await node.ask(lambda broker: broker.leasing.take(take))
        except GoQueueError:
            return
        now = self._cluster.true_ms
        wrong_ms = node.clock.now_ms() - now
        for one in taken:
            self._ledger.leased((at, one.stored.offset), now, one.leased_until_ms - wrong_ms)
        await asyncio.sleep(self._cluster.chance.uniform(0.0, 1.0))
        for one in taken:
            if self._cluster.chance.random() < 0.8:
                await self._ack(at, one)

    async def _ack(self, at: TopicPartition, one: Delivered) -> None:
        leader = self._cluster.leader_of(at)
        if leader is None:
            return
        place = at, one.stored.offset
        self._ledger.answered(place)
        try:
            (outcome,) = await leader.ask(lambda broker: broker.leasing.ack([one.receipt]))
        except GoQueueError:
            return
        if outcome is None:
            self._ledger.acked(place)


class LeaseLedger:
    """Who has what until when, as the clients were told."""

    def __init__(self) -> None:
        self.done: set[tuple[TopicPartition, Offset]] = set()
        self.given = 0
        self._until: dict[tuple[TopicPartition, Offset], Millis] = {}

    def leased(self, place: tuple[TopicPartition, Offset], now: Millis, until: Millis) -> None:
        """By a clock that is right."""
        self.given += 1
        if place in self.done:
            raise Violation(f"{place} was acknowledged, and is handed out again")
        if (rest := self._until.get(place, 0) - now) > _GRANTED_MS:
            raise Violation(f"{place} is handed out while another lease of it runs for {rest} ms")
        self._until[place] = until

    def answered(self, place: tuple[TopicPartition, Offset]) -> None:
        """An answer is under way: from now on it may be anybody's again, or nobody's."""
        self._until.pop(place, None)

    def acked(self, place: tuple[TopicPartition, Offset]) -> None:
        self.done.add(place)


def check_log(values: dict[Offset, str], producers: list[IdempotentProducer]) -> None:
    """Everything acknowledged is there, once, in its order; nothing is there twice."""
    counts = Counter(values.values())
    if twice := [value for value, count in counts.items() if count > 1]:
        raise Violation(f"twice in the log: {twice[:5]}")
    places = {value: offset for offset, value in values.items()}
    for producer in producers:
        found = [places.get(value, -1) for value in producer.acknowledged]
        if lost := [value for value, place in zip(producer.acknowledged, found, strict=True) if place < 0]:
            raise Violation(f"acknowledged and lost: {lost[:5]}")
        if found != sorted(found):
            raise Violation("acknowledged in another order than written")


def check_replicas(cluster: SimCluster, at: TopicPartition) -> None:
    """Every node that holds the partition has the same bytes."""
    logs: set[bytes] = set()
    for node in cluster.nodes:
        topic = None if node.broker is None else node.broker.topics.find(at.topic)
        if node.broker is not None and topic is not None and node.number in _holders(node.broker, at):
            log = topic.partitions[at.partition].log
            logs.add(b"".join(bytes(batch) for batch in log.batches(log.start_offset)))
    if len(logs) > 1:
        raise Violation(f"{at} differs between nodes: {sorted(map(len, logs))} bytes")


def _holders(broker: Broker, at: TopicPartition) -> tuple[int, ...]:
    return broker.metadata.image.shard(broker.node.shard_map.of_partition(at)).replicas
