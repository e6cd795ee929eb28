"""What holds at every moment of a simulated cluster, whatever happens to it: looked at from outside, all the while.

Whoever counts as in sync has everything that was acknowledged, from the moment on that a client is told so; what was
acknowledged is the same everywhere and stays as it was; an epoch has one leader, which stamps it into what it writes
and answers nobody who believes in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple

from goqueue.base.encoding import decode as decode_message
from goqueue.base.errors import DamagedRange, GoQueueError
from goqueue.base.ids import Epoch, Offset, TopicPartition
from goqueue.base.limits import MIB
from goqueue.base.metadata import Change
from goqueue.base.replication import FetchAnswer, FetchAsk, LogKey
from goqueue.broker import Broker
from goqueue.core.cluster.records import NOBODY, SHARDS, ShardRecord, decode
from goqueue.drive.partition import Partition
from goqueue.drive.shard_roles import FETCH, ShardRoles
from goqueue.drive.topic_table import Topic
from goqueue.format.batch import BatchHeader, read_header, split
from goqueue.log.reader import NeedsVerification
from goqueue.sim.cluster import SimCluster, SimNode
from goqueue.sim.violation import Violation

_LOOK_S: Final = 0.1
Start = tuple[int, str]  # a node, and which start of it


class _Held(NamedTuple):
    """A log on a node."""

    start: Start
    key: LogKey


class Invariants:
    """A client that asks nobody. `run` raises `Violation` soon after something is wrong."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._records: dict[int, ShardRecord] = {}  # as the store has them
        self._leaders: dict[tuple[int, Epoch], Start] = {}
        self._committed: dict[LogKey, Offset] = {}  # what anybody was told to be acknowledged
        self._contents: dict[LogKey, dict[Offset, BatchHeader]] = {}
        self._looked_to: dict[_Held, Offset] = {}
        self._led_from: dict[tuple[_Held, Epoch], Offset] = {}
        self._synced: set[_Held] = set()  # had everything on its disk once
        self._broken = ""
        self._logs: dict[Broker, list[tuple[Partition, LogKey, int]]] = {}  # as of the last look
        for key, entry in cluster.store.state.read().entries.items():
            if key.startswith(SHARDS) and (record := decode(entry.value, ShardRecord)) is not None:
                self._records[int(key.removeprefix(SHARDS))] = record
        cluster.store.on_change = self._stored
        cluster.network.on_call = self._called
        cluster.network.on_answer = self._answered
        cluster.on_acknowledged = self._acknowledged

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            self._look()
            if self._broken:
                raise Violation(self._broken)

    def _break(self, what: str) -> None:
        """Found in somebody else's task."""
        self._broken = self._broken or what

    def _acknowledged(self, at: TopicPartition, last: Offset) -> None:
        """A leader tells a client so: everybody in sync has it at that moment."""
        for node in self._cluster.nodes:
            for broker in _ready(node):
                key = LogKey(broker.topics.require(at.topic).record.id, at.partition)
                self._committed[key] = max(self._committed.get(key, 0), last + 1)
        for node in self._cluster.nodes:
            self._check_node(node)

    # --- the store -------------------------------------------------------------------------------------------

    def _stored(self, change: Change) -> None:
        for entry in change.puts:
            if entry.key.startswith(SHARDS) and (record := decode(entry.value, ShardRecord)) is not None:
                self._changed(int(entry.key.removeprefix(SHARDS)), record)

    def _changed(self, shard: int, record: ShardRecord) -> None:
        before = self._records.get(shard)
        self._records[shard] = record
        if before is not None and record.epoch < before.epoch:
            self._break(f"shard {shard} goes back from epoch {before.epoch} to {record.epoch}")
        if before is not None and record.epoch == before.epoch and record.leader not in (before.leader, NOBODY):
            self._break(f"shard {shard} has another leader in epoch {record.epoch}")

    # --- what nodes say to each other ------------------------------------------------------------------------

    def _called(self, source: int, target: int, verb: str, body: bytes) -> frozenset[int]:
        """The shards that are asked for in another epoch than the node leads them in."""
        if verb != FETCH:
            return frozenset()
        self._check_node(self._cluster.nodes[source])
        roles = _roles(self._cluster.nodes[target])
        asked = decode_message(body, FetchAsk).shards if roles is not None else ()
        led = {} if roles is None else roles.led
        return frozenset(one.shard for one in asked if one.shard in led and led[one.shard].epoch != one.epoch)

    def _answered(self, wrong: frozenset[int], answer: bytes) -> None:
        if wrong and any(one.shard in wrong and not one.refusal for one in decode_message(answer, FetchAnswer).shards):
            self._break(f"a follower that believes in another epoch is answered for shards {sorted(wrong)}")

    # --- what they hold --------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._logs.clear()
        for node in self._cluster.nodes:
            if (roles := _roles(node)) is not None:
                self._check_leader(node, roles)
        for node in self._cluster.nodes:
            self._check_node(node)
            self._check_contents(node)

    def _logs_of(self, broker: Broker) -> list[tuple[Partition, LogKey, int]]:
        if (known := self._logs.get(broker)) is None:
            found = [(partition, key, topic.record.shard_of(key.partition)) for topic, partition, key in _logs(broker)]
            known = self._logs[broker] = found
        return known

    def _check_leader(self, node: SimNode, roles: ShardRoles) -> None:
        me = _start(node)
        for shard, leading in roles.led.items():
            if self._leaders.setdefault((shard, leading.epoch), me) != me:
                self._break(f"shard {shard} has two leaders in epoch {leading.epoch}: a start of {me[0]} is the second")

    def _check_node(self, node: SimNode) -> None:
        for broker in _ready(node):
            me, logs = _start(node), self._logs_of(broker)
            for partition, key, _ in logs:
                mark = partition.high_watermark
                if mark > self._committed.get(key, 0):
                    self._committed[key] = mark
            counted = {shard for shard, record in self._records.items() if record.counts(*me)}
            for partition, key, shard in logs:
                committed = self._committed.get(key, 0)
                if committed and shard in counted and not partition.is_closed:
                    self._check_in_sync(me, partition, key, committed)

    def _check_in_sync(self, me: Start, partition: Partition, key: LogKey, committed: Offset) -> None:
        node = me[0]
        if partition.end_offset < committed:
            self._break(f"{node} counts as in sync, and has {partition.at} to {partition.end_offset} of {committed}")
        if self._cluster.plan.fsync == "always":
            held = _Held(me, key)
            if partition.log.synced_offset >= committed:
                self._synced.add(held)
            elif held in self._synced:
                self._break(f"{node} has {partition.at} to {committed}, and not on its disk")

    def _check_contents(self, node: SimNode) -> None:
        roles = _roles(node)
        for broker in _ready(node) if roles is not None else ():
            for topic, partition, key in _logs(broker):
                if topic.is_internal or node.is_damaged:
                    continue
                held = _Held(_start(node), key)
                leading = roles.led.get(topic.record.shard_of(partition.at.partition)) if roles is not None else None
                epoch = -1 if leading is None else leading.epoch
                led_from = self._led_from.setdefault((held, epoch), partition.end_offset)
                self._compare(held, partition, epoch, led_from)

    def _compare(self, held: _Held, partition: Partition, epoch: Epoch, led_from: Offset) -> None:
        """Batches are looked at once for each start of a node."""
        known = self._contents.setdefault(held.key, {})
        begin = max(self._looked_to.get(held, 0), partition.start_offset)
        for header in _headers(partition, begin):
            before = known.setdefault(header.base_offset, header)
            if before != header:
                self._break(f"{partition.at} {header.base_offset} is not on {held.start[0]} what it was elsewhere")
            if epoch >= 0 and header.base_offset >= led_from and header.leader_epoch != epoch:
                self._break(f"{partition.at} {header.base_offset} says epoch {header.leader_epoch}, not {epoch}")
            self._looked_to[held] = header.next_offset


def _ready(node: SimNode) -> Iterator[Broker]:
    if node.broker is not None and node.is_ready:
        yield node.broker


def _roles(node: SimNode) -> ShardRoles | None:
    if node.broker is None or not node.is_ready or node.broker.clustering is None:
        return None
    return node.broker.clustering.shards.roles


def _start(node: SimNode) -> Start:
    assert node.broker is not None and node.broker.node.member is not None
    return node.broker.node.member.me


def _logs(broker: Broker) -> Iterator[tuple[Topic, Partition, LogKey]]:
    for topic in broker.table.all():
        for number, partition in enumerate(topic.partitions):
            yield topic, partition, LogKey(topic.record.id, number)


def _headers(partition: Partition, begin: Offset) -> Iterator[BatchHeader]:
    """Of what is acknowledged; nothing where it cannot be read now."""
    if begin >= partition.high_watermark:
        return
    try:
        data = partition.log.read(begin, MIB, partition.high_watermark, wait=True)
    except (NeedsVerification, DamagedRange, GoQueueError):
        return
    yield from map(read_header, split(data))
