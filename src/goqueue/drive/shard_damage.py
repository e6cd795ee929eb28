"""What this node cannot read of the shards that it holds, or cannot write.

The others are told, so that none of these shards is led here while another replica has everything, and so that this
node does not count as in sync. When it does not, it fetches the damaged ranges from the leader, and is whole again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Final

from goqueue.base.encoding import decode, encode
from goqueue.base.errors import FencedEpoch, GoQueueError, NotLeader, NotLoaded
from goqueue.base.ids import Offset
from goqueue.base.metadata import Commit
from goqueue.base.replication import LogKey, RangeAnswer, RangeAsk
from goqueue.core.cluster.elections import left
from goqueue.core.cluster.records import NOBODY, SHARDS, ShardRecord
from goqueue.core.cluster.records import encode as encode_record
from goqueue.core.replication.follower import LogPlace, parting
from goqueue.drive.cluster_member import ClusterMember
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.log_mending import LogMending
from goqueue.drive.offload import Offload
from goqueue.drive.own_topics import OWN_TOPICS
from goqueue.drive.partition import Partition
from goqueue.drive.partition_replica import PartitionReplica
from goqueue.drive.replica_fetches import FETCH_BYTES
from goqueue.log.mending import is_damaged
from goqueue.log.partition_log import PartitionLog
from goqueue.log.reader import NeedsVerification
from goqueue.log.stats import StorageStats
from goqueue.log.verifying import verify_all
from goqueue.wire.node_frames import Hello

logger = logging.getLogger(__name__)

RANGE: Final = "range"  # the verb
_LOOK_S: Final = 0.5
_FILES_EVERY: Final = 10  # looks
_RETRY_S: Final = 2.0
_WAITS: Final = 20
_ANSWER_S: Final = 30.0


class ShardDamage:
    """`begin` when every partition is open and nothing is led yet, then `start`."""

    def __init__(
        self,
        member: ClusterMember,
        metadata: ImageFollower,
        replicas: Callable[[int], Sequence[PartitionReplica]],
        mending: LogMending,
        parts: tuple[Offload, StorageStats],
        cut_off: Callable[[], None],
    ) -> None:
        """`cut_off` is called when a log was cut otherwise than a fetch does it."""
        self._member = member
        self._metadata = metadata
        self._replicas = replicas
        self._mending = mending
        self._offload, self._stats = parts
        self._cut_off = cut_off
        self._looked_at = (-1, -1, -1)  # the counts of damage and failures then
        self._gone: set[Partition] = set()  # their directories were deleted while they were open
        self._damaged: frozenset[int] = frozenset()
        self._told: frozenset[int] = frozenset()
        self._waits: dict[LogKey, int] = {}  # looks at damage that is not acknowledged yet
        self._is_counted = False  # by every shard that counts the node, this start is
        self._task: asyncio.Task[None] | None = None
        member.verbs[RANGE] = self._answer

    # --- what is damaged -------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """The node counts from here on."""
        self._look()
        short = await self._member.note_short(filter(self._is_short, self._metadata.image.shards()))
        for shard in short:
            logger.error("logs of a shard lack their ends", extra={"shard": shard})
        await self._tell(opening=False, short=short, damaged=tuple(sorted(self._damaged)))

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def check(self, shard: int) -> None:
        """`NotLeader` if what the broker keeps for itself is damaged, and another replica has it whole: it would go on
        from something else than what was decided."""
        own = [one.partition.log for one in self._replicas(shard) if one.partition.at.topic in OWN_TOPICS]
        for log in own:
            await self._verify(log)
        if any(map(is_damaged, own)) and self._others(self._metadata.image.shard(shard)):
            self._look()
            raise NotLeader(f"The broker's own logs of shard {shard} are damaged here; another replica is to lead it.")

    async def _verify(self, log: PartitionLog) -> None:
        if not await self._offload(lambda: verify_all(log)):
            log.roll()
            await self._offload(lambda: verify_all(log))

    def _is_short(self, shard: int) -> bool:
        cut = self._member.had_power_cut
        return any(one.partition.log.lacks_end(cut) for one in self._replicas(shard))

    def _look(self) -> None:
        counts = self._stats.damaged_ranges, self._stats.append_failures, self._stats.sync_failures
        if self._looked_at == counts and not self._damaged and not self._gone:
            return
        self._looked_at = counts
        self._damaged = frozenset(shard for shard in self._metadata.image.shards() if self._is_damaged(shard))

    def _is_damaged(self, shard: int) -> bool:
        """Or takes no writes any more: nothing that the shard's leader has would be acknowledged."""
        held = [one.partition for one in self._replicas(shard)]
        there = [one for one in held if one not in self._gone]
        return len(there) < len(held) or any(one.log.failure or _is_to_mend(one) for one in there)

    async def _look_for_files(self) -> None:
        """What is open can be read and written for a while after somebody has deleted it."""
        held = [one.partition for shard in self._metadata.image.shards() for one in self._replicas(shard)]
        logs = [one for one in held if one.log.segments and not one.is_closed]
        gone = await self._offload(lambda: [one for one in logs if not _has_directory(one.log)])
        for partition in gone:
            if partition not in self._gone:
                logger.critical("the directory of a log is gone", extra={"partition": str(partition.at)})
        self._gone = {one for one in gone if one.log.segments and not one.is_closed}

    def _others(self, record: ShardRecord) -> set[int]:
        """Those that have everything, beside this node."""
        return {*record.in_sync, *record.eligible} - {self._member.me.node}

    # --- what is done about it -------------------------------------------------------------------------------

    async def _run(self) -> None:
        for number in count():
            await asyncio.sleep(_LOOK_S)
            if number % _FILES_EVERY == 0:
                await self._look_for_files()
            await self._note_counted()
            self._look()
            if self._damaged != self._told:
                await self._tell(damaged=tuple(sorted(self._damaged)))
            for shard in self._damaged:
                await self._mend(shard)

    async def _note_counted(self) -> None:
        try:
            if not self._is_counted and self._member.is_written_down():
                await self._forget_lost_ends()
                self._is_counted = True
            await self._member.note_counted()
        except OSError as error:
            logger.warning("it is not noted yet that this start counts", extra={"error": str(error)})

    async def _forget_lost_ends(self) -> None:
        held = [one.partition for shard in self._metadata.image.shards() for one in self._replicas(shard)]
        for partition in held:
            if (notes := partition.log.notes).meta.held_to and not partition.is_closed:
                notes.change(held_to=0)
                await self._offload(notes.write_changed)

    async def _tell(self, **changes: object) -> None:
        damaged = self._damaged
        for shard in damaged - self._told:
            logger.critical("a shard is damaged here", extra={"shard": shard})
        for shard in self._told - damaged:
            logger.warning("a shard is whole here again", extra={"shard": shard})
        while True:
            try:
                await self._member.tell(**changes)
                self._told = damaged
                return
            except GoQueueError as error:
                logger.warning("the others are not told of damage yet", extra={"error": error.message})
                await asyncio.sleep(_RETRY_S)

    async def _mend(self, shard: int) -> None:
        for replica in self._replicas(shard):
            if not self._is_elsewhere(shard):
                return  # not yet: the store is to say that this node does not count
            try:
                await self._mend_log(shard, replica)
            except (GoQueueError, OSError) as error:
                facts = {"partition": str(replica.partition.at), "error": str(error)}
                logger.warning("damage is not mended yet", extra=facts)
                await asyncio.sleep(_RETRY_S)

    def _is_elsewhere(self, shard: int) -> bool:
        """Another node leads it, and this one does not count."""
        record = self._metadata.image.shard(shard)
        return record.leader not in (NOBODY, self._member.me.node) and self._member.me.node not in record.in_sync

    async def _mend_log(self, shard: int, replica: PartitionReplica) -> None:
        if replica.partition in self._gone:
            if await self._is_given_up(shard):
                self._gone.discard(replica.partition)
                replica.begin_without_files()
                self._cut_off()
        elif _is_to_mend(replica.partition):
            ask = partial(self._ask, shard, self._metadata.image.shard(shard), replica)
            offset = await self._mending.mend(replica.partition, ask)
            if offset is None and not is_damaged(replica.partition.log):  # a seal may have failed, or a cut come first
                await replica.look_for_producers()
            await self._cut(shard, replica, offset)

    async def _cut(self, shard: int, replica: PartitionReplica, offset: Offset | None) -> None:
        if offset is None:
            self._waits.pop(replica.key, None)
            return
        self._waits[replica.key] = waits = self._waits.get(replica.key, 0) + 1
        if waits > _WAITS:
            await self._mending.keep_aside(replica.partition)
            if await self._is_given_up(shard):
                logger.warning("a log is cut where it is damaged", extra={"partition": str(replica.partition.at)})
                replica.cut(offset)
                self._cut_off()

    async def _is_given_up(self, shard: int) -> bool:
        """Before anything is dropped that may be acknowledged: who is eligible could be elected without it."""
        key, image, me = f"{SHARDS}{shard}", self._metadata.image, self._member.me.node
        if me in (record := image.shard(shard)).eligible:
            logger.warning("gives up to be eligible for a shard", extra={"shard": shard})
            given_up = Commit({key: encode_record(left(record, me))}, modified={key: image.modified(key)})
            await self._metadata.commit(given_up)
        return self._is_elsewhere(shard) and me not in image.shard(shard).eligible

    # --- between nodes ---------------------------------------------------------------------------------------

    async def _ask(
        self, shard: int, record: ShardRecord, replica: PartitionReplica, first: Offset, end: Offset
    ) -> RangeAnswer:
        ask = RangeAsk(shard, record.epoch, replica.key, first, end, replica.end_offset, replica.last_epoch)
        return decode(await self._member.peers.call(record.leader, RANGE, encode(ask), _ANSWER_S), RangeAnswer)

    async def _answer(self, by: Hello, body: bytes) -> bytes:
        ask = decode(body, RangeAsk)
        found = next((one for one in self._replicas(ask.shard) if one.key == ask.log), None)
        if found is None or not found.partition.is_led:
            raise NotLeader("Another node leads the shard.")
        if ask.epoch != self._metadata.image.epoch(ask.shard):
            raise FencedEpoch("The shard has another epoch.")
        if found.partition.high_watermark < ask.end and not _is_of_one_history(found, ask):
            # Whoever just began to lead learns it anew. No batches would say that compaction left none.
            raise NotLoaded("The leader does not know yet that this is acknowledged; it does in a moment.")
        start = found.start_offset
        if not start <= ask.first < ask.end:
            return encode(RangeAnswer(start, b""))
        try:
            batches = await self._offload(lambda: found.read_range(ask.first, ask.end, FETCH_BYTES))
        except NeedsVerification:
            found.partition.log.roll()
            raise NotLoaded("The leader looks whether its own log is damaged there.") from None
        return encode(RangeAnswer(start, batches))


def _is_to_mend(partition: Partition) -> bool:
    """Its log is damaged, or was, and what stood there of producers is not looked up yet."""
    return is_damaged(partition.log) or (partition.producers.is_partial and not partition.is_led)


def _is_of_one_history(leader: PartitionReplica, ask: RangeAsk) -> bool:
    """What the replica lost was what the leader has, as far as it goes, whether that is acknowledged or not."""
    if not ask.end <= min(ask.log_end, leader.end_offset) or ask.last_epoch < 0:
        return False
    return parting(LogPlace(ask.log_end, ask.last_epoch), *leader.end_of_epoch(ask.last_epoch)) is None


def _has_directory(log: PartitionLog) -> bool:
    return log.home.disk.is_dir(log.home.directory)
