"""The transaction coordinators of a node, one for each shard: which of them keeps an id, and what all know together.

A transactional id belongs to the shard of its slot. Staged writers belong where their owner does, so that a commit of
its batch stays one decision in one log. Partitions ask by producer id, which one coordinator knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, TopicPartition
from goqueue.core.txn.records import TxnState
from goqueue.core.txn.staged import kept_with
from goqueue.drive.partition import Partition
from goqueue.drive.per_shard import PerShard, ShardMap
from goqueue.drive.txn_coordinator import TransactionCoordinator

_REMEMBERED: Final = 100_000  # producers


class TransactionCoordinators:
    """Empty until `make`."""

    def __init__(self, shards: ShardMap, new: Callable[[int], TransactionCoordinator]) -> None:
        self._each = PerShard(shards, new)
        self._only: TransactionCoordinator | None = None  # where there is one shard: asked for every command
        self._producers: dict[int, TransactionCoordinator] = {}  # where each was found last

    # --- start and stop --------------------------------------------------------------------------------------

    def make(self, count: int) -> None:
        self._each.make(count)
        self._only = self._each[0] if count == 1 and self._each.is_whole else None

    async def load(self, shard: int, partition: Partition) -> None:
        await self._each[shard].load(partition)

    def unload(self, shard: int, error: GoQueueError) -> None:
        self._each[shard].host.unload(error)

    def renew(self, shard: int) -> TransactionCoordinator:
        """Another one in its place; the one that was there."""
        self._producers.clear()
        before = self._each.renew(shard)
        self._only = self._each[shard] if len(self._each) == 1 and self._each.is_whole else None
        return before

    async def tried(self) -> None:
        """Ends that were begun so far are carried out, or are tried again in the background."""
        for one in self._each:
            await one.tried()

    async def stop(self) -> None:
        await asyncio.gather(*(one.stop() for one in self._each))

    # --- which one -------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[TransactionCoordinator]:
        return iter(self._each)

    def of(self, transactional_id: str) -> TransactionCoordinator:
        """The one that keeps the id."""
        if self._only is not None:
            return self._only
        return self._each.of(kept_with(transactional_id))

    def of_owner(self, owner: str) -> TransactionCoordinator:
        """The one that keeps the owner's staged sets, and their writers."""
        return self._only or self._each.of(owner)

    def of_producer(self, producer_id: int) -> TransactionCoordinator:
        """The one that knows the producer. If none does, one that can say so: not before all are loaded."""
        if self._only is not None:
            return self._only
        found = self._producers.get(producer_id)
        if found is not None and (not found.host.is_loaded or found.table.of_producer(producer_id) is not None):
            return found
        return self._search(producer_id)

    def find_producer(self, producer_id: int) -> TransactionCoordinator | None:
        """The one of this node that knows the producer; None if none does that is loaded."""
        found = self._producers.get(producer_id)
        if found is None or not found.host.is_loaded or found.table.of_producer(producer_id) is None:
            found = self._look_for(producer_id)
        return found

    @property
    def loaded(self) -> list[int]:
        """The shards whose transactions this node can tell of."""
        return [shard for shard, one in self._each.items() if one.host.is_loaded]

    def writes_to(self, producer_id: int, at: TopicPartition, epoch: int) -> bool:
        """Whether a transaction of the producer, of that epoch or later, is open and has messages there. Of one that
        another node keeps that is not known here."""
        found = self.find_producer(producer_id)
        if found is None and self._each.is_whole:
            found = self.of_producer(producer_id)
        return found is not None and found.table.writes_to(producer_id, at.topic, at.partition, epoch)

    def _search(self, producer_id: int) -> TransactionCoordinator:
        found = self._look_for(producer_id)
        return found or next((one for one in self._each if not one.host.is_loaded), None) or self._each[0]

    def _look_for(self, producer_id: int) -> TransactionCoordinator | None:
        self._producers.pop(producer_id, None)
        for one in self._loaded():
            if one.table.of_producer(producer_id) is not None:
                if len(self._producers) >= _REMEMBERED:
                    self._producers.clear()
                self._producers[producer_id] = one
                return one
        return None

    def name_of(self, producer_id: int, ended: bool) -> str | None:
        """The transactional id of a producer, of those that are loaded; with `ended` also by the producer id of its
        last transaction."""
        for one in self._loaded():
            if (known := one.table.of_producer(producer_id)) is not None:
                return known.transactional_id
        states = (state for one in self._loaded() for state in one.table.all()) if ended else ()
        return next((one.transactional_id for one in states if one.ended_producer_id == producer_id), None)

    def _loaded(self) -> Iterator[TransactionCoordinator]:
        return (one for one in self._each if one.host.is_loaded)

    # --- all together ----------------------------------------------------------------------------------------

    def all(self) -> list[TxnState]:
        """By transactional id."""
        return _by_name([one.table.all() for one in self._each])

    def open(self) -> list[TxnState]:
        """Those that are not over."""
        return _by_name([one.table.open() for one in self._each])

    def moving(self, group: str) -> set[TopicPartition]:
        """Where they are about to move a group."""
        return {TopicPartition(*at) for one in self._each for at in one.table.moving(group)}

    @property
    def open_count(self) -> int:
        """Of those that are loaded."""
        return sum(one.table.open_count for one in self._loaded())

    @property
    def oldest_ms(self) -> Millis | None:
        """When the oldest open transaction of those that are loaded began; None if none is open."""
        return min((state.started_ms for one in self._loaded() for state in one.table.open()), default=None)

    @property
    def delayed_bytes(self) -> int:
        """Payloads of delayed messages of all open transactions."""
        return sum(one.table.delayed_bytes for one in self._each)

    def owners(self) -> list[str]:
        """Of staged sets, by name."""
        return sorted(owner for one in self._each for owner in one.table.staged.owners())

    def owners_beside(self, home: TransactionCoordinator, owner: str) -> int:
        """How many owners the others keep, if this one is new where it belongs; one that is known takes no room."""
        if home.table.staged.knows(owner):
            return 0
        return sum(one.table.staged.owner_count for one in self._each if one is not home)


def _by_name(parts: Sequence[list[TxnState]]) -> list[TxnState]:
    if len(parts) == 1:
        return parts[0]
    return sorted((state for part in parts for state in part), key=lambda state: state.transactional_id)
