"""A transactional producer of a simulated cluster: all of a transaction is there, or nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import msgspec

from goqueue.base.commands import Acks, PublishBatch
from goqueue.base.errors import Full, GoQueueError, NotFound, Unavailable
from goqueue.base.ids import Offset, TopicPartition
from goqueue.broker import Broker
from goqueue.core.txn.staged import kept_with
from goqueue.format.batch import HEADER_BYTES, TRANSACTIONAL_BIT, assemble, read_header
from goqueue.format.records import NewRecord, build
from goqueue.sim.cluster import SimCluster, SimNode
from goqueue.sim.violation import Violation

_TIMEOUT_MS: Final = 60_000
_PAUSE_S: Final = 0.05
_TRIES: Final = 400
Fate = Literal["committed", "aborted", "unknown"]


class _GivenUp(Exception):
    """It cannot go on as it is: another epoch is needed."""


class SimTransaction(msgspec.Struct):
    values: list[str]
    fate: Fate = "aborted"  # until the commit is asked for


class TransactionalProducer:
    """Writes to several partitions at once, and commits most of it."""

    def __init__(self, cluster: SimCluster, places: list[TopicPartition], name: str) -> None:
        self.all: list[SimTransaction] = []
        self._cluster = cluster
        self._places = places
        self._name = name
        self._who = (name, -1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    @property
    def count(self) -> int:
        return sum(one.fate == "committed" for one in self.all)

    async def run(self) -> None:
        while True:
            try:
                await self._init()
                while True:
                    await self._transaction()
                    await asyncio.sleep(self._cluster.chance.uniform(0.0, 0.5))
            except _GivenUp:
                await asyncio.sleep(_PAUSE_S)

    async def _init(self) -> None:
        """What the last one left open is aborted."""
        state = await self._asked(self._keeper, lambda broker: broker.transactions.init(self._name, _TIMEOUT_MS))
        self._who = (self._name, state.producer_id, state.epoch)
        self._sequences.clear()

    async def _transaction(self) -> None:
        number, chance = len(self.all), self._cluster.chance
        places = chance.sample(self._places, chance.randint(1, len(self._places)))
        self.all.append(one := SimTransaction([f"{number}:{at.partition}" for at in places]))
        for at in places:
            await self._write(at, f"{number}:{at.partition}")
        commits = chance.random() < 0.8
        if commits:
            one.fate = "unknown"
        await self._asked(self._keeper, lambda broker: broker.transactions.end(*self._who, commit=commits))
        one.fate = "committed" if commits else "aborted"

    async def _write(self, at: TopicPartition, value: str) -> None:
        await self._asked(self._keeper, lambda broker: broker.transactions.add_partitions(*self._who, [at]))
        sequence = self._sequences.get(at, 0)
        batch = _batch(value, self._who[1], self._who[2], sequence)
        await self._asked(
            lambda: self._cluster.leader_of(at),
            lambda broker: broker.publish.batch(PublishBatch(at, batch, Acks.ALL)),
        )
        self._sequences[at] = sequence + 1

    async def _asked(self, where: Callable[[], SimNode | None], question: Callable[[Broker], Awaitable[Any]]) -> Any:
        """Asked again where the leader is now, as clients do; some errors end it."""
        for _ in range(_TRIES):
            try:
                if (node := where()) is not None:
                    return await node.ask(question)
            except (Unavailable, Full, NotFound):
                pass
            except GoQueueError:
                raise _GivenUp from None
            await asyncio.sleep(_PAUSE_S)
        raise _GivenUp

    def _keeper(self) -> SimNode | None:
        for node in self._cluster.nodes:
            if node.broker is not None and node.is_ready:
                keeper = self._cluster.nodes[node.broker.node.shard_map.leader_of_id(kept_with(self._name))]
                return keeper if keeper.is_ready else None
        return None


def _batch(value: str, producer_id: int, epoch: int, sequence: int) -> bytes:
    made = build([NewRecord(b"k", value.encode(), (), 1_767_225_600_000)])
    header = read_header(made)
    header = msgspec.structs.replace(
        header,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=header.attributes | TRANSACTIONAL_BIT,
    )
    return assemble(header, memoryview(made)[HEADER_BYTES:])


def check_transactions(partitions: list[dict[Offset, str]], producer: TransactionalProducer) -> None:
    """What readers of committed data see: all of what was committed, once, and nothing of what was not."""
    seen = Counter(value for values in partitions for value in values.values())
    if twice := [value for value, count in seen.items() if count > 1]:
        raise Violation(f"transactions wrote twice: {twice[:5]}")
    for one in producer.all:
        found = [value for value in one.values if value in seen]
        if one.fate == "committed" and len(found) < len(one.values):
            raise Violation(f"a committed transaction lost something: {found} of {one.values}")
        if one.fate == "aborted" and found:
            raise Violation(f"an aborted transaction is seen: {found}")
        if one.fate == "unknown" and 0 < len(found) < len(one.values):
            raise Violation(f"a part of a transaction is seen: {found} of {one.values}")
