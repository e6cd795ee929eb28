"""What was acknowledged of a shard and must be there, also when leaders are elected that lack something.

Every message is another, so that an offset with its message names a history up to there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from goqueue.base.ids import Offset
from goqueue.base.replication import LogKey
from goqueue.format.batch import split
from goqueue.format.records import decode
from tests.drive.replicas import SHARD, SmallLog, SmallNode

if TYPE_CHECKING:
    from tests.drive.unclean_world import UncleanCluster


class Violation(Exception):
    """Something acknowledged is gone, or a replica is stuck."""


class Dropped:
    """What was before an offset may go, in each history as far as it is the same."""

    def __init__(self, held: Mapping[Offset, str], to: Offset, node: int | None) -> None:
        """`node` may drop it alone; all may if it is None, since somebody asked for it."""
        self.node = node
        self.to: Offset = 0  # in the history that counts
        self._held = {offset: value for offset, value in held.items() if offset < to}

    def compare(self, history: Mapping[Offset, str]) -> None:
        same = (offset for offset, value in self._held.items() if history.get(offset) == value)
        self.to = max(same, default=-1) + 1


class LogLedger:
    """Of one log."""

    def __init__(self) -> None:
        self.acknowledged: dict[Offset, str] = {}
        self.history: dict[Offset, str] = {}  # as the one who leads has it, or had it
        self.begins: Offset = 0  # where one who led in this history began: what is before need not be the same
        self.dropped: list[Dropped] = []

    def may_drop(self, held: Mapping[Offset, str], to: Offset, node: int | None) -> None:
        self.dropped.append(Dropped(held, to, node))
        self.dropped[-1].compare(self.history)

    def check_start(self, node: int, start: Offset) -> None:
        """A replica may not begin behind what was acknowledged and nobody asked to go."""
        may_go = max([self.begins, *(one.to for one in self.dropped if one.node in (None, node))])
        if any(may_go <= offset < start for offset in self.acknowledged):
            raise Violation(f"node {node} begins at {start}, and may not behind {may_go}")


class Ledger:
    """Of all logs. The history that counts is that of the store's leader."""

    def __init__(self, cluster: UncleanCluster) -> None:
        self._cluster = cluster
        self.logs = {key: LogLedger() for key in cluster.keys}
        self._marks: dict[LogKey, tuple[int, Offset]] = {}
        self._began: dict[LogKey, Offset] = dict.fromkeys(cluster.keys, 0)
        self._unclean = 0

    @property
    def leader(self) -> SmallNode | None:
        """Who leads by the store's word, knows it, and has its session: what it says counts."""
        record = self._cluster.record
        node = self._cluster.nodes[record.leader] if record.leader >= 0 else None
        found = self._cluster.living.get(record.leader)
        is_held = node is not None and found is not None and found.incarnation == node.me.start
        return node if node is not None and is_held and self._leads(node) else None

    def _leads(self, node: SmallNode) -> bool:
        record = self._cluster.record
        is_it = record.leader == node.number and record.starts.get(node.number) == node.me.start
        return is_it and node.is_up and SHARD in node.leads and node.leads[SHARD].epoch == record.epoch

    def is_served(self, leader: SmallNode) -> bool:
        """What it held when it was elected is at everybody in sync."""
        return all(leader.logs[key].high_watermark >= self._began[key] for key in self.logs)

    # --- what happens --------------------------------------------------------------------------------------

    def led(self, leader: SmallNode) -> None:
        """It has heard that it is to lead: until then its log may have moved on."""
        record = self._cluster.record
        is_unclean = record.unclean > self._unclean
        self._unclean = record.unclean
        for key, ledger in self.logs.items():
            log = leader.logs[key]
            held = values_of(log)
            self._began[key] = log.end_offset
            if is_unclean:
                ledger.dropped.append(Dropped(ledger.history, ledger.begins, None))  # others may be about to follow
                _cut(ledger, log, held)
            else:
                ledger.check_start(leader.number, log.start_offset)
            below = {offset: value for offset, value in ledger.history.items() if offset < log.start_offset}
            ledger.history = below | held
            for one in ledger.dropped:
                one.compare(ledger.history)
            ledger.begins = log.start_offset if is_unclean else max(ledger.begins, log.start_offset)

    def appended(self, node: SmallNode, key: LogKey) -> None:
        if self._leads(node):
            self.logs[key].history |= values_of(node.logs[key])

    def deleted(self, log: SmallLog, to: Offset) -> None:
        """Asked for at the leader."""
        ledger = self.logs[log.key]
        ledger.may_drop(ledger.history, to, None)

    def retained(self, node: SmallNode, log: SmallLog, to: Offset) -> None:
        """By one replica. If it leads, or did and has not heard of it, all others follow."""
        self.logs[log.key].may_drop(values_of(log), to, None if SHARD in node.leads else node.number)

    # --- what must hold ------------------------------------------------------------------------------------

    def check(self) -> None:
        leader, record = self.leader, self._cluster.record
        if record.unclean != self._unclean:
            return  # nobody knows yet what is left
        if leader is not None:
            for key in self.logs:
                self._check_leader(leader, key)
        for node in self._cluster.nodes:
            counts = node.number in (*record.in_sync, *record.eligible)
            if node.is_up and counts and record.starts.get(node.number) == node.me.start:
                for key in self.logs:
                    self._check_replica(node, key)

    def _check_leader(self, leader: SmallNode, key: LogKey) -> None:
        ledger, log, epoch = self.logs[key], leader.logs[key], self._cluster.record.epoch
        known_epoch, mark = self._marks.get(key, (-1, 0))
        if known_epoch == epoch and log.high_watermark < mark:
            raise Violation(f"{key}: the high watermark went from {mark} to {log.high_watermark}")
        self._marks[key] = epoch, log.high_watermark
        held = values_of(log)
        readable = min(log.high_watermark, log.synced_offset)  # an unclean leader may know of more than it has safe
        for offset in range(max(ledger.begins, log.start_offset), readable):
            value = held.get(offset, "")
            if not value or ledger.acknowledged.setdefault(offset, value) != value:
                raise Violation(f"{key}: {offset} is {value}, and {ledger.acknowledged.get(offset)} was acknowledged")
        self._check_replica(leader, key)
        ledger.begins = max(ledger.begins, log.start_offset)
        served_to = max(ledger.acknowledged, default=-1) + 1
        if self.is_served(leader) and log.high_watermark < served_to:
            raise Violation(f"{key}: readers go to {log.high_watermark}, and {served_to} was acknowledged")

    def _check_replica(self, node: SmallNode, key: LogKey) -> None:
        ledger, log = self.logs[key], node.logs[key]
        start = log.start_offset
        ledger.check_start(node.number, start)
        held = values_of(log)
        for offset, value in ledger.acknowledged.items():
            if offset >= max(start, ledger.begins) and held.get(offset) != value:
                raise Violation(f"{key}: node {node.number} has {held.get(offset)} at {offset}, not {value}")


def _cut(ledger: LogLedger, log: SmallLog, held: dict[Offset, str]) -> None:
    """What the new leader lacks is lost, and all that was behind it."""
    apart = [one for one, value in ledger.acknowledged.items() if one >= log.start_offset and held.get(one) != value]
    end = min([log.synced_offset, *apart])
    kept = range(log.start_offset, end)
    ledger.acknowledged = {offset: value for offset, value in ledger.acknowledged.items() if offset in kept}


def bytes_of(log: SmallLog, start: Offset) -> bytes:
    """From the batch on that holds the offset."""
    found: list[bytes] = []
    while start < log.end_offset:
        data = log.read_tail(start, 1 << 20)
        found.append(data)
        start = _messages(data)[-1][0] + 1
    return b"".join(found)


def values_of(log: SmallLog) -> dict[Offset, str]:
    """All that a log holds."""
    found = dict(_messages(bytes_of(log, log.start_offset)))
    return {offset: value for offset, value in found.items() if offset >= log.start_offset}


@lru_cache(10_000)
def _messages(data: bytes) -> list[tuple[Offset, str]]:
    return [(one.offset, (one.value or b"").decode()) for part in split(data) for one in decode(part)]
