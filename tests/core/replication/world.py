"""One log of a shard on three nodes with a metadata store, as a random walk: the machines of `core/` do the deciding.

Messages are delayed, lost and overtaken; nodes crash, lose what they did not sync, lose their disks, and come back; the
controller elects when it likes. Whoever acknowledges or reads is held against what was acknowledged and read before.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from goqueue.base.replication import LogKey
from goqueue.core.cluster.elections import admitted, elected, needs_leader
from goqueue.core.cluster.records import NOBODY, NodeRecord, ShardRecord
from goqueue.core.replication.follower import LogPlace, Parting, cut_at, parting
from goqueue.core.replication.leader import FetchedLog, InSyncRule, Replica, SetChange, ShardLeader
from goqueue.core.replication.rules import ALL_RULES, ReplicationRule, Rules
from goqueue.log.epoch_history import Epochs, begun, end_of_epoch

LOG = LogKey("t", 0)
LAG_MS = 20
LENGTH_MAX = 7


class Violation(Exception):
    """Something acknowledged is gone, or two readers saw different things."""


class Fetch(NamedTuple):
    by: Replica
    to: int
    epoch: int
    place: LogPlace
    safe: int


class Parted(NamedTuple):
    to: Replica
    epoch: int
    place: LogPlace
    told: Parting


class Data(NamedTuple):
    to: Replica
    epoch: int
    at: int
    batches: list[tuple[int, int]]
    high_watermark: int


class Store:
    """The shard's record and who is registered."""

    def __init__(self) -> None:
        starts = {node: f"{node}.1" for node in range(3)}
        self.record = ShardRecord(0, 1, (0, 1, 2), (0, 1, 2), starts=starts)
        self.revision = 1
        self.nodes = {node: NodeRecord("", start, disk=f"disk {node}.0") for node, start in starts.items()}
        self.disks = {node: f"disk {node}.0" for node in range(3)}

    def put(self, record: ShardRecord) -> None:
        if record != self.record:
            self.record, self.revision = record, self.revision + 1


class Node:
    def __init__(self, number: int) -> None:
        self.number = number
        self.starts = 1
        self.disks = 0
        self.is_up = True
        self.log: list[tuple[int, int]] = []  # epoch and value
        self.safe = 0
        self.high_watermark = 0
        self.seen_revision = 0
        self.leads: ShardLeader | None = None
        self.follows: ShardRecord | None = None

    @property
    def me(self) -> Replica:
        return Replica(self.number, f"{self.number}.{self.starts}")

    @property
    def epochs(self) -> Epochs:
        found: Epochs = ()
        for offset, (epoch, _) in enumerate(self.log):
            found = begun(found, epoch, offset)
        return found

    @property
    def place(self) -> LogPlace:
        return LogPlace(len(self.log), self.log[-1][0] if self.log else -1)


Message = Fetch | Parted | Data | SetChange
Move = Callable[[], None]


