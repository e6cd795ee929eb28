"""Small logs for tests: how to open one, fill it, sync it and read it back."""

from __future__ import annotations

from goqueue.base.topic_config import TopicConfig
from goqueue.format.batch import read_header, split
from goqueue.format.records import NewRecord, Record, build, decode
from goqueue.log.disk import Disk
from goqueue.log.partition_log import PartitionLog, RollRule
from goqueue.log.recovery import Recovered, open_log
from goqueue.log.segment import OpenSegments, SegmentHome
from goqueue.log.stats import StorageStats

DIRECTORY = "logs/orders/0"
HOUR_MS = 3_600_000


def home(disk: Disk, directory: str = DIRECTORY, interval: int = 256, open_max: int = 4) -> SegmentHome:
    return SegmentHome(disk, directory, interval, OpenSegments(open_max), StorageStats())


def open_at(disk: Disk, segment_bytes: int = 2048, **options: int) -> tuple[PartitionLog, Recovered]:
    return open_log(home(disk, **options), RollRule(segment_bytes, 168 * HOUR_MS))  # type: ignore[arg-type]


def batch(*values: str, key: str | None = None, time: int = 1_000, codec: int = 0) -> bytes:
    encoded = None if key is None else key.encode()
    return build([NewRecord(encoded, value.encode(), (), time) for value in values], codec)


def tombstone(key: str, time: int = 1_000) -> bytes:
    return build([NewRecord(key.encode(), None, (), time)])


def append(log: PartitionLog, data: bytes, now: int = 1_000, append_time: bool = False) -> int:
    return log.append(data, read_header(data), 0, now, append_time)


def sync(log: PartitionLog) -> None:
    if job := log.begin_sync():
        job.run()
        log.finish_sync(job)


def seal(log: PartitionLog) -> None:
    while job := log.begin_seal():
        job.run()
        log.finish_seal(job)


def read_all(log: PartitionLog, bytes_max: int = 700) -> list[Record]:
    records: list[Record] = []
    offset = log.start_offset
    while data := log.read(offset, bytes_max, log.end_offset, wait=True):
        found = [record for part in split(data) for record in decode(part) if record.offset >= offset]
        records += found
        offset = found[-1].offset + 1
    return records


def values(log: PartitionLog) -> list[str]:
    return [(record.value or b"").decode() for record in read_all(log)]


def compacted(**changes: object) -> TopicConfig:
    settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0, "segment_bytes": 2048}
    return TopicConfig(**{**settings, **changes})  # type: ignore[arg-type]
