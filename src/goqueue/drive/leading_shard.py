"""A shard that this node leads: followers' fetches are answered, and high watermarks follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from goqueue.base.ids import Millis, Offset
from goqueue.base.metadata import Revision
from goqueue.base.replication import LogAnswer, LogFetch, LogKey, Refusal, ShardAnswer, ShardFetch
from goqueue.core.cluster.moving import is_added, newly_added
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.replication.follower import LogPlace, parting
from goqueue.core.replication.leader import FetchedLog, FollowerLag, Replica, SetChange, ShardLeader
from goqueue.drive.follower_sessions import FollowerSession, FollowerSessions
from goqueue.drive.replica_log import ReplicaLog
from goqueue.log.epoch_history import NO_EPOCH

_READ_AGAIN_MS: Final = 2_000  # what the disk did not give for a follower is tried again


class HeardFetch:
    """A follower's fetch of a shard that waits for news."""

    def __init__(self, shard: LeadingShard, asked: ShardFetch, heard: FollowerSession | Refusal, is_copy: bool) -> None:
        """`is_copy`: it is of a replica that a move adds and that is not in sync yet."""
        self.shard = shard
        self.is_copy = is_copy
        self._asked = asked
        self._heard = heard

    def end(self, now: Millis) -> None:
        """It is answered, or given up."""
        if isinstance(self._heard, FollowerSession):
            self.shard.ended(self._heard.by, now)

    def has_news(self) -> bool:
        """Something to answer at once."""
        return self.is_refused() or self.has_more() or self._has_marks()

    def _has_marks(self) -> bool:
        """Consumers of the follower wait for them."""
        return isinstance(self._heard, FollowerSession) and self.shard.is_read_at(self._heard)

    def is_refused(self) -> bool:
        return isinstance(self._heard, str) or self._is_late(self._heard)

    def has_more(self) -> bool:
        """More to read, or a history that parts."""
        return isinstance(self._heard, FollowerSession) and bool(self._heard.behind)

    def _is_late(self, session: FollowerSession) -> bool:
        """The follower has asked again since, or has to."""
        return session.is_over or session.number != self._asked.number

    def answer(self, bytes_max: int) -> ShardAnswer:
        if isinstance(self._heard, str):
            return ShardAnswer(self._asked.shard, self._heard)
        if self._is_late(self._heard):
            return ShardAnswer(self._asked.shard, "unknown_session")
        return ShardAnswer(self._asked.shard, "", self.shard.tell(self._heard, bytes_max), self._heard.id)