class World:
    """`syncs`: what is acknowledged is on the disk of everybody in sync (`fsync=always`)."""

    def __init__(self, seed: int, rules: Rules = ALL_RULES, syncs: bool = True, minimum: int = 2) -> None:
        self.random = random.Random(seed)
        self.rules = rules
        self.syncs = syncs
        self.minimum = minimum
        self.store = Store()
        self.nodes = [Node(number) for number in range(3)]
        self.network: list[Message] = []
        self.now = 0
        self.values = 0
        self.acknowledged: dict[int, int] = {}
        self.read: dict[int, int] = {}
        self.elections = 0
        self.coming: dict[int, NodeRecord] = {}  # of those that are down
        self.disks_to_lose = 1 if syncs else 0  # one loss at a time is what the minimum of two is for
        self.cuts_to_make = 100 if syncs else 1

    def walk(self, steps: int) -> None:
        for _ in range(steps):
            self.now += 1
            self.random.choice(self._moves())()

    def _moves(self) -> list[Move]:
        moves: list[Move] = [self._deliver] * min(12, 2 * len(self.network))
        moves += [self._lose] * (self.random.random() < 0.2)
        moves += [self._elect] * (self.random.random() < 0.6)
        for node in self.nodes:
            moves += [partial(move, node) for move in self._moves_of(node)]
        return moves

    def _moves_of(self, node: Node) -> list[Callable[[Node], None]]:
        if not node.is_up:
            return [self._start]
        moves: list[Callable[[Node], None]] = [self._look, self._sync]
        if node.leads is not None:
            moves += [self._append] * 2 + [self._ask_for_change, self._read_all]
        elif node.follows is not None:
            moves += [self._fetch] * 4
        return moves + [self._crash] * (self.random.random() < 0.06)

    # --- nodes ---------------------------------------------------------------------------------------------

    def _look(self, node: Node) -> None:
        """The watch tells the node of the record as it is now."""
        record, revision = self.store.record, self.store.revision
        if revision <= node.seen_revision:
            return
        node.seen_revision = revision
        if self._names_me(record, node):
            self._lead(node, record, revision)
        else:
            node.leads = None
            node.follows = record if record.leader not in (NOBODY, node.number) else None

    def _names_me(self, record: ShardRecord, node: Node) -> bool:
        is_this_start = record.starts.get(node.number) == node.me.start or ReplicationRule.NEW_EPOCH not in self.rules
        return record.leader == node.number and is_this_start

    def _lead(self, node: Node, record: ShardRecord, revision: int) -> None:
        node.follows = None
        if node.leads is not None and node.leads.epoch == record.epoch:
            node.leads.confirmed(record, revision)
        else:
            node.leads = ShardLeader(
                node.me, record, revision, InSyncRule(self.syncs, LAG_MS, LAG_MS), self.now, self.rules
            )
            node.leads.open_log(LOG, len(node.log), node.safe, node.high_watermark, self.minimum)
            self._has_everything(node)
        self._acknowledge(node)

    def _append(self, node: Node) -> None:
        assert node.leads is not None
        if len(node.log) < LENGTH_MAX:
            self.values += 1
            node.log.append((node.leads.epoch, self.values))
            node.leads.appended(LOG, len(node.log))
            self._acknowledge(node)

    def _sync(self, node: Node) -> None:
        node.safe = len(node.log)
        if node.leads is not None:
            node.leads.synced(LOG, node.safe)
            self._acknowledge(node)

    def _fetch(self, node: Node) -> None:
        assert node.follows is not None
        if len(self.network) < 14:
            asked = (node.follows.leader, node.follows.epoch, node.place, node.safe)
            self.network.append(Fetch(node.me, *asked))

    def _ask_for_change(self, node: Node) -> None:
        assert node.leads is not None
        living = {number: record.incarnation for number, record in self.store.nodes.items()}
        if (change := node.leads.wanted(living, self.now)) is not None:
            self.network.append(change)
            self._acknowledge(node)

    def _crash(self, node: Node) -> None:
        """What was not synced may be lost, once a disk."""
        if sum(one.is_up for one in self.nodes) < 2:
            return
        node.is_up, node.leads, node.follows, node.seen_revision = False, None, None, 0
        lost_tail = False
        if self.cuts_to_make and self.random.random() < 0.5:
            self.cuts_to_make -= 1
            lost_tail = not self.syncs
            del node.log[node.safe :]
        if self.disks_to_lose and self.random.random() < 0.1 and (self.syncs or not lost_tail):
            self.disks_to_lose -= 1
            node.disks += 1
            node.log.clear()
        node.safe = len(node.log)
        node.high_watermark = self.random.choice((0, min(node.high_watermark, len(node.log))))
        self._register_later(node, lost_tail)

    def _register_later(self, node: Node, lost_tail: bool) -> None:
        node.starts += 1
        disk = f"disk {node.number}.{node.disks}"
        self.coming[node.number] = NodeRecord("", node.me.start, disk=disk, lost_tail=lost_tail)
        if self.random.random() < 0.5:
            self.store.nodes.pop(node.number, None)  # the session ends before the next start

    def _start(self, node: Node) -> None:
        node.is_up = True
        found = self.coming[node.number]
        self.store.put(admitted(self.store.record, node.number, found, self.store.disks[node.number], self.rules))
        self.store.nodes[node.number] = found
        self.store.disks[node.number] = found.disk

    # --- controller ----------------------------------------------------------------------------------------

    def _elect(self) -> None:
        """Also away from a leader that lives, now and then: it may be suspected, or asked to hand over."""
        living = dict(self.store.nodes)
        if not needs_leader(self.store.record, living, self.rules):
            if self.random.random() < 0.7:
                return
            living.pop(self.store.record.leader)
            if not any(self.store.record.counts(node, one.incarnation) for node, one in living.items()):
                return
        if (record := elected(self.store.record, living, rules=self.rules)) is not None:
            self.elections += 1
            self.store.put(record)

    # --- network -------------------------------------------------------------------------------------------

    def _lose(self) -> None:
        if self.network:
            self.network.pop(self.random.randrange(len(self.network)))

    def _deliver(self) -> None:
        match message := self.network.pop(self.random.randrange(len(self.network))):
            case Fetch():
                self._asked(self.nodes[message.to], message)
            case Parted():
                self._cut(self.nodes[message.to.node], message)
            case Data():
                self._take(self.nodes[message.to.node], message)
            case SetChange():
                if message.revision == self.store.revision or ReplicationRule.COMPARE not in self.rules:
                    self.store.put(message.record)

    def _asked(self, node: Node, fetch: Fetch) -> None:
        leader = node.leads
        if not node.is_up or leader is None or not self._is_same(leader.epoch, fetch.epoch):
            return
        apart = parting(fetch.place, *end_of_epoch(node.epochs, fetch.place.last_epoch, len(node.log)))
        if apart is not None:
            self.network.append(Parted(fetch.by, fetch.epoch, fetch.place, apart))
            return
        leader.fetched(fetch.by, {LOG: FetchedLog(fetch.place.end, fetch.safe)}, self.now)
        self._acknowledge(node)
        batches = node.log[fetch.place.end : fetch.place.end + 2]
        mark = leader.logs[LOG].high_watermark
        self.network.append(Data(fetch.by, fetch.epoch, fetch.place.end, batches, mark))

    def _is_same(self, ours: int, theirs: int) -> bool:
        return ours == theirs or ReplicationRule.EPOCH not in self.rules

    def _follows(self, node: Node, to: Replica, epoch: int) -> bool:
        return node.is_up and node.me == to and node.follows is not None and self._is_same(node.follows.epoch, epoch)

    def _cut(self, node: Node, message: Parted) -> None:
        if not self._follows(node, message.to, message.epoch) or message.place != node.place:
            return
        own = Parting(*end_of_epoch(node.epochs, message.told.epoch, len(node.log)))
        at = cut_at(node.place, message.told, own, node.high_watermark, self.rules)
        del node.log[at:]
        node.safe = min(node.safe, at)
        node.high_watermark = min(node.high_watermark, at)

    def _take(self, node: Node, message: Data) -> None:
        if self._follows(node, message.to, message.epoch) and message.at == len(node.log):
            node.log += message.batches
            node.high_watermark = max(node.high_watermark, min(message.high_watermark, len(node.log)))

    # --- what must hold ------------------------------------------------------------------------------------

    def _acknowledge(self, node: Node) -> None:
        leader = node.leads
        assert leader is not None
        node.high_watermark = max(node.high_watermark, leader.logs[LOG].high_watermark)
        if len(leader.record.in_sync) < self.minimum and ReplicationRule.MINIMUM in self.rules:
            return
        for offset, (_, value) in enumerate(node.log[: leader.logs[LOG].high_watermark]):
            if self.acknowledged.setdefault(offset, value) != value:
                raise Violation(f"{offset}: {self.acknowledged[offset]} and {value} were acknowledged")

    def _has_everything(self, node: Node) -> None:
        for offset, value in self.acknowledged.items():
            if [one for _, one in node.log[offset : offset + 1]] != [value]:
                raise Violation(f"{offset}: {value} was acknowledged, and the new leader does not have it")

    def _read_all(self, node: Node) -> None:
        assert node.leads is not None
        for offset, (_, value) in enumerate(node.log[: node.leads.logs[LOG].high_watermark]):
            if self.read.setdefault(offset, value) != value:
                raise Violation(f"{offset} was read as {self.read[offset]} and as {value}")
            if self.acknowledged.get(offset, value) != value:
                raise Violation(f"{offset}: {self.acknowledged[offset]} was acknowledged, {value} is read")
