"""A shard that this node leads: followers' fetches are answered, and high watermarks follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from goqueue.base.ids import Millis
from goqueue.base.metadata import Revision
from goqueue.base.replication import LogAnswer, LogFetch, LogKey, Refusal, ShardAnswer, ShardFetch
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.replication.follower import LogPlace, parting
from goqueue.core.replication.leader import FetchedLog, FollowerLag, Replica, SetChange, ShardLeader
from goqueue.drive.replica_log import ReplicaLog


class LeadingShard:
    """Made for one epoch of a shard."""

    def __init__(self, leader: ShardLeader, logs: Iterable[ReplicaLog]) -> None:
        self._leader = leader
        self._logs: dict[LogKey, ReplicaLog] = {}
        for log in logs:
            self.open(log)

    @property
    def epoch(self) -> int:
        return self._leader.epoch

    @property
    def record(self) -> ShardRecord:
        return self._leader.record

    def open(self, log: ReplicaLog) -> None:
        self._logs[log.key] = log
        self._leader.open_log(log.key, log.end_offset, log.synced_offset, log.high_watermark, log.minimum)

    def set_minimum(self, key: LogKey, minimum: int) -> None:
        if self._leader.set_minimum(key, minimum):
            self._mark([key])

    def close(self, key: LogKey) -> None:
        self._logs.pop(key, None)
        self._leader.close_log(key)

    # --- what happens here -----------------------------------------------------------------------------------

    def appended(self, key: LogKey) -> None:
        if self._leader.appended(key, self._logs[key].end_offset):
            self._mark([key])

    def synced(self, key: LogKey) -> None:
        if self._leader.synced(key, self._logs[key].synced_offset):
            self._mark([key])

    def confirmed(self, record: ShardRecord, revision: Revision) -> None:
        self._mark(self._leader.confirmed(record, revision))

    def wanted(self, living: Mapping[int, str], now: Millis) -> SetChange | None:
        return self._leader.wanted(living, now)

    def lags(self, now: Millis) -> dict[int, FollowerLag]:
        return self._leader.lags(now)

    def _mark(self, keys: Iterable[LogKey]) -> None:
        for key in keys:
            self._logs[key].mark(self._leader.logs[key].high_watermark)

    # --- what followers ask ----------------------------------------------------------------------------------

    def refusal(self, epoch: int) -> Refusal:
        if epoch == self.epoch:
            return ""
        return "fenced_epoch" if epoch < self.epoch else "unknown_epoch"

    def answer(self, by: Replica, asked: ShardFetch, bytes_max: int, now: Millis) -> ShardAnswer:
        """What is new, or where histories part, of the logs that were asked for. A log that is neither says nothing."""
        if refusal := self.refusal(asked.epoch):
            return ShardAnswer(asked.shard, refusal)
        partings = {one.log: told for one in asked.logs if (told := self._parting(one)) is not None}
        on_history = {one.log: one for one in asked.logs if one.log in self._logs and one.log not in partings}
        fetched = {key: FetchedLog(one.end, one.safe) for key, one in on_history.items()}
        self._mark(self._leader.fetched(by, fetched, now))
        answers = list(partings.values())
        for key, one in on_history.items():
            answer = self._news(key, one, bytes_max)
            bytes_max -= len(answer.batches)
            answers.append(answer)
        return ShardAnswer(asked.shard, "", answers)

    def _parting(self, asked: LogFetch) -> LogAnswer | None:
        log = self._logs.get(asked.log)
        if log is None:
            return None
        if asked.end < log.start_offset:
            return LogAnswer(asked.log, 0, log.start_offset)  # what it lacks is gone: it begins anew
        if asked.last_epoch < 0 and asked.end == log.start_offset:
            return None  # as it does here
        told = parting(LogPlace(asked.end, asked.last_epoch), *log.end_of_epoch(asked.last_epoch))
        return None if told is None else LogAnswer(asked.log, 0, log.start_offset, parting=(told.epoch, told.end))

    def _news(self, key: LogKey, asked: LogFetch, bytes_max: int) -> LogAnswer:
        log = self._logs[key]
        batches = log.read_tail(asked.end, bytes_max) if bytes_max > 0 and asked.end < log.end_offset else b""
        return LogAnswer(key, log.high_watermark, log.start_offset, batches)

    def has_news(self, asked: ShardFetch) -> bool:
        """Something to answer at once: more to read, or a history that parts."""
        if self.refusal(asked.epoch):
            return True
        for one in asked.logs:
            log = self._logs.get(one.log)
            if log is not None and (one.end < log.end_offset or self._parting(one) is not None):
                return True
        return False
