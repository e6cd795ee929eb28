"""Segment files read without a node: every batch, and every stretch that is none. Files are only read.

A partition's directory holds segments named by their first offset; what else lies there is left alone.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final

import msgspec
from crc32c import crc32c

from goqueue.base.errors import CorruptBatch
from goqueue.base.limits import MIB
from goqueue.format.batch import HEADER_BYTES, BatchHeader, Buffer, read_header, verify
from goqueue.format.records import Record
from goqueue.format.slices import read, readable, slices
from goqueue.log.crc_json import decode_crc_json
from goqueue.log.scan import Flaw, Sound, find_sound, walk
from goqueue.log.segment import Seal

_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_COMPANION: Final = re.compile(r"\d{20}\.(log|index|timeindex|seal|damage|\d+\.cut)|meta\.json|checkpoint")


class ReadOnlyFile:
    """A file for scanning, in the form the log's scanner wants; needs no right to write."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        self._file.close()

    def read(self, position: int, size: int) -> bytes:
        self._file.seek(position)
        parts: list[bytes] = []
        while size > 0 and (data := self._file.read(size)):
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def read_cached(self, position: int, size: int) -> bytes | None:
        return self.read(position, size)

    def append(self, buffers: Sequence[Buffer]) -> None:
        raise io.UnsupportedOperation("append")

    def write(self, position: int, data: Buffer) -> None:
        raise io.UnsupportedOperation("write")

    def truncate(self, size: int) -> None:
        raise io.UnsupportedOperation("truncate")

    def sync(self) -> None:
        """There is nothing to sync."""


class SegmentFile(msgspec.Struct, frozen=True):
    """One file. `limit` is the first offset of the segment behind it, if there is one."""

    path: Path
    base_offset: int = 0
    limit: int | None = None


class BatchRecords:
    """Those of a batch that can be read, decoded as they are looked at."""

    def __init__(self, batch: bytes, header: BatchHeader) -> None:
        self._batch = batch
        self._header = header

    def __iter__(self) -> Iterator[Record]:
        return readable(slices(self._batch, self._header))


class FoundBatch(msgspec.Struct, frozen=True):
    """A batch. `problem` says what is wrong with it; `records` are there if they were asked for."""

    position: int
    header: BatchHeader
    crc_ok: bool = True
    problem: str | None = None
    records: Iterable[Record] = ()


class Damage(msgspec.Struct, frozen=True):
    """Bytes that are no batch, or, with no bytes, a file that is not the one that was sealed."""

    position: int
    end: int
    problem: str


def segments_at(path: Path) -> tuple[list[SegmentFile], list[str]]:
    """The segments of a directory, or the one file; and the names of files that are none of the log's."""
    if not path.is_dir():
        named = _SEGMENT.fullmatch(path.name)
        return [SegmentFile(path, int(named[1]) if named else 0)], []
    names = sorted(entry.name for entry in path.iterdir())
    found = [(int(match[1]), path / name) for name in names if (match := _SEGMENT.fullmatch(name))]
    limits = [base for base, _ in found[1:]]
    segments = [SegmentFile(file, base, limit) for (base, file), limit in zip_longest(found, limits)]
    return segments, [name for name in names if not _COMPANION.fullmatch(name)]


def scan(segment: SegmentFile, with_records: bool) -> Iterator[FoundBatch | Damage]:
    """Everything in a segment, from its first byte to its last."""
    file = ReadOnlyFile(segment.path)
    try:
        yield from _scan_batches(file, segment, with_records)
        yield from _check_seal(file, segment)
    finally:
        file.close()


def _scan_batches(file: ReadOnlyFile, segment: SegmentFile, with_records: bool) -> Iterator[FoundBatch | Damage]:
    position, next_offset = 0, segment.base_offset
    while position < file.size:
        flaw: Flaw | None = None
        for one in walk(file, position, file.size, next_offset):
            if isinstance(one, Flaw):
                flaw = one
                break
            yield _found(file, one, with_records)
            next_offset = one.header.next_offset
        if flaw is None:
            return
        resumed = _resume(file, flaw.position, next_offset, segment.limit)
        position = resumed.position if resumed else file.size
        yield _flawed(file, flaw, position)


def _found(file: ReadOnlyFile, sound: Sound, with_records: bool) -> FoundBatch:
    if not with_records:
        return FoundBatch(sound.position, sound.header)
    batch = file.read(sound.position, sound.header.size)
    try:
        for one in slices(batch, sound.header):
            read(one)
        problem = None
    except CorruptBatch as error:
        problem = error.message
    return FoundBatch(sound.position, sound.header, problem=problem, records=BatchRecords(batch, sound.header))


def _resume(file: ReadOnlyFile, position: int, next_offset: int, limit: int | None) -> Sound | None:
    """The next sound batch. A damaged one's own length is tried first, so that nothing inside it is taken for one."""
    header = _header_at(file, position)
    if header is not None and position + header.size < file.size:
        after = next(walk(file, position + header.size, file.size, next_offset))
        if isinstance(after, Sound):
            return after
    return find_sound(file, position + 1, file.size, next_offset, limit)


def _flawed(file: ReadOnlyFile, flaw: Flaw, end: int) -> FoundBatch | Damage:
    """A batch that is wrong but has its place, or just bytes."""
    header = _header_at(file, flaw.position)
    if header is None or flaw.position + header.size != end:
        return Damage(flaw.position, end, flaw.reason)
    try:
        verify(file.read(flaw.position, header.size), header)
        return FoundBatch(flaw.position, header, True, flaw.reason)
    except CorruptBatch:
        return FoundBatch(flaw.position, header, False, flaw.reason)


def _header_at(file: ReadOnlyFile, position: int) -> BatchHeader | None:
    try:
        return read_header(file.read(position, HEADER_BYTES))
    except CorruptBatch:
        return None


def _check_seal(file: ReadOnlyFile, segment: SegmentFile) -> Iterator[Damage]:
    """A sealed file must be what its seal says: a file cut between two batches looks whole without it."""
    note = segment.path.with_suffix(".seal")
    seal = decode_crc_json(note.read_bytes(), Seal) if note.is_file() else None
    if seal is None:
        return
    if file.size != seal.length:
        yield Damage(file.size, file.size, f"The file has {file.size} bytes; it was sealed with {seal.length}.")
    elif _checksum(file) != seal.crc:
        yield Damage(file.size, file.size, "The file's checksum is not the one it was sealed with.")


def _checksum(file: ReadOnlyFile) -> int:
    crc = 0
    for at in range(0, file.size, MIB):
        crc = crc32c(file.read(at, MIB), crc)
    return crc
