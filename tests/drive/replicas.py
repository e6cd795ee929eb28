"""Nodes that replicate one shard, small enough for tests: real logs on simulated disks, calls without a network."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from goqueue.base.errors import PeerLost
from goqueue.base.ids import Epoch, Offset
from goqueue.base.replication import FetchAnswer, FetchAsk, LogKey
from goqueue.core.cluster.elections import admitted, elected, needs_leader
from goqueue.core.cluster.records import NodeRecord, ShardRecord
from goqueue.core.replication.leader import InSyncRule, Replica, ShardLeader
from goqueue.drive.copy_throttle import CopyThrottle
from goqueue.drive.leading_shard import LeadingShard
from goqueue.drive.replica_fetches import FetchServer, FollowedShard, ReplicaFetching
from goqueue.format.batch import read_header, split
from goqueue.format.records import decode
from goqueue.log.appending import RollRule
from goqueue.log.epoch_history import NO_EPOCH, end_of_epoch
from goqueue.log.partition_log import PartitionLog
from goqueue.log.recovery import open_log
from goqueue.sim.disk import CrashMode, SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop
from tests.log.logs import batch, home, sync

SHARD = 0
LAG_MS = 3_000
LOSSES: tuple[CrashMode, ...] = ("dropped", "torn")


def _keep(log: SmallLog, start: Offset) -> None:
    """Nothing is dropped."""


class SmallLog:
    """A `ReplicaLog` without a partition around it."""

    minimum = 2

    def __init__(self, key: LogKey, log: PartitionLog, drop_head: Callable[[SmallLog, Offset], None] = _keep) -> None:
        """`drop_head` is what drops the head of a log in the background, if anything does."""
        self.key = key
        self.log = log
        self.high_watermark: Offset = 0
        self._drop_head = drop_head

    @property
    def start_offset(self) -> Offset:
        return self.log.start_offset

    @property
    def end_offset(self) -> Offset:
        return self.log.end_offset

    @property
    def synced_offset(self) -> Offset:
        return self.log.synced_offset

    @property
    def last_epoch(self) -> Epoch:
        epochs = self.log.notes.meta.epochs
        return epochs[-1].epoch if epochs else NO_EPOCH

    def end_of_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        return end_of_epoch(self.log.notes.meta.epochs, epoch, self.log.end_offset)

    def bytes_from(self, offset: Offset) -> int:
        return self.log.bytes_from(offset)

    def read_tail(self, offset: Offset, bytes_max: int) -> bytes:
        return self.log.read(offset, bytes_max, self.log.end_offset, wait=True)

    def is_readable(self, offset: Offset) -> bool:
        return True

    def take(self, batches: bytes) -> int:
        data, headers = memoryview(batches), [read_header(one) for one in split(batches)]
        taken = len(headers)
        while headers:
            count = self.log.restore_run(data, headers)
            data = data[sum(one.size for one in headers[:count]) :]
            del headers[:count]
        return taken

    async def wait_synced(self) -> None:
        """The world around it syncs when it likes."""

    def cut(self, offset: Offset) -> None:
        self.log.truncate(offset)
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    def begin_anew(self, start: Offset) -> None:
        self.log.begin_anew(start)
        self.high_watermark = start

    @property
    def deleted_to(self) -> Offset:
        return self.log.notes.meta.deleted_to

    def note_deleted(self, to: Offset) -> None:
        self.log.note_deleted(to)

    def begin_at(self, start: Offset) -> None:
        self._drop_head(self, start)

    def mark(self, high_watermark: Offset) -> None:
        self.high_watermark = max(self.high_watermark, high_watermark)

    def values(self, end: Offset) -> list[str]:
        data = self.log.read(self.log.start_offset, 1 << 20, end, wait=True) if end else b""
        return [(one.value or b"").decode() for part in split(data) for one in decode(part)]


class SmallNode:
    """Sees the store's record when it looks; follows or leads as that says."""

    def __init__(self, cluster: SmallCluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.disk = SimDisk()
        self.disks = 0  # that were lost
        self.starts = 0
        self.is_up = False
        self.logs: dict[LogKey, SmallLog] = {}
        self.leads: dict[int, LeadingShard] = {}
        self.follows: dict[int, FollowedShard] = {}
        self.leader = -1
        self.server = FetchServer(self.leads, cluster.clock, CopyThrottle(lambda: 0))
        self.fetching: ReplicaFetching | None = None
        self.drop_head = _keep

    @property
    def me(self) -> Replica:
        return Replica(self.number, f"{self.number}.{self.starts}")

    def start(self) -> None:
        self.starts += 1
        self.is_up = True
        for key in self.cluster.keys:
            directory, roll = f"logs/{key.topic_id}/{key.partition}", RollRule(self.cluster.segment_bytes, 1 << 40)
            log, _ = open_log(home(self.disk, directory), roll)
            self.logs[key] = SmallLog(key, log, self.drop_head)
        found = NodeRecord("", self.me.start, disk=f"disk {self.number}.{self.disks}")
        self.cluster.register(self.number, found)

    async def crash(self, power_cut: bool) -> None:
        self.is_up = False
        self.leads.clear()
        self.follows.clear()
        await self._stop_fetching()
        if power_cut:
            self.disk = self.disk.crash(self.cluster.random.choice(self.cluster.losses), self.starts)

    async def look(self) -> None:
        """Takes the store's word for who leads."""
        record, revision = self.cluster.record, self.cluster.revision
        if record.leader == self.number and record.starts.get(self.number) == self.me.start:
            await self._lead(record, revision)
        else:
            self.leads.clear()
            self.server.grown()
            await self._follow(record)

    async def _lead(self, record: ShardRecord, revision: int) -> None:
        shard = self.leads.get(SHARD)
        if shard is not None and shard.epoch == record.epoch:
            shard.confirmed(record, revision)
            return
        self.follows.clear()
        await self._stop_fetching()
        leader = ShardLeader(self.me, record, revision, InSyncRule(True, LAG_MS, LAG_MS), self.cluster.clock.now_ms())
        self.leads[SHARD] = LeadingShard(leader, self.logs.values())

    async def _follow(self, record: ShardRecord) -> None:
        known = self.follows.get(SHARD)
        if record.leader in (-1, self.number) or (known is not None and known.epoch == record.epoch):
            return
        self.follows[SHARD] = FollowedShard(SHARD, record.epoch, self.logs.values())
        if self.leader != record.leader:
            await self._stop_fetching()
            self.leader = record.leader
        if self.fetching is None and self.cluster.fetches:
            leader = self.cluster.nodes[record.leader]
            self.fetching = ReplicaFetching(
                lambda ask: self.cluster.call(self, leader, ask), lambda: [*self.follows.values()]
            )
            self.fetching.start()

    async def _stop_fetching(self) -> None:
        if self.fetching is not None:
            await self.fetching.stop()
        self.fetching, self.leader = None, -1

    def append(self, key: LogKey, *values: str) -> Offset:
        """One batch, by the leader; the offset."""
        shard, data = self.leads[SHARD], batch(*values)
        offset = self.logs[key].log.append(data, read_header(data), shard.epoch, 1_000)
        shard.appended(key)
        self.server.grown()
        return offset

    def sync(self) -> None:
        for key, log in self.logs.items():
            sync(log.log)
            if (shard := self.leads.get(SHARD)) is not None:
                shard.synced(key)


class SmallCluster:
    """Three nodes, the store's record, and a controller that acts when it is asked to."""

    fetches = True  # by themselves
    segment_bytes = 2_048
    losses = LOSSES

    def __init__(self, loop: VirtualLoop, seed: int = 0, logs: int = 2) -> None:
        self.clock = VirtualClock(loop)
        self.random = random.Random(seed)
        self.keys = [LogKey("topic", number) for number in range(logs)]
        self.record = ShardRecord(0, 0, (0, 1, 2), (0, 1, 2), starts={0: "0.1", 1: "1.1", 2: "2.1"})
        self.revision = 1
        self.living: dict[int, NodeRecord] = {}
        self.disks: dict[int, str] = {}
        self.cut_off: set[frozenset[int]] = set()
        self.nodes = [SmallNode(self, number) for number in range(3)]

    def put(self, record: ShardRecord) -> None:
        if record != self.record:
            self.record, self.revision = record, self.revision + 1

    def register(self, node: int, found: NodeRecord) -> None:
        self.living[node] = found
        self.admit(node, found)

    def admit(self, node: int, found: NodeRecord) -> None:
        """Its disk counts as another when no start of the one before is waited for."""
        self.put(admitted(self.record, node, found, self.disks.setdefault(node, found.disk)))
        counts = node in (*self.record.in_sync, *self.record.eligible)
        if not counts or self.record.starts.get(node) == found.incarnation:
            self.disks[node] = found.disk

    async def call(self, by: SmallNode, to: SmallNode, ask: FetchAsk) -> FetchAnswer:
        await asyncio.sleep(0.001)
        if not (by.is_up and to.is_up) or frozenset((by.number, to.number)) in self.cut_off:
            raise PeerLost("The other node does not answer.")
        start = to.me.start
        answer = await to.server.fetch(by.me, ask)
        await asyncio.sleep(0.001)
        if to.me.start != start or not to.is_up or frozenset((by.number, to.number)) in self.cut_off:
            raise PeerLost("The other node does not answer.")
        return answer

    async def settle(self, seconds: float = 1.0) -> None:
        """Everybody looks, syncs and asks for changes, again and again."""
        for _ in range(round(seconds / 0.05)):
            for node in self.nodes:
                if node.is_up:
                    await node.look()
                    node.sync()
                    self.ask_for_change(node)
            await asyncio.sleep(0.05)

    def ask_for_change(self, node: SmallNode) -> None:
        if (shard := node.leads.get(SHARD)) is not None:
            living = {number: one.incarnation for number, one in self.living.items()}
            change = shard.wanted(living, self.clock.now_ms())
            if change is not None and change.revision == self.revision:
                self.put(change.record)

    def elect(self) -> None:
        if needs_leader(self.record, self.living) and (record := elected(self.record, self.living)) is not None:
            self.put(record)

    @property
    def leader(self) -> SmallNode:
        return self.nodes[self.record.leader]
