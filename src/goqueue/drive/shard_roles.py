"""Which shards this node leads and which it follows, as the metadata says; each change is carried out in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis
from goqueue.base.metadata import Commit
from goqueue.base.replication import LogKey
from goqueue.core.cluster.records import NOBODY, SHARDS, ShardRecord, encode
from goqueue.core.replication.leader import Replica, ShardLeader
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.leading_shard import LeadingShard
from goqueue.drive.partition import Partition
from goqueue.drive.partition_replica import PartitionReplica
from goqueue.drive.replica_fetches import Asking, FetchServer, FollowedShard, ReplicaFetching

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.2


class ShardCoordinators(Protocol):
    """Groups, queues, schedule and transactions of a shard."""

    async def load(self, shard: int) -> None: ...

    def unload(self, shard: int) -> None: ...


class LeadPartitions:
    """Tells a shard's leader what its partitions hold."""

    def __init__(self, shard: LeadingShard, replicas: Iterable[PartitionReplica], grown: Callable[[], None]) -> None:
        self.shard = shard
        self._keys: dict[Partition, LogKey] = {one.partition: one.key for one in replicas}
        self._grown = grown
        for partition in self._keys:
            partition.lead(self)

    def appended(self, partition: Partition) -> None:
        self.shard.appended(self._keys[partition])
        self._grown()

    def synced(self, partition: Partition) -> None:
        self.shard.synced(self._keys[partition])

    def end(self) -> None:
        for partition in self._keys:
            partition.lead(None)


class ReplicationSettings(msgspec.Struct, frozen=True):
    """How it is done on this node."""

    waits_for_sync: bool = True  # what is acknowledged is on the disk of everybody in sync
    lag_ms: Millis = 10_000  # who is behind for longer is not in sync


class ShardRoles:
    """Woken by every change of the metadata. One shard changes its role at a time."""

    def __init__(
        self,
        me: Replica,
        metadata: ImageFollower,
        replicas_of: Callable[[int], Sequence[PartitionReplica]],
        coordinators: ShardCoordinators,
        asking: Callable[[int], Asking],
        parts: tuple[Clock, ReplicationSettings],
    ) -> None:
        """`replicas_of` are the logs of a shard; `asking` sends fetches to a node."""
        self._me = me
        self._metadata = metadata
        self._replicas_of = replicas_of
        self._coordinators = coordinators
        self._asking = asking
        self._clock, self._settings = parts
        self._leads: dict[int, LeadPartitions] = {}
        self._leading: dict[int, LeadingShard] = {}
        self._follows: dict[int, FollowedShard] = {}
        self._leaders: dict[int, int] = {}  # of those that are followed
        self._fetches: dict[int, ReplicaFetching] = {}  # by leading node
        self.server = FetchServer(self._leading, self._clock)
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for fetching in self._fetches.values():
            await fetching.stop()
        for lead in self._leads.values():
            lead.end()

    def metadata_changed(self) -> None:
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            for shard in self._metadata.image.shards():
                try:
                    await self._carry_out(shard)
                    await self._ask_for_change(shard)
                except GoQueueError as error:
                    logger.warning("a shard's role is tried again", extra={"shard": shard, "error": error.message})
            await self._keep_fetches()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._changed.wait()

    # --- one shard -------------------------------------------------------------------------------------------

    async def _carry_out(self, shard: int) -> None:
        record = self._metadata.image.shard(shard)
        if record.leader == self._me.node and record.starts.get(self._me.node) == self._me.start:
            await self._lead(shard, record)
        else:
            self._stop_leading(shard)
            self._follow(shard, record)

    async def _lead(self, shard: int, record: ShardRecord) -> None:
        revision = self._metadata.image.modified(f"{SHARDS}{shard}")
        leading = self._leading.get(shard)
        if leading is not None and leading.epoch == record.epoch:
            leading.confirmed(record, revision)
            return
        self._stop_leading(shard)
        self._follows.pop(shard, None)
        replicas = self._replicas_of(shard)
        machine = ShardLeader(self._me, record, revision, self._settings.waits_for_sync, self._settings.lag_ms)
        self._leading[shard] = leading = LeadingShard(machine, replicas)
        self._leads[shard] = LeadPartitions(leading, replicas, self.server.grown)
        self.server.grown()
        await self._coordinators.load(shard)

    def _stop_leading(self, shard: int) -> None:
        if (lead := self._leads.pop(shard, None)) is not None:
            self._coordinators.unload(shard)
            lead.end()
            del self._leading[shard]
            self.server.grown()

    def _follow(self, shard: int, record: ShardRecord) -> None:
        followed = self._follows.get(shard)
        if record.leader == NOBODY or self._me.node not in record.replicas or record.leader == self._me.node:
            self._follows.pop(shard, None)
        elif followed is None or followed.epoch != record.epoch:
            self._follows[shard] = FollowedShard(shard, record.epoch, self._replicas_of(shard))
            self._leaders[shard] = record.leader

    async def _ask_for_change(self, shard: int) -> None:
        leading = self._leading.get(shard)
        if leading is None:
            return
        living = {number: one.incarnation for number, one in self._metadata.image.nodes().items()}
        if (change := leading.wanted(living, self._clock.now_ms())) is not None:
            key = f"{SHARDS}{shard}"
            await self._metadata.commit(Commit({key: encode(change.record)}, modified={key: change.revision}))

    # --- fetches ---------------------------------------------------------------------------------------------

    async def _keep_fetches(self) -> None:
        """One task for each node that leads something that is followed."""
        wanted = {self._leaders[shard] for shard in self._follows}
        for node in [node for node in self._fetches if node not in wanted]:
            await self._fetches.pop(node).stop()
        for node in wanted - self._fetches.keys():
            self._fetches[node] = fetching = ReplicaFetching(self._asking(node), partial(self._followed_from, node))
            fetching.start()

    def _followed_from(self, node: int) -> list[FollowedShard]:
        return [one for shard, one in self._follows.items() if self._leaders[shard] == node]