class LeadingShard:
    """Made for one epoch of a shard."""

    def __init__(
        self, leader: ShardLeader, logs: Iterable[ReplicaLog], marked: Callable[[], None] = lambda: None
    ) -> None:
        """`marked` is called when marks moved that followers should hear of at once, since consumers read there."""
        self._leader = leader
        self._marked = marked
        self._read_at: set[int] = set()  # followers that consumers were sent to
        self._logs: dict[LogKey, ReplicaLog] = {}
        self._starts: dict[LogKey, Offset] = {}  # as followers were told
        self._dropped: dict[LogKey, Offset] = {}  # before where followers were asked to delete what is still here
        self._sessions = FollowerSessions()
        self._read_again_ms: Millis = 0
        for log in logs:
            self.open(log)

    @property
    def epoch(self) -> int:
        return self._leader.epoch

    @property
    def record(self) -> ShardRecord:
        return self._leader.record

    def open(self, log: ReplicaLog) -> None:
        self._logs[log.key], self._starts[log.key] = log, log.start_offset
        self._sessions.end_all()
        if self._leader.open_log(log.key, log.end_offset, log.synced_offset, log.high_watermark, log.minimum):
            self._mark([log.key])

    def set_minimum(self, key: LogKey, minimum: int) -> None:
        if self._leader.set_minimum(key, minimum):
            self._mark([key])

    def close(self, key: LogKey) -> None:
        self._logs.pop(key, None)
        self._starts.pop(key, None)
        self._sessions.end_all()
        self._leader.close_log(key)

    # --- what happens here -----------------------------------------------------------------------------------

    def appended(self, key: LogKey) -> None:
        self._sessions.grown(key)
        if self._leader.appended(key, self._logs[key].end_offset):
            self._mark([key])

    def synced(self, key: LogKey) -> None:
        if self._leader.synced(key, self._logs[key].synced_offset):
            self._mark([key])

    def confirmed(self, record: ShardRecord, revision: Revision) -> None:
        if newly_added(self.record, record):
            self._sessions.end_all()  # they have to say anew where they are
        self._mark(self._leader.confirmed(record, revision))

    def wanted(self, living: Mapping[int, str], now: Millis) -> SetChange | None:
        self._look_at_starts()
        if not 0 <= now - self._read_again_ms < _READ_AGAIN_MS:
            self._read_again_ms = now
            self._sessions.read_again()
        return self._leader.wanted(living, now)

    def _look_at_starts(self) -> None:
        """Logs are shortened off the loop: it is looked for now and then."""
        self._drop_as_followers_did()
        for key, log in self._logs.items():
            if log.start_offset != self._starts[key]:
                self._starts[key] = log.start_offset
                self._sessions.moved(key)

    def _drop_as_followers_did(self) -> None:
        """A leader before this one was asked to, and said so: it must not come back. What a follower lacks for another
        reason (its own retention, a clock that is ahead, a lost file) stays here."""
        for key, start in list(self._dropped.items()):
            log = self._logs.get(key)
            if log is None or log.start_offset >= start:
                del self._dropped[key]
            elif start <= log.high_watermark:
                log.note_deleted(start)
                log.begin_at(start)

    def lags(self, now: Millis) -> dict[int, FollowerLag]:
        return self._leader.lags(now)

    def bytes_lacking(self, node: int) -> int:
        """About how much a replica has still to be sent."""
        ends = self._leader.ends_of(node)
        return sum(log.bytes_from(ends.get(key, 0)) for key, log in self._logs.items())

    def _mark(self, keys: Iterable[LogKey]) -> None:
        has_moved = False
        for key in keys:
            self._logs[key].mark(self._leader.logs[key].high_watermark)
            self._sessions.moved(key)
            has_moved = True
        if has_moved and self._read_at:
            self._marked()

    def reader_at(self, nodes: Sequence[int], topic_id: str, partition: int, offset: Offset) -> int | None:
        """The node of these that has most of a log, for somebody who reads from there; None if all lack the offset."""
        key = LogKey(topic_id, partition)
        ends = {node: self._leader.ends_of(node).get(key, -1) for node in nodes if self._has_begun(node, key, offset)}
        if not ends or max(ends.values()) < offset:
            return None
        best = max(ends, key=lambda node: (ends[node], -node))
        self._read_at.add(best)
        return best

    def _has_begun(self, node: int, key: LogKey, offset: Offset) -> bool:
        """Whether a follower's log begins there or before: each deletes by itself what is old."""
        place = self._sessions.place(node, key)
        return place is not None and place.start <= offset

    # --- what followers ask ----------------------------------------------------------------------------------

    def refusal(self, epoch: int) -> Refusal:
        if epoch == self.epoch:
            return ""
        return "fenced_epoch" if epoch < self.epoch else "unknown_epoch"

    def hear(self, by: Replica, asked: ShardFetch, now: Millis) -> HeardFetch:
        """Notes where the follower is, and that it waits until the fetch has its `end`."""
        heard = self.refusal(asked.epoch) or self._hear(by, asked, now)
        if isinstance(heard, FollowerSession):
            self._leader.begun(by)
        return HeardFetch(self, asked, heard, is_added(self.record, by.node) and not self.record.counts(*by))

    def ended(self, by: Replica, now: Millis) -> None:
        self._leader.ended(by, now)

    def _hear(self, by: Replica, asked: ShardFetch, now: Millis) -> FollowerSession | Refusal:
        session = self._sessions.next(by, asked.session, asked.number) if asked.session else self._sessions.begin(by)
        if session is None:
            return "unknown_session"
        on_history: dict[LogKey, FetchedLog] = {}
        for place in asked.logs:
            if (log := self._logs.get(place.log)) is not None:
                has_parted = self._parting(log, place, by) is not None
                session.hear(place, has_parted or place.end < log.end_offset)
                if has_parted:
                    self._leader.parted(by, place.log)
                else:
                    on_history[place.log] = FetchedLog(place.end, place.safe)
                    if place.deleted > log.start_offset:
                        self._dropped[place.log] = max(place.deleted, self._dropped.get(place.log, 0))
        self._mark(self._leader.fetched(by, on_history, now))
        return session

    def is_read_at(self, session: FollowerSession) -> bool:
        """Consumers read at the follower, and marks have moved that it was not told of."""
        return bool(session.changed) and session.by.node in self._read_at

    def tell(self, session: FollowerSession, bytes_max: int) -> list[LogAnswer]:
        """What is new, or where histories part, of the logs that the follower has."""
        answers: list[LogAnswer] = []
        for key in session.to_tell():
            log, place = self._logs[key], session.places[key]
            answer = self._parting(log, place, session.by) or _news(log, place, bytes_max)
            if not log.is_readable(place.end):
                session.put_off(key)
            bytes_max -= len(answer.batches)
            answers.append(answer)
        return answers

    def _parting(self, log: ReplicaLog, place: LogFetch, by: Replica) -> LogAnswer | None:
        if place.end < log.start_offset:
            return LogAnswer(place.log, 0, log.start_offset)  # what it lacks is gone: it begins anew
        if place.last_epoch < 0 and (place.end == log.start_offset or self._goes_on(log, place, by)):
            return None  # it holds nothing that could part
        if self._is_of_before(log, place) and not self._leader.had(by, log.key, place.end):
            return LogAnswer(place.log, 0, log.start_offset, parting=(NO_EPOCH, 0))
        told = parting(LogPlace(place.end, place.last_epoch), *log.end_of_epoch(place.last_epoch))
        return None if told is None else LogAnswer(place.log, 0, log.start_offset, parting=(told.epoch, told.end))

    def _is_of_before(self, log: ReplicaLog, place: LogFetch) -> bool:
        """It ends where this log begins, in an epoch that this one does not know any more: nobody can tell whether both
        histories are the same up to there, and this log may begin within a batch. All of it is to go in any case."""
        at_start = place.last_epoch, log.start_offset
        return (place.last_epoch, place.end) == at_start == log.end_of_epoch(place.last_epoch) and place.end > 0

    def _goes_on(self, log: ReplicaLog, place: LogFetch, by: Replica) -> bool:
        """An empty log that begins behind this one's start, as that of an earlier leader did. Only of who counts is it
        known that both histories are the same up to there; anybody else begins anew, and has nothing to lose."""
        return place.is_empty and place.end <= log.end_offset and self._leader.had(by, log.key, place.end)


def _news(log: ReplicaLog, place: LogFetch, bytes_max: int) -> LogAnswer:
    batches = log.read_tail(place.end, bytes_max) if bytes_max > 0 and place.end < log.end_offset else b""
    return LogAnswer(log.key, log.high_watermark, log.start_offset, batches, deleted=log.deleted_to)
