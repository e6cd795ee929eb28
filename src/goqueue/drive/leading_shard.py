"""A shard that this node leads: followers' fetches are answered, and high watermarks follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from goqueue.base.ids import Millis
from goqueue.base.metadata import Revision
from goqueue.base.replication import LogAnswer, LogFetch, LogKey, Refusal, ShardAnswer, ShardFetch
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.replication.follower import LogPlace, parting
from goqueue.core.replication.leader import FetchedLog, FollowerLag, Replica, SetChange, ShardLeader
from goqueue.drive.follower_places import FollowerPlaces
from goqueue.drive.replica_log import ReplicaLog


class LeadingShard:
    """Made for one epoch of a shard."""

    def __init__(self, leader: ShardLeader, logs: Iterable[ReplicaLog]) -> None:
        self._leader = leader
        self._logs: dict[LogKey, ReplicaLog] = {}
        self._places: dict[Replica, FollowerPlaces] = {}
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
        for places in self._places.values():
            places.forget(key)

    # --- what happens here -----------------------------------------------------------------------------------

    def appended(self, key: LogKey) -> None:
        for places in self._places.values():
            places.grown(key)
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
        """What is new, or where histories part, of the logs that the follower has; of those that it has all of, how far
        readers may go, if it named all."""
        if refusal := self.refusal(asked.epoch) or self._hear(by, asked, now):
            return ShardAnswer(asked.shard, refusal)
        places, answers = self._places[by], list[LogAnswer]()
        for key in places.all if asked.is_whole else list(places.behind):
            answer = self._parting(places.all[key]) or self._news(key, places.all[key], bytes_max)
            bytes_max -= len(answer.batches)
            answers.append(answer)
        return ShardAnswer(asked.shard, "", answers)

    def _hear(self, by: Replica, asked: ShardFetch, now: Millis) -> Refusal:
        """Notes where the follower is now."""
        if asked.is_whole:
            self._places[by] = FollowerPlaces()
        elif by not in self._places:
            return "unknown_places"
        places, on_history = self._places[by], dict[LogKey, FetchedLog]()
        for one in asked.logs:
            if (log := self._logs.get(one.log)) is not None:
                has_parted = self._parting(one) is not None
                places.hear(one, has_parted or one.end < log.end_offset)
                if not has_parted:
                    on_history[one.log] = FetchedLog(one.end, one.safe)
        self._mark(self._leader.fetched(by, on_history, now))
        return ""

    def _parting(self, asked: LogFetch) -> LogAnswer | None:
        log = self._logs[asked.log]
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

    def has_news(self, by: Replica, asked: ShardFetch) -> bool:
        """Something to answer at once: more to read, or a history that parts."""
        places = self._places.get(by)
        return bool(self.refusal(asked.epoch)) or places is None or bool(places.behind)
