"""The leader's side of one shard in one epoch: what followers have, how far readers may go, who is in sync.

It is told what was appended, synced and fetched, and what the metadata store says of the shard. It answers with high
watermarks, and with the changes of the in-sync set that it wants; those count when the store has confirmed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from goqueue.base.ids import Epoch, Millis, Offset
from goqueue.base.metadata import Revision
from goqueue.base.replication import LogKey
from goqueue.core.cluster.moving import newly_added
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.replication.rules import ALL_RULES, ReplicationRule, Rules


class Replica(NamedTuple):
    """One start of a node."""

    node: int
    start: str


class FetchedLog(NamedTuple):
    """How far a follower is with a log, when it asks for more."""

    end: Offset
    safe: Offset  # what is on its disk


class LeaderLog(msgspec.Struct):
    """One log that the shard holds, as its leader sees it."""

    end: Offset
    safe: Offset
    minimum: int  # of replicas that have to be in sync
    began_at: Offset  # where its end was when the epoch began
    high_watermark: Offset


class Follower(msgspec.Struct):
    """What is known of one start of another replica, in this epoch."""

    ends: dict[LogKey, Offset] = {}
    lacks: set[LogKey] = set()  # those of which the leader has more
    goals: dict[LogKey, Offset] = {}  # what it lacked at `goals_ms`, and does still
    goals_ms: Millis = 0
    caught_up_ms: Millis = 0
    heard_ms: Millis = 0
    fetches: int = 0  # under way: it waits for the leader, and not the leader for it

    def forget(self, log: LogKey) -> None:
        self.ends.pop(log, None)
        self.lacks.discard(log)
        self.goals.pop(log, None)


class InSyncRule(NamedTuple):
    """When a replica counts: it is not behind for longer than `lag_ms`, nor silent for longer than `silent_ms`, and if
    `waits_for_sync`, what it has is on its disk."""

    waits_for_sync: bool
    lag_ms: Millis
    silent_ms: Millis


class FollowerLag(NamedTuple):
    """How far another replica is behind."""

    messages: int
    ms: Millis  # since it last had everything


class SetChange(NamedTuple):
    """An in-sync set that the leader wants: to be committed if the record is still of this revision."""

    record: ShardRecord
    revision: Revision


class ShardLeader:
    """Made when the record names this start of this node; another epoch needs another one."""

    def __init__(
        self,
        me: Replica,
        record: ShardRecord,
        revision: Revision,
        in_sync: InSyncRule,
        began_ms: Millis,
        rules: Rules = ALL_RULES,
    ) -> None:
        self.me = me
        self.record = record
        self.revision = revision
        self.logs: dict[LogKey, LeaderLog] = {}
        self._waits_for_sync = in_sync.waits_for_sync and ReplicationRule.SYNCED in rules
        self._in_sync = in_sync
        self._began_ms = began_ms
        self._rules = rules
        self._followers: dict[Replica, Follower] = {}
        self._asked: SetChange | None = None
        self._counted = self._to_count()

    @property
    def epoch(self) -> Epoch:
        return self.record.epoch

    def open_log(self, log: LogKey, end: Offset, safe: Offset, known_mark: Offset, minimum: int) -> bool:
        """`known_mark` is the high watermark that was told to this node when it followed: others are at least there.
        True if it moved: nobody else is waited for."""
        mark = known_mark if ReplicationRule.LEARN in self._rules else end
        self.logs[log] = one = LeaderLog(end, safe, minimum, end, min(mark, end))
        self._note_lack(log, self._own(one))
        return self._advance(log)

    def set_minimum(self, log: LogKey, minimum: int) -> bool:
        """True if the high watermark moved."""
        self.logs[log].minimum = minimum
        return self._advance(log)

    def close_log(self, log: LogKey) -> None:
        self.logs.pop(log, None)
        for follower in self._followers.values():
            follower.forget(log)

    # --- what happens --------------------------------------------------------------------------------------

    def appended(self, log: LogKey, end: Offset) -> bool:
        """True if the high watermark moved."""
        one = self.logs[log]
        one.end = end
        self._note_lack(log, self._own(one))
        return self._advance(log)

    def synced(self, log: LogKey, safe: Offset) -> bool:
        """True if the high watermark moved."""
        one = self.logs[log]
        one.safe = safe
        self._note_lack(log, self._own(one))
        return self._advance(log)

    def _note_lack(self, log: LogKey, own: Offset) -> None:
        for follower in self._followers.values():
            if follower.ends.get(log, 0) < own:
                follower.lacks.add(log)

    def fetched(self, by: Replica, asked: Mapping[LogKey, FetchedLog], now: Millis) -> list[LogKey]:
        """A follower asks for what is behind these places, which are on the leader's history; where it said nothing of
        a log, it is where it was. The logs whose high watermark moved."""
        follower = self._heard(by)
        follower.heard_ms = now
        named = [log for log in asked if log in self.logs]
        for log in named:
            end, safe = asked[log]
            # Less than before, if it dropped what was damaged: what it said then does not count any more.
            follower.ends[log] = reached = safe if self._waits_for_sync else end
            if reached >= self._own(self.logs[log]):
                follower.lacks.discard(log)
            else:
                follower.lacks.add(log)
            if reached >= follower.goals.get(log, 0):
                follower.goals.pop(log, None)
        self._note_caught_up(follower, now)
        return [log for log in named if self._advance(log)]

    def parted(self, by: Replica, log: LogKey) -> None:
        """What a follower has of a log is not this history: it has to cut first, and say then where it is. What it
        lacked before it does still: one that never cuts is behind, and not waited for."""
        follower = self._heard(by)
        follower.ends.pop(log, None)
        if log in self.logs and self._own(self.logs[log]) > 0:
            follower.lacks.add(log)

    def begun(self, by: Replica) -> None:
        """A fetch of the follower waits for an answer."""
        self._heard(by).fetches += 1

    def ended(self, by: Replica, now: Millis) -> None:
        """It is answered, or given up, however late: the leader may have stood still. It is the follower's turn."""
        follower = self._follower(by)
        follower.fetches, follower.heard_ms = max(0, follower.fetches - 1), max(follower.heard_ms, now)

    def _heard(self, by: Replica) -> Follower:
        known = by if ReplicationRule.START in self._rules else Replica(by.node, "")
        if (follower := self._followers.get(known)) is None:
            lacks = {log for log, one in self.logs.items() if self._own(one) > 0}
            self._followers[known] = follower = Follower(lacks=lacks)
        return follower

    def _note_caught_up(self, follower: Follower, now: Millis) -> None:
        """A follower of logs that always grow never has everything: what counts is when it had what was there then."""
        if not follower.lacks:
            follower.caught_up_ms = now
        elif follower.goals:
            return
        else:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.goals_ms)
        follower.goals = {log: self._own(self.logs[log]) for log in follower.lacks}
        follower.goals_ms = now

    def _own(self, log: LeaderLog) -> Offset:
        return log.safe if self._waits_for_sync else log.end

    def _advance(self, log: LogKey) -> bool:
        one = self.logs[log]
        too_few = len(self.record.in_sync) < self.record.needed(one.minimum)
        if (too_few or self.record.eligible) and ReplicationRule.MINIMUM in self._rules:
            return False  # while others are eligible they may be elected: they must not lack anything
        mark = min([self._own(one), *(self._end_of(replica, log) for replica in self._counted)])
        if mark <= one.high_watermark:
            return False
        one.high_watermark = mark
        return True

    def _to_count(self) -> tuple[Replica, ...]:
        """Those without whom nothing is acknowledged: in sync by the store's word, or asked to be added."""
        counted = self._members(self.record)
        if self._asked is not None:
            asked = self._members(self._asked.record)
            counted = counted | asked if ReplicationRule.COUNT_ALL in self._rules else asked
        return tuple(sorted(counted))

    def _members(self, record: ShardRecord) -> set[Replica]:
        return {Replica(node, record.starts.get(node, "")) for node in record.in_sync if node != self.me.node}

    def _end_of(self, replica: Replica, log: LogKey) -> Offset:
        return self._follower(replica).ends.get(log, 0)

    def _follower(self, replica: Replica) -> Follower:
        known = replica if ReplicationRule.START in self._rules else Replica(replica.node, "")
        return self._followers.get(known) or Follower()

    def lags(self, now: Millis) -> dict[int, FollowerLag]:
        """Of each node that has asked in this epoch; of several starts, the one that is furthest."""
        found: dict[int, FollowerLag] = {}
        held = [one for one in self._followers.items() if one[0].node in self.record.replicas]
        for replica, follower in sorted(held, key=lambda one: one[1].caught_up_ms):
            behind = sum(max(0, self._own(one) - follower.ends.get(log, 0)) for log, one in self.logs.items())
            found[replica.node] = FollowerLag(behind, now - follower.caught_up_ms if behind else 0)
        return found

    def ends_of(self, node: int) -> Mapping[LogKey, Offset]:
        """How far a node said to be with each log, of several starts the one that was heard last; of a node that did
        not ask in this epoch nothing is known."""
        heard = [one for replica, one in self._followers.items() if replica.node == node]
        return max(heard, key=lambda one: one.heard_ms).ends if heard else {}

    def had(self, by: Replica, log: LogKey, end: Offset) -> bool:
        """Whether a follower that begins there is known to have had what this history has before: it has everything
        acknowledged by the store's word, though maybe not under its new start yet, or was there in this epoch."""
        has_all = by.node in self.record.in_sync or by.node in self.record.eligible or by in self._counted
        return has_all or self._end_of(by, log) >= end

    # --- who is in sync ------------------------------------------------------------------------------------

    def confirmed(self, record: ShardRecord, revision: Revision) -> list[LogKey]:
        """What the store says of the shard now, in the same epoch. With another revision a change that was asked for is
        decided, whether it was made or not; with the same it still may be made. The logs whose high watermark moved."""
        if revision == self.revision:
            return []
        self._forget(newly_added(self.record, record))
        self.record, self.revision, self._asked = record, revision, None
        self._counted = self._to_count()
        return [log for log in self.logs if self._advance(log)]

    def _forget(self, nodes: Iterable[int]) -> None:
        """They have the shard again after they gave it up: what they had before is gone."""
        for node in nodes:
            for known in [one for one in self._followers if one.node == node]:
                del self._followers[known]

    def wanted(self, living: Mapping[int, str], now: Millis) -> SetChange | None:
        """The next change of the in-sync set. `living` are the nodes that are registered, with their starts.

        It is wanted until the record has another revision, and old and new members hold the high watermark back until
        then: a change that was sent may be made at any time while the record is as it was.
        """
        if self._asked is None:
            record = self._without_laggards(living, now) or self._with_caught_up(living, now) or self._on_our_own()
            self._asked = None if record is None else SetChange(record, self.revision)
            self._counted = self._to_count()
        return self._asked

    def _without_laggards(self, living: Mapping[int, str], now: Millis) -> ShardRecord | None:
        """A start that is registered no more is not waited for."""
        lagging = [
            one.node
            for one in self._members(self.record)
            if living.get(one.node) != one.start or self._is_lagging(self._follower(one), now)
        ]
        return None if not lagging else without(self.record, lagging, self._minimum)

    def _is_lagging(self, follower: Follower, now: Millis) -> bool:
        behind_ms = now - max(follower.caught_up_ms, self._began_ms)
        silent_ms = 0 if follower.fetches else now - max(follower.heard_ms, self._began_ms)
        return behind_ms > self._in_sync.lag_ms or silent_ms > self._in_sync.silent_ms

    def _with_caught_up(self, living: Mapping[int, str], now: Millis) -> ShardRecord | None:
        for node in self.record.replicas:
            start = living.get(node)
            if start is None or node in self.record.in_sync:
                continue
            replica = Replica(node, start)
            if self._has_all(replica) and self._is_heard(replica, now):
                return including(self.record, replica, self._minimum)
        return None

    def _on_our_own(self) -> ShardRecord | None:
        """Enough are in sync, now that a log asks for fewer: those that were eligible are not waited for any more."""
        if not self.record.eligible or len(self.record.in_sync) < self._minimum:
            return None
        return _kept(self.record, self.record.in_sync, ())

    def _is_heard(self, replica: Replica, now: Millis) -> bool:
        """Recently, or it would be taken out again at once."""
        return now - self._follower(replica).heard_ms <= self._in_sync.silent_ms // 2

    def _has_all(self, replica: Replica) -> bool:
        """Everything that is acknowledged, and where this epoch begins."""
        ends = self._follower(replica).ends
        if ReplicationRule.CAUGHT_UP not in self._rules:
            return bool(ends)
        return all(ends.get(log, -1) >= max(one.high_watermark, one.began_at) for log, one in self.logs.items())

    @property
    def _minimum(self) -> int:
        """With fewer in sync no log of the shard moves on."""
        return self.record.needed(min((one.minimum for one in self.logs.values()), default=1))


def without(record: ShardRecord, gone: Iterable[int], minimum: int) -> ShardRecord:
    """Those who leave while too few stay keep what was acknowledged, since nothing more is: they remain eligible."""
    leaving = [node for node in record.in_sync if node in set(gone)]
    staying = tuple(node for node in record.in_sync if node not in leaving)
    return _kept(record, staying, (*record.eligible, *leaving) if len(staying) < minimum else ())


def including(record: ShardRecord, replica: Replica, minimum: int) -> ShardRecord:
    in_sync = (*record.in_sync, replica.node)
    eligible = tuple(node for node in record.eligible if node != replica.node)
    starts = {**record.starts, replica.node: replica.start}
    changed = msgspec.structs.replace(record, starts=starts)
    return _kept(changed, in_sync, eligible if len(in_sync) < minimum else ())


def _kept(record: ShardRecord, in_sync: tuple[int, ...], eligible: tuple[int, ...]) -> ShardRecord:
    """Starts are remembered of those that count alone."""
    starts = {node: start for node, start in record.starts.items() if node in (*in_sync, *eligible, record.leader)}
    return msgspec.structs.replace(record, in_sync=in_sync, eligible=eligible, starts=starts)
