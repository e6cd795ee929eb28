"""Two readers that both meet a suspect segment both roll it. Nothing may be lost by that."""

from __future__ import annotations

from goqueue.base.topic_config import TopicConfig
from goqueue.log.disk import Disk
from goqueue.log.partition_log import PartitionLog
from goqueue.log.retention import new_start
from tests.log.logs import HOUR_MS, append, batch, fill, open_at, seal, survey, sync, value_at


def rolled_twice(disk: Disk) -> PartitionLog:
    log, _ = open_at(disk, segment_bytes=10_000)
    fill(log, 3)
    sync(log)
    log.roll()
    log.roll()
    seal(log)
    fill(log, 3)
    sync(log)
    return log


def test_a_crash_before_the_next_seal_loses_nothing_synced(disk: Disk) -> None:
    log = rolled_twice(disk)
    log.roll()
    fill(log, 1)
    sync(log)
    again, _ = open_at(disk, segment_bytes=10_000)
    assert survey(again) == [value_at(number) for number in range(7)]


def test_retention_does_not_delete_the_live_file(disk: Disk) -> None:
    log = rolled_twice(disk)
    config = TopicConfig(retention_ms=HOUR_MS)
    append(log, batch("young", time=9 * HOUR_MS), now=9 * HOUR_MS)
    sync(log)
    start = new_start(log.segments, config, 9 * HOUR_MS)
    assert start is not None
    log.begin_drop_head(start).run()
    again, _ = open_at(disk, segment_bytes=10_000)
    assert again.end_offset == 7
