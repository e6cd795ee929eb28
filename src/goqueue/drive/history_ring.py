"""Numbers of the last hours in one file of a fixed size: a ring of rows, each with its time and one number a column.

A row is written in one call and checked by its CRC when it is read again, so a row that was cut by a crash is left out.
Nothing is synced: the charts of a node that lost power lack their last moments.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import struct
import threading
import zlib
from array import array
from collections import deque
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.base.ids import Millis
from goqueue.base.limits import HISTORY_COLUMNS_MAX, HISTORY_ROWS_MAX

logger = logging.getLogger(__name__)

_MAGIC: Final = b"GQHIST01"
_HEAD: Final = struct.Struct("<8sII")
_ROW_HEAD: Final = struct.Struct("<Iq")  # CRC, time
_ROW_BYTES: Final = _ROW_HEAD.size + 4 * HISTORY_COLUMNS_MAX
_NAMES_BYTES_MAX: Final = 2 * 1024 * 1024
_PRIVATE: Final = 0o600
NOTHING: Final = float("nan")


class HistoryColumn(msgspec.Struct):
    """What a column means, since when; what stood there before means something else."""

    name: str
    since_ms: Millis


class HistoryRow(msgspec.Struct):
    time_ms: Millis
    values: array[float]


class HistoryRing:
    """Blocks: `open` and `append` are to be used off the loop, one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names_path = path.with_suffix(".names")
        self._file = -1
        self._slot = 0  # of the next row
        self._is_failing = False
        self._owed: list[HistoryColumn] | None = None  # names that are not written yet
        self._lock = threading.Lock()  # whoever stops does not wait for what is under way

    def open(self) -> tuple[list[HistoryColumn], deque[HistoryRow]]:
        """What an earlier run left; a file that is not one of these is begun anew."""
        rows: deque[HistoryRow] = deque(maxlen=HISTORY_ROWS_MAX)
        columns: list[HistoryColumn] = []
        try:
            columns = self._read_names()
            found = self._read_rows()
            rows.extend(row for _, row in sorted(found, key=lambda one: one[1].time_ms))
            self._slot = (max(found, key=lambda one: one[1].time_ms)[0] + 1) % HISTORY_ROWS_MAX if found else 0
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            logger.warning("the history of this node begins anew", extra={"error": str(error)})
            columns, rows = [], deque(maxlen=HISTORY_ROWS_MAX)
            self._slot = 0
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)  # its rows mean nothing without their names
                self._names_path.unlink(missing_ok=True)
        self._begin()
        return columns, rows

    def _begin(self) -> None:
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
            os.pwrite(self._file, _HEAD.pack(_MAGIC, HISTORY_ROWS_MAX, HISTORY_COLUMNS_MAX), 0)
        except OSError as error:
            logger.error("the history of this node is not written", extra={"error": str(error)})

    def _read_names(self) -> list[HistoryColumn]:
        if not self._names_path.exists() or self._names_path.stat().st_size > _NAMES_BYTES_MAX:
            return []
        return from_json(self._names_path.read_bytes(), list[HistoryColumn])[:HISTORY_COLUMNS_MAX]

    def _read_rows(self) -> list[tuple[int, HistoryRow]]:
        size = _HEAD.size + HISTORY_ROWS_MAX * _ROW_BYTES
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            data = file.read(size)
        if len(data) < _HEAD.size or _HEAD.unpack_from(data) != (_MAGIC, HISTORY_ROWS_MAX, HISTORY_COLUMNS_MAX):
            self._path.unlink()
            return []
        found: list[tuple[int, HistoryRow]] = []
        for slot, at in enumerate(range(_HEAD.size, len(data) - _ROW_BYTES + 1, _ROW_BYTES)):
            row = data[at : at + _ROW_BYTES]
            crc, time_ms = _ROW_HEAD.unpack_from(row)
            if time_ms > 0 and crc == zlib.crc32(row[4:]):
                found.append((slot, HistoryRow(time_ms, array("f", row[_ROW_HEAD.size :]))))
        return found

    def append(self, row: HistoryRow, columns: list[HistoryColumn] | None) -> None:
        """With the names of the columns, if they changed: they are there before the row is."""
        with self._lock:
            self._owed = columns or self._owed
            if self._file >= 0:
                self._append(row)

    def _append(self, row: HistoryRow) -> None:
        try:
            if self._owed is not None:
                self._write_names(self._owed)
                self._owed = None
            rest = struct.pack("<q", row.time_ms) + row.values.tobytes()
            data = struct.pack("<I", zlib.crc32(rest)) + rest
            os.pwrite(self._file, data, _HEAD.size + self._slot * _ROW_BYTES)
            self._slot = (self._slot + 1) % HISTORY_ROWS_MAX
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                logger.error("the history of this node is not written", extra={"error": str(error)})
            self._is_failing = True

    def _write_names(self, columns: list[HistoryColumn]) -> None:
        beside = self._names_path.with_suffix(".new")
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _PRIVATE)
        try:
            data = msgspec.json.encode(columns)
            if os.write(file, data) < len(data):
                raise OSError(errno.ENOSPC, "the names were written in part")
        finally:
            os.close(file)
        beside.replace(self._names_path)

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
