"""What a new replica costs the nodes it is copied between: batches as fetches bring them, beside the same bytes as a
file. The link between the nodes is the same for both, and left out; what is on the disk is left in its cache."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from crc32c import crc32c

from bench.report import Figure
from bench.storage import open_in
from goqueue.base.limits import GIB, KIB, MIB
from goqueue.core.dedupe import Dedupe
from goqueue.drive.replica_fetches import FETCH_BYTES
from goqueue.format.batch import BatchHeader, read_header, split, strides, verified_header, verify
from goqueue.format.records import NewRecord, Sequenced, build
from goqueue.log.partition_log import PartitionLog

SIZE = int(os.environ.get("COPY_MIB", "128")) * MIB
ROUNDS = int(os.environ.get("COPY_ROUNDS", "5"))
SIZES = (300, KIB, 16 * KIB, 256 * KIB)


def copying_figures(root: Path) -> Iterator[Figure]:
    for size in SIZES:
        log = _leader(root, size)
        sides = (_by_fetch, _as_file, _as_bare_file)
        spent = [[_cpu(lambda: side(log, root)) for side in sides] for _ in range(ROUNDS)]  # noqa: B023
        fetch, file, bare = (statistics.median(one[at] for one in spent) * GIB / SIZE for at in range(3))
        name = f"copy batches of {size:,} bytes: "
        yield Figure(f"{name}fetched", f"{fetch:.2f} s/GiB", f"{GIB / MIB / fetch:,.0f} MiB/s of a core")
        yield Figure(f"{name}as a file", f"{file:.2f} s/GiB", f"{fetch / file:.2f} as quick")
        yield Figure(f"{name}as a file, unknown producers", f"{bare:.2f} s/GiB", f"{fetch / bare:.2f} as quick")
        shutil.rmtree(root / f"leader-{size}")


def _leader(root: Path, size: int) -> PartitionLog:
    log = open_in(root, f"leader-{size}")
    messages = [NewRecord(None, os.urandom(min(size - 80, 1_000)), (), 1_000)] * max(1, size // 1_010)
    batch = build(messages, producer=Sequenced(7, 0, 0))
    header = verified_header(batch)
    while log.size_bytes < SIZE:
        log.append(batch, header, 0, 1_000)
    return log


def _cpu(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _reads(log: PartitionLog) -> Iterator[bytes]:
    for segment in log.segments:
        at = segment.base_offset
        while at < segment.next_offset:
            data = log.read(at, FETCH_BYTES, segment.next_offset, wait=True)
            at = max(last for _, _, _, last in strides(data)) + 1
            yield data


def _by_fetch(log: PartitionLog, root: Path) -> None:
    """As followers do it: every batch is checked and noted, what came together is written at once."""
    target, dedupe = open_in(root, "fetched"), Dedupe()
    for data in _reads(log):
        view, headers = memoryview(data), list[BatchHeader]()
        for batch in split(data):
            headers.append(header := read_header(batch))
            verify(batch, header)
            dedupe.appended(header, header.base_offset, 1_000)
        while headers:
            count = target.restore_run(view, headers)
            view = view[sum(one.size for one in headers[:count]) :]
            del headers[:count]
    assert target.end_offset == log.end_offset
    shutil.rmtree(root / "fetched")


def _as_file(log: PartitionLog, root: Path) -> None:
    """Compared with one checksum and written; then its headers are read for who wrote what in which epoch, since no
    snapshot of that is kept for the end of a segment."""
    for data in _copied(log, root):
        dedupe = Dedupe()
        for batch in split(data):
            header = read_header(batch)
            dedupe.appended(header, header.base_offset, 1_000)


def _as_bare_file(log: PartitionLog, root: Path) -> None:
    """The least that it could be: producers and epochs would have to come in another way."""
    for _ in _copied(log, root):
        pass


def _copied(log: PartitionLog, root: Path) -> Iterator[bytes]:
    checksum = 0
    with (root / "file").open("wb", buffering=0) as target:
        for data in _reads(log):
            checksum = crc32c(data, checksum)
            target.write(data)
            yield data
    (root / "file").unlink()
