"""The log against plain system calls on the same bytes: append, read, open."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from bench.report import Figure, alternate
from goqueue.base.limits import KIB, MIB
from goqueue.format.batch import read_header, verified_header
from goqueue.format.records import NewRecord, build
from goqueue.log.appending import RollRule
from goqueue.log.home import OpenSegments, SegmentHome
from goqueue.log.partition_log import PartitionLog
from goqueue.log.real_disk import RealDisk
from goqueue.log.recovery import open_log
from goqueue.log.stats import StorageStats

SEGMENT_BYTES = 64 * MIB
WEEK_MS = 604_800_000


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory on the disk that holds the checkout, not on a memory file system."""
    parent = Path("bench/out")
    parent.mkdir(parents=True, exist_ok=True)
    path = Path(mkdtemp(dir=parent))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def open_in(root: Path, directory: str = "log") -> PartitionLog:
    home = SegmentHome(RealDisk(root), directory, 4 * KIB, OpenSegments(), StorageStats())
    return open_log(home, RollRule(SEGMENT_BYTES, WEEK_MS))[0]


def batch_of(size: int) -> bytes:
    """One batch of about `size` bytes in 100-byte messages that do not compress."""
    count = size // 112
    return build([NewRecord(None, os.urandom(100), (), 1_000) for _ in range(count)])


def sync(log: PartitionLog) -> None:
    if job := log.begin_sync():
        job.run()
        log.finish_sync(job)


def append_figures(root: Path) -> Iterator[Figure]:
    batch = batch_of(64 * KIB)
    for policy, count, rounds in (("never", 1000, 9), ("interval", 1000, 9), ("always", 60, 9)):
        ours, raw, ratio = alternate(
            lambda policy=policy, count=count: _append_ours(root, batch, count, policy),  # type: ignore[misc]
            lambda policy=policy, count=count: _append_raw(root, batch, count, policy),  # type: ignore[misc]
            rounds,
        )
        yield Figure(
            f"append 64 KiB batches, fsync={policy}",
            f"{ours / MIB:,.0f} MiB/s",
            f"{ratio:.2f} of os.write ({raw / MIB:,.0f})",
            "at least 0.60",
            ratio >= 0.6,
        )


def _append_ours(root: Path, batch: bytes, count: int, policy: str) -> float:
    directory = f"ours-{time.monotonic_ns()}"
    log = open_in(root, directory)
    began = time.perf_counter()
    for _ in range(count):
        log.append(batch, verified_header(batch), 0, 1_000)
        if policy == "always":
            sync(log)
    if policy == "interval":
        sync(log)
    spent = time.perf_counter() - began
    shutil.rmtree(root / directory)
    return count * len(batch) / spent


def _append_raw(root: Path, batch: bytes, count: int, policy: str) -> float:
    path = root / f"raw-{time.monotonic_ns()}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    began = time.perf_counter()
    for _ in range(count):
        os.write(fd, batch)
        if policy == "always":
            os.fdatasync(fd)
    if policy == "interval":
        os.fdatasync(fd)
    spent = time.perf_counter() - began
    os.close(fd)
    path.unlink()
    return count * len(batch) / spent


def read_figures(root: Path) -> Iterator[Figure]:
    batch = batch_of(64 * KIB)
    log = open_in(root, "read")
    count = 3000
    for _ in range(count):
        log.append(batch, verified_header(batch), 0, 1_000)
    total = count * len(batch)
    for size, name in ((len(batch), "64 KiB"), (MIB, "1 MiB")):
        ours, raw, ratio = alternate(
            lambda size=size: total / _timed(lambda: _read_ours(log, size)),  # type: ignore[misc]
            lambda size=size: total / _timed(lambda: _read_raw(log, size)),  # type: ignore[misc]
            9,
        )
        yield Figure(
            f"read them back, {name} at a time",
            f"{ours / MIB:,.0f} MiB/s",
            f"{ratio:.2f} of os.pread ({raw / MIB:,.0f})",
            "at least 0.60",
            ratio >= 0.6,
        )


def _read_ours(log: PartitionLog, size: int) -> None:
    offset, end = 0, log.end_offset
    while offset < end:
        data = log.read(offset, size, end)
        header = read_header(data)
        offset += len(data) // header.size * header.record_count  # all batches here are alike
    assert offset == end


def _read_raw(log: PartitionLog, size: int) -> None:
    for segment in log.segments:
        fd = os.open(Path(segment.home.disk._root) / segment.path(".log"), os.O_RDONLY)  # type: ignore[attr-defined]
        for position in range(0, segment.length, size):
            os.pread(fd, size, position)
        os.close(fd)


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
