"""Opens partitions: recovers the log on a thread, gives it marks, and ties it to the shared group commit."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from goqueue.base.clock import Clock
from goqueue.base.descriptors import DescriptorPlan
from goqueue.base.ids import TopicPartition
from goqueue.base.log_settings import LogSettings
from goqueue.base.topic_config import TopicConfig
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.partition import PartitionState
from goqueue.drive.flusher import Flusher
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.producers import recover_producers
from goqueue.log.appending import RollRule
from goqueue.log.disk import Disk
from goqueue.log.held_logs import HeldLogs
from goqueue.log.home import OpenSegments, SegmentHome
from goqueue.log.journal_replay import JournalReplay
from goqueue.log.partition_log import PartitionLog
from goqueue.log.recovery import Recovered, StrayLog, open_log
from goqueue.log.stats import StorageStats

logger = logging.getLogger(__name__)

LOGS = "logs"


def roll_rule(config: TopicConfig) -> RollRule:
    return RollRule(config.segment_bytes, config.segment_ms)


class OpenerParts(NamedTuple):
    """What all partitions of a node share."""

    disk: Disk
    flusher: Flusher
    offload: Offload
    stats: StorageStats
    clock: Clock
    replay: JournalReplay
    had_power_cut: Callable[[], bool] = lambda: False  # since the last start; of a node of a cluster


def _nothing() -> None: ...


class PartitionOpener:
    """One for all partitions of a node."""

    def __init__(self, parts: OpenerParts, settings: LogSettings, descriptors: DescriptorPlan) -> None:
        self.disk, self._flusher, self.offload, self._stats, self.clock, self._replay, self._had_power_cut = parts
        self._settings = settings
        self._open_segments = OpenSegments(descriptors.sealed_segments, descriptors.active_segments)
        self.held = HeldLogs(self.disk)
        self._own_segments = OpenSegments()  # few, and the node cannot do without them

    def open(
        self, at: TopicPartition, topic_id: str, shard: ShardRecord, config: TopicConfig, is_own: bool
    ) -> tuple[Partition, Recovered]:
        """Blocks while it reads; run it off the loop. `is_own`: the topic is the broker's own."""
        log, found = self._open_log(at, topic_id, config, is_own, bool(shard.starts))
        if shard.starts:
            self._check_held(log, topic_id, at)
        found.bytes_replayed = self._replay.take(log, topic_id, partial(self._note_end, log, bool(shard.starts)))
        dedupe, txns, is_partial = recover_producers(log, found.was_clean, self.clock.now_ms())
        state = PartitionState(log.end_offset, self._settings.fsync == "always", shard, txns)
        partition = Partition(at, log, state, dedupe, self._flusher, self.offload)
        partition.producers.is_partial = is_partial and bool(shard.starts)  # others have it: it will be mended
        return partition, found

    def _open_log(
        self, at: TopicPartition, topic_id: str, config: TopicConfig, is_own: bool, is_replicated: bool
    ) -> tuple[PartitionLog, Recovered]:
        home = SegmentHome(
            self.disk,
            f"{LOGS}/{at.topic}/{at.partition}",
            self._settings.index_interval_bytes,
            self._own_segments if is_own else self._open_segments,
            self._stats,
            uses_spare=is_own,
            keeps_unsynced=self._settings.fsync != "never",
            begun=partial(self.held.add, topic_id or at.topic, at.partition) if is_replicated else _nothing,
            settled=partial(self.held.settle, topic_id or at.topic) if is_replicated else _nothing,
        )
        try:
            return open_log(home, roll_rule(config), topic_id, is_replicated)
        except StrayLog as stray:
            self._set_aside(home.directory, f"orphans/{at.topic}-{at.partition}-before-{topic_id}", str(stray))
            return open_log(home, roll_rule(config), topic_id)

    def _check_held(self, log: PartitionLog, topic_id: str, at: TopicPartition) -> None:
        """A log that had files and has no directory lacks its end: the node does not count until it has it again. The
        broker's own topics have names instead of ids."""
        held_as = topic_id or at.topic
        if log.segments:
            self.held.add(held_as, at.partition)  # which an earlier version did not note
        elif self.held.has(held_as, at.partition) and not self.disk.is_dir(log.home.directory):
            logger.critical("the directory of a log is gone", extra={"partition": str(at)})
            log.once_held(1)

    def _note_end(self, log: PartitionLog, is_replicated: bool) -> None:
        """The others are told when all logs are open: a start that ends before that leaves word for the next."""
        if is_replicated:
            log.note_lost_end(self._had_power_cut())

    def _set_aside(self, directory: str, aside: str, reason: str) -> None:
        """Messages of another topic must not become this one's."""
        logger.error("a log that is not the topic's is set aside", extra={"path": aside, "reason": reason})
        self.disk.make_dirs("orphans")
        self.disk.remove_tree(aside)  # what an earlier power cut left of the same log
        self.disk.rename(directory, aside)
        for parent in ("", "orphans", directory.rpartition("/")[0]):
            self.disk.sync_dir(parent)

    def adopt(self, partition: Partition) -> None:
        """Hands what recovery left unsynced or unsealed to the group commit; call it on the loop."""
        if partition.log.is_dirty:
            self._flusher.note_append(partition)
        if partition.log.wants_seal:
            self._flusher.note_roll(partition)

    def release(self, partition: Partition, aside: str) -> None:
        """It is being deleted, and its files will be in the directory `aside`."""
        partition.close()
        partition.log.release(aside)
        self._flusher.forget(partition)
