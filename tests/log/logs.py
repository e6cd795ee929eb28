"""Small logs for tests: how to open one, fill it, sync it and read it back."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.base.errors import DamagedRange
from goqueue.base.topic_config import TopicConfig
from goqueue.format.batch import read_header, split, strides
from goqueue.format.records import NewRecord, Record, build, decode
from goqueue.log.appending import RollRule
from goqueue.log.compaction import compact
from goqueue.log.disk import Disk
from goqueue.log.home import OpenSegments, SegmentHome
from goqueue.log.partition_log import PartitionLog
from goqueue.log.reader import NeedsVerification
from goqueue.log.recovery import Recovered, open_log
from goqueue.log.stats import StorageStats
from goqueue.sim.disk import SimDisk

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
    while offset < log.end_offset and (data := log.read(offset, bytes_max, log.end_offset, wait=True)):
        found = [record for part in split(data) for record in decode(part) if record.offset >= offset]
        records += found
        offset = found[-1].offset + 1
    return records


def values(log: PartitionLog) -> list[str]:
    return [(record.value or b"").decode() for record in read_all(log)]


def compacted(**changes: object) -> TopicConfig:
    settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0, "segment_bytes": 2048}
    return TopicConfig(**{**settings, **changes})  # type: ignore[arg-type]


def taken(log: PartitionLog, data: bytes) -> None:
    """As a follower takes a batch of its leader."""
    log.restore_run(memoryview(data), [read_header(data)])


def of_a_leader(at: int, *messages: str) -> bytes:
    """A batch as it stands in a leader's log."""
    log, _ = open_at(SimDisk())
    log.begin_anew(at)
    append(log, batch(*messages))
    return log.read(at, 1 << 20, log.end_offset, wait=True)


# --- lives and damage -----------------------------------------------------------------------------------


def fill(log: PartitionLog, count: int, size: int = 60, keys: Sequence[str] | None = None) -> None:
    """One record a batch: `v000xxx`, `v001xxx` and so on, at times 1000, 1001 and so on by offset."""
    for number in range(log.end_offset, log.end_offset + count):
        key = None if keys is None else keys[number]
        append(log, batch(value_at(number, size), key=key, time=1_000 + number))


def value_at(number: int, size: int = 60) -> str:
    return f"v{number:03d}" + "x" * size


def stop(log: PartitionLog) -> None:
    """A clean stop."""
    seal(log)
    sync(log)
    log.close()


def overwrite(disk: Disk, path: str, data: bytes) -> None:
    """Changes a stored file behind everybody's back, durably."""
    file = disk.open(path)
    file.truncate(0)
    file.append([data])
    file.sync()


def flip(disk: Disk, path: str, position: int, bit: int = 0) -> None:
    data = bytearray(disk.read_file(path) or b"")
    data[position] ^= 1 << bit
    overwrite(disk, path, bytes(data))


def batch_starts(disk: Disk, path: str) -> list[int]:
    """Where the batches of a sound segment file begin, and where the last one ends."""
    data = disk.read_file(path) or b""
    return [0, *(end for _, end, _, _ in strides(data))]


DAMAGED = "damaged"
MISSING = "missing"


def look(log: PartitionLog, offset: int) -> str:
    """The value at one offset, as a consumer that asks for this offset gets it; a damaged active segment is rolled."""
    try:
        data = log.read(offset, 1, log.end_offset, wait=True)
    except NeedsVerification:
        log.roll()
        return look(log, offset)
    except DamagedRange as why:
        detail = why.detail
        assert detail["first_offset"] <= offset <= detail["last_offset"] < detail["next_offset"]  # type: ignore[operator]
        return DAMAGED
    found = [record for part in split(data) for record in decode(part) if record.offset >= offset]
    if not found or found[0].offset != offset:
        return MISSING
    return (found[0].value or b"").decode()


def survey(log: PartitionLog) -> list[str]:
    """What a consumer gets for every offset from the start to the end."""
    return [look(log, offset) for offset in range(log.start_offset, log.end_offset)]


def compact_all(log: PartitionLog, config: TopicConfig, now: int = 5_000) -> None:
    """One whole pass, as the cleaner does it."""
    log.begin_gaps().run()
    steps = compact(log, config, now)
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            log.end_compaction(end.value).run()
            return
        if step is not None:
            step.run()
            log.swap(step.old, step.new)
            step.clean_up()
