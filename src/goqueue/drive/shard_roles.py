"""Which shards this node leads and which it follows, as the metadata says.

What another node leads is given up the moment that the image says so, before anything else is done with the change.
What this node is to lead is taken over step by step: everybody in sync has what the logs hold, then the coordinators
are loaded, then clients are served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.encoding import decode, encode
from goqueue.base.errors import GoQueueError, NotLeader
from goqueue.base.ids import Millis
from goqueue.base.metadata import Commit
from goqueue.base.replication import FetchAnswer, FetchAsk, LogKey
from goqueue.core.cluster.records import NOBODY, SHARDS, ShardRecord
from goqueue.core.replication.leader import InSyncRule, Replica, ShardLeader
from goqueue.drive.cluster_member import ClusterMember
from goqueue.drive.copy_throttle import CopyThrottle
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.in_sync_changes import InSyncChanges
from goqueue.drive.leading_shard import LeadingShard
from goqueue.drive.partition import Partition
from goqueue.drive.partition_replica import PartitionReplica
from goqueue.drive.per_shard import ShardMap
from goqueue.drive.replica_fetches import FETCH_WAIT_MS, FetchServer, FollowedShard, ReplicaFetching
from goqueue.drive.topic_records import SINGLE_SHARD
from goqueue.wire.node_frames import Hello

logger = logging.getLogger(__name__)

FETCH: Final = "fetch"  # the verb, and the link that has nothing else on it
_LOOK_S: Final = 0.2
_SESSION_S: Final = 0.1
_RETRY_S: Final = 0.5
_ANSWER_S: Final = FETCH_WAIT_MS / 1000 + 5


class ShardCoordinators(Protocol):
    """Groups, queues, schedule and transactions of a shard."""

    async def load(self, shard: int) -> None: ...

    def unload(self, shard: int) -> Awaitable[None]:
        """Nobody is answered any more when this returns; what is awaited is that everything has stopped."""
        ...


class Replicas(Protocol):
    """The logs of a shard, as they are now."""

    def __call__(self, shard: int) -> Sequence[PartitionReplica]: ...


class LedShard:
    """A shard in the epoch that this node leads it in. Tells replication what its partitions hold."""

    def __init__(self, shard: LeadingShard, grown: Callable[[], None], is_held: Callable[[], bool]) -> None:
        """`is_held` says whether the store still has this node's session, as far as it can know."""
        self.shard = shard
        self._is_held = is_held
        self.is_served = False
        self.takeover: asyncio.Task[None] | None = None
        self._grown = grown
        self._keys: dict[Partition, LogKey] = {}

    def keep(self, replicas: Sequence[PartitionReplica]) -> None:
        """These are its logs from now on."""
        held = {one.partition: one for one in replicas}
        for partition in [one for one in self._keys if one not in held]:
            self.shard.close(self._keys.pop(partition))
            partition.lead(None)
        for partition, replica in held.items():
            if partition not in self._keys:
                self._keys[partition] = replica.key
                self.shard.open(replica)
                partition.lead(self)
                if self.is_served:
                    partition.serve()
            else:
                self.shard.set_minimum(replica.key, replica.minimum)

    def serve(self) -> None:
        self.is_served = True
        for partition in self._keys:
            partition.serve()

    def hold(self, is_held: bool) -> None:
        """Clients are answered only while nobody else can have been told to lead."""
        for partition in self._keys:
            partition.serve(is_held and self.is_served)

    @property
    def partitions(self) -> list[Partition]:
        return list(self._keys)

    def appended(self, partition: Partition) -> None:
        self.shard.appended(self._keys[partition])
        self._grown()

    def synced(self, partition: Partition) -> None:
        self.shard.synced(self._keys[partition])

    @property
    def has_others(self) -> bool:
        record = self.shard.record
        return len({*record.in_sync, *record.eligible}) > 1

    @property
    def is_held(self) -> bool:
        return self._is_held()

    def end(self) -> None:
        if self.takeover is not None:
            self.takeover.cancel()
        for partition in self._keys:
            partition.lead(None)


class ReplicationSettings(msgspec.Struct, frozen=True):
    """How it is done on this node."""

    waits_for_sync: bool = True  # what is acknowledged is on the disk of everybody in sync
    lag_ms: Millis = 10_000  # who is behind for longer is not in sync
    silent_ms: Millis = 2_000  # nor is who is not heard of for longer


