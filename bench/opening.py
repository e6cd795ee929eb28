"""How long a partition of 10 GiB takes to open: after a clean stop, and after a crash."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.report import Figure
from bench.storage import SEGMENT_BYTES, batch_of, open_in, sync
from goqueue.base.limits import GIB, KIB, MIB
from goqueue.format.batch import verified_header
from goqueue.log.crc_json import encode_crc_json
from goqueue.log.partition_log import PartitionLog
from goqueue.log.segment import Segment

SIZE = 10 * GIB


def opening_figures(root: Path) -> Iterator[Figure]:
    """The sealed segments are sparse files with real seals and indexes; the last one is real to the byte."""
    _generate(root)
    clean = _timed_open(root)
    yield Figure("open 10 GiB after a clean stop", f"{clean * 1000:.1f} ms", "", "under 1 s", clean < 1)
    (root / "log" / "checkpoint").unlink()
    for leftover in (root / "log").glob("*.index"):
        if leftover.stem == _last(root):
            leftover.unlink()
    began = time.perf_counter()
    raw = _read_last(root)
    read = time.perf_counter() - began
    crashed = _timed_open(root)
    yield Figure(
        "open it after a crash (one segment checked)",
        f"{crashed * 1000:.1f} ms",
        f"{crashed / read:.1f} x reading those {raw // MIB} MiB",
    )


def _timed_open(root: Path) -> float:
    began = time.perf_counter()
    log = open_in(root)
    spent = time.perf_counter() - began
    assert log.size_bytes >= SIZE - SEGMENT_BYTES
    sync(log)
    log.close()
    return spent


def _generate(root: Path) -> None:
    log = open_in(root)
    batch = batch_of(64 * KIB)
    while len(log.segments) < 2:
        log.append(batch, verified_header(batch), 0, 1_000)
    seal = log.begin_seal()
    assert seal is not None
    seal.run()
    log.finish_seal(seal)
    model = log.segments[0]
    while len(log.segments) < SIZE // SEGMENT_BYTES:
        _append_sparse(log, model)
    active = log.roll()
    while active.length + len(batch) < SEGMENT_BYTES:
        log.append(batch, verified_header(batch), 0, 1_000)
    sync(log)
    log.close()


def _append_sparse(log: PartitionLog, model: Segment) -> None:
    """Another sealed segment like the model, without its bytes."""
    assert model.seal is not None
    segment = Segment(log.home, log.end_offset)
    root = Path(log.home.disk._root)  # type: ignore[attr-defined]
    with (root / segment.path(".log")).open("wb") as file:
        file.truncate(model.length)
    for suffix in (".index", ".timeindex"):
        (root / segment.path(suffix)).write_bytes((root / model.path(suffix)).read_bytes())
    next_offset = segment.base_offset + model.next_offset - model.base_offset
    seal = msgspec.structs.replace(model.seal, next_offset=next_offset)
    (root / segment.path(".seal")).write_bytes(encode_crc_json(seal))
    log.segments = (*log.segments[:-1], Segment.sealed(log.home, segment.base_offset, seal), log.segments[-1])
    log.end_offset = next_offset


def _last(root: Path) -> str:
    return max(path.stem for path in (root / "log").glob("*.log"))


def _read_last(root: Path) -> int:
    fd = os.open(root / "log" / f"{_last(root)}.log", os.O_RDONLY)
    size = os.fstat(fd).st_size
    for position in range(0, size, MIB):
        os.pread(fd, MIB, position)
    os.close(fd)
    return size