class ShardRoles:
    """`metadata_changed` comes before partitions hear of the change."""

    def __init__(
        self,
        member: ClusterMember,
        metadata: ImageFollower,
        shards: ShardMap,
        replicas: Replicas,
        coordinators: ShardCoordinators,
        parts: tuple[Clock, ReplicationSettings],
    ) -> None:
        self._member = member
        self._me: Replica = member.me
        self._metadata = metadata
        self._shards = shards
        self._led: set[int] = set()
        shards.lead_only(self._led)
        self._replicas = replicas
        self._coordinators = coordinators
        self._clock, self._settings = parts
        self._leads: dict[int, LedShard] = {}
        self._leading: dict[int, LeadingShard] = {}
        self._follows: dict[int, FollowedShard] = {}
        self._leaders: dict[int, int] = {}  # of those that are followed
        self._not_held: set[int] = set()  # shards of other nodes: nothing of them is kept but what every node has
        self._emptied: set[int] = set()  # of these, those of which nothing is left
        self._emptying: dict[int, asyncio.Task[None]] = {}
        self._fetches: dict[int, ReplicaFetching] = {}  # by leading node
        self._stopping: dict[int, asyncio.Task[None]] = {}  # coordinators of shards that were given up
        self.server = FetchServer(self._leading, self._clock, CopyThrottle(metadata.image.copy_limit))
        member.verbs[FETCH] = self._answer_fetch
        self._in_sync = InSyncChanges(metadata, self._leading, self._clock)
        self._is_held = True
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._watch_session())]

    async def stop(self) -> None:
        takeovers = [one.takeover for one in self._leads.values() if one.takeover is not None]
        tasks = [*self._tasks, *takeovers, *self._emptying.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._in_sync.stop()
        for fetching in self._fetches.values():
            await fetching.stop()
        for lead in self._leads.values():
            lead.end()
        if self._stopping:
            await asyncio.wait(list(self._stopping.values()))

    @property
    def led(self) -> Mapping[int, LeadingShard]:
        """The shards that this node leads, by number."""
        return self._leading

    def follows_well(self, shard: int) -> bool:
        """The leader has answered lately, and this node may believe what it was told of the cluster."""
        followed = self._follows.get(shard)
        if followed is None or not self._member.is_held:
            return False
        return asyncio.get_running_loop().time() - followed.heard_s < self._settings.silent_ms / 1000

    # --- what the image says ---------------------------------------------------------------------------------

    def metadata_changed(self) -> None:
        """What is not led here any more ends at once: nothing is written under an epoch that is another node's."""
        image = self._metadata.image
        for shard, leading in list(self._leading.items()):
            record = image.shard(shard)
            if self._is_mine(record) and record.epoch == leading.epoch:
                leading.confirmed(record, image.modified(f"{SHARDS}{shard}"))
            else:
                self._stop_leading(shard)
        self._changed.set()

    def logs_changed(self) -> None:
        """Topics were made, changed or deleted."""
        for shard, lead in self._leads.items():
            lead.keep(self._replicas(shard))
        for shard, followed in self._follows.items():
            followed.keep(self._kept(shard))
        for fetching in self._fetches.values():
            fetching.ask_again()
        self.server.grown()

    def _is_mine(self, record: ShardRecord) -> bool:
        return record.leader == self._me.node and record.starts.get(self._me.node) == self._me.start

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            for shard in self._metadata.image.shards():
                try:
                    self._carry_out(shard)
                except (GoQueueError, OSError) as error:
                    logger.warning("a shard's role is tried again", extra={"shard": shard, "error": str(error)})
            await self._keep_fetches()
            self._in_sync.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._changed.wait()

    async def _watch_session(self) -> None:
        """A node that the store may have given up does not answer from what it has: others may have more."""
        while True:
            await asyncio.sleep(_SESSION_S)
            if self._member.is_held != self._is_held:
                self._is_held = self._member.is_held
                logger.warning("serves again" if self._is_held else "the session is lost; nothing is served")
                for lead in self._leads.values():
                    lead.hold(self._is_held)

    def _carry_out(self, shard: int) -> None:
        record = self._metadata.image.shard(shard)
        if self._is_mine(record):
            self._lead(shard, record)
        else:
            self._follow(shard, record)

    # --- lead ------------------------------------------------------------------------------------------------

    def _lead(self, shard: int, record: ShardRecord) -> None:
        if shard in self._leads:
            return
        self._follows.pop(shard, None)
        self._hold(shard)
        settings = self._settings
        in_sync = InSyncRule(settings.waits_for_sync, settings.lag_ms, settings.silent_ms)
        revision, now = self._metadata.image.modified(f"{SHARDS}{shard}"), self._clock.now_ms()
        machine = ShardLeader(self._me, record, revision, in_sync, now)
        self._leading[shard] = leading = LeadingShard(machine, (), self.server.grown)
        self._leads[shard] = lead = LedShard(leading, self.server.grown, lambda: self._member.is_held)
        lead.keep(self._replicas(shard))
        self.server.grown()
        logger.info("leads a shard", extra={"shard": shard, "epoch": record.epoch})
        if record.unclean_epoch == record.epoch:
            logger.critical(
                "leads a shard without having all that was acknowledged; what it lacks is lost",
                extra={"shard": shard, "epoch": record.epoch},
            )
        lead.takeover = asyncio.get_running_loop().create_task(self._take_over(shard, lead))

    async def _take_over(self, shard: int, lead: LedShard) -> None:
        """Tried again while it fails: nobody else leads."""
        while True:
            try:
                await self._caught_up(lead.partitions)
                if (stopping := self._stopping.get(shard)) is not None:
                    await asyncio.wait([stopping])
                self._led.add(shard)
                await self._coordinators.load(shard)
                lead.serve()
                lead.hold(self._is_held)
                logger.info("serves a shard", extra={"shard": shard, "epoch": lead.shard.epoch})
                return
            except GoQueueError as error:
                logger.warning("a shard is not served yet", extra={"shard": shard, "error": error.message})
            except Exception:
                logger.exception("a shard is not served yet", extra={"shard": shard})
            if shard in self._led:
                self._give_up(shard)
            await asyncio.sleep(_RETRY_S)

    async def _caught_up(self, partitions: Iterable[Partition]) -> None:
        """Everybody in sync has what these held when the epoch began, so that it is acknowledged."""
        for partition in partitions:
            end = partition.end_offset
            while partition.high_watermark < end:
                if not partition.state.is_led:
                    raise NotLeader("Another node leads the shard by now.")
                moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                partition.watch(moved)
                await moved

    def _stop_leading(self, shard: int) -> None:
        lead = self._leads.pop(shard)
        del self._leading[shard]
        lead.end()
        if shard in self._led:
            self._give_up(shard)
        self.server.grown()
        logger.info("does not lead a shard any more", extra={"shard": shard, "epoch": lead.shard.epoch})

    def _give_up(self, shard: int) -> None:
        stopped = self._coordinators.unload(shard)
        self._led.discard(shard)
        before = self._stopping.get(shard)
        self._stopping[shard] = asyncio.get_running_loop().create_task(_one_after_the_other(before, stopped))

    # --- follow ----------------------------------------------------------------------------------------------

    def _follow(self, shard: int, record: ShardRecord) -> None:
        followed, was_held = self._follows.get(shard), shard not in self._not_held
        if self._me.node not in record.replicas:
            self._let_go(shard)
        else:
            self._hold(shard)
        is_held = shard not in self._not_held
        if record.leader in (NOBODY, self._me.node) or not (is_held or shard == SINGLE_SHARD):
            self._follows.pop(shard, None)
        elif followed is None or followed.epoch != record.epoch or is_held != was_held:
            self._follows[shard] = FollowedShard(shard, record.epoch, self._kept(shard))
            self._leaders[shard] = record.leader
            if (fetching := self._fetches.get(record.leader)) is not None:
                fetching.ask_again()

    def _let_go(self, shard: int) -> None:
        """Others hold it, and everybody in sync has what this node had: its bytes are given back, but for what every
        node has."""
        self._not_held.add(shard)
        if shard in self._emptied or shard in self._emptying:
            return
        if any(one.end_offset and not one.is_everywhere for one in self._replicas(shard)):
            self._emptying[shard] = asyncio.get_running_loop().create_task(self._empty(shard))
        else:
            self._emptied.add(shard)

    async def _empty(self, shard: int) -> None:
        """If the shard has not come back meanwhile: who hears late of what the store says may count again, and would
        have nothing. It asks for nothing of the shard any more, so that it begins to count only after it has said anew
        what it has."""
        key, image = f"{SHARDS}{shard}", self._metadata.image
        revision = image.modified(key)
        try:
            await self._metadata.commit(Commit(modified={key: revision}))
            if image.modified(key) == revision:
                self._give_back(shard)
        except (GoQueueError, OSError) as error:
            logger.info("a shard that moved away is kept for now", extra={"shard": shard, "error": str(error)})
        finally:
            del self._emptying[shard]

    def _give_back(self, shard: int) -> None:
        held = [one for one in self._replicas(shard) if one.end_offset and not one.is_everywhere]
        for one in held:
            one.begin_anew(0)
        self._emptied.add(shard)
        logger.info("gives up a shard that moved away", extra={"shard": shard, "logs": len(held)})

    def _hold(self, shard: int) -> None:
        self._not_held.discard(shard)
        self._emptied.discard(shard)

    def _kept(self, shard: int) -> list[PartitionReplica]:
        """The logs of a shard that are kept here."""
        return [one for one in self._replicas(shard) if shard not in self._not_held or one.is_everywhere]

    async def _keep_fetches(self) -> None:
        """One task for each node that leads something that is followed."""
        wanted = {self._leaders[shard] for shard in self._follows}
        for node in [node for node in self._fetches if node not in wanted]:
            await self._fetches.pop(node).stop()
        for node in wanted - self._fetches.keys():
            ask, followed = partial(self._ask, node), partial(self._followed_from, node)
            self._fetches[node] = fetching = ReplicaFetching(ask, followed, self._settings.waits_for_sync)
            fetching.start()

    def _followed_from(self, node: int) -> list[FollowedShard]:
        return [one for shard, one in self._follows.items() if self._leaders[shard] == node]

    # --- between nodes ---------------------------------------------------------------------------------------

    async def _ask(self, node: int, ask: FetchAsk) -> FetchAnswer:
        return decode(await self._member.peers.call(node, FETCH, encode(ask), _ANSWER_S, lane=FETCH), FetchAnswer)

    async def _answer_fetch(self, by: Hello, body: bytes) -> bytes:
        return encode(await self.server.fetch(Replica(by.node_id, by.start), decode(body, FetchAsk)))


async def _one_after_the_other(before: asyncio.Task[None] | None, then: Awaitable[None]) -> None:
    if before is not None:
        await asyncio.wait([before])
    await then
