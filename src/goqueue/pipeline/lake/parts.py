"""Data files in the making: rows go in, Parquet files in a table's folder come out, known to nobody yet.

Every file has a name of its own, so a task that runs twice never touches what its other self wrote. Files that no
transaction takes up are orphans; a full vacuum removes them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from goqueue.pipeline.lake.errors import LakeUnwritable
from goqueue.pipeline.lake.folders import directory, folder, value_text, without
from goqueue.pipeline.lake.statistics import statistics

_WAITING_BYTES_MAX: Final = 64 << 20  # rows in memory, of all files together
_FILE_BYTES_MAX: Final = 512 << 20
_OPEN_MAX: Final = 64


class DataFile(msgspec.Struct, frozen=True):
    """A finished data file: its path inside the table's folder, and all that a transaction says of it."""

    path: str
    size: int
    rows: int
    values: dict[str, str | None]
    stats: str
    made_ms: int


class Parts:
    """The files one task writes into one table. Memory is bounded whatever number of partition values there is.

    Where the disk takes no more, all of them are removed: the task is tried again, and would fill it further.
    """

    def __init__(
        self, table: str, schema: pa.Schema, partition_by: Sequence[str] = (), whole_rows: bool = False
    ) -> None:
        self._table, self._folder, self._whole_rows = table, folder(table), whole_rows
        self._schema = schema
        self._by = tuple(partition_by)
        self._open: dict[tuple[str | None, ...], _File] = {}
        self._done: list[DataFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        with self._whole_or_gone():
            for values, some in split(rows, self._by):
                self._file(tuple(value_text(value) for value in values)).add(some)
            self._make_room()

    def close(self) -> list[DataFile]:
        """Finishes what is open; all files that were written."""
        with self._whole_or_gone():
            for values in list(self._open):
                self._finish(values)
        return self._done

    @contextmanager
    def _whole_or_gone(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            begun = [file.path for file in self._open.values() if file.give_up()]
            for path in [*begun, *(part.path for part in self._done)]:
                with suppress(OSError):
                    self._folder.delete_file(path)
            raise LakeUnwritable(self._table, error) from error

    def _file(self, values: tuple[str | None, ...]) -> _File:
        found = self._open.pop(values, None)
        if found is None:
            found = _File(self._folder, self._schema, dict(zip(self._by, values, strict=True)), self._whole_rows)
        self._open[values] = found  # the last used one stands last
        return found

    def _make_room(self) -> None:
        while len(self._open) > _OPEN_MAX:
            self._finish(next(iter(self._open)))
        while sum(file.waiting for file in self._open.values()) > _WAITING_BYTES_MAX:
            values, largest = max(self._open.items(), key=lambda item: item[1].waiting)
            largest.flush()
            if largest.written > _FILE_BYTES_MAX:
                self._finish(values)

    def _finish(self, values: tuple[str | None, ...]) -> None:
        part = self._open[values].close()
        del self._open[values]
        if part is not None:
            self._done.append(part)


class _File:
    """One data file: rows wait until they make a good row group."""

    def __init__(
        self, where: Any, schema: pa.Schema, values: Mapping[str, str | None], whole_rows: bool = False
    ) -> None:
        self._where = where
        self._values = dict(values)
        self._schema = schema if whole_rows else without(schema, list(values))
        self._rows: list[pa.RecordBatch] = []
        self._writer: pq.ParquetWriter | None = None
        self._footer: list[pq.FileMetaData] = []
        name = f"part-{uuid4()}.zstd.parquet"
        inside = "data" if whole_rows else directory(list(values), list(values.values()))
        self.path = f"{inside}/{name}" if inside else name
        self._stream: Any = None
        self.waiting = 0

    @property
    def written(self) -> int:
        return 0 if self._stream is None else int(self._stream.tell())

    def add(self, rows: pa.RecordBatch) -> None:
        self._rows.append(conform(rows, self._schema))
        self.waiting += self._rows[-1].nbytes

    def flush(self) -> None:
        """What waits becomes a row group."""
        if self._rows:
            self._opened().write_table(pa.Table.from_batches(self._rows, self._schema))
        self._rows, self.waiting = [], 0

    def close(self) -> DataFile | None:
        self.flush()
        if self._writer is None:
            return None
        self._writer.close()
        self._stream.close()
        footer = self._footer[0]
        size = self._where.get_file_info(self.path).size
        stats = statistics(footer, self._schema)
        return DataFile(self.path, size, footer.num_rows, self._values, stats, time.time_ns() // 1_000_000)

    def give_up(self) -> bool:
        """Closes what is open, without the end of a file; whether one was begun."""
        if self._writer is not None:
            self._writer.is_open = False
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()
        return self._stream is not None

    def _opened(self) -> pq.ParquetWriter:
        if self._writer is None:
            above = self.path.rpartition("/")[0]
            if above:
                self._where.create_dir(above, recursive=True)
            self._stream = self._where.open_output_stream(self.path)
            self._writer = pq.ParquetWriter(
                self._stream, self._schema, compression="zstd", metadata_collector=self._footer
            )
        return self._writer


def conform(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, in its order and types; one that is missing is null."""
    given = set(rows.schema.names)
    columns = [
        rows.column(field.name).cast(field.type) if field.name in given else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def split(rows: pa.RecordBatch, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """The rows by equal values of some columns, each group in the order it came in."""
    if not by or not rows.num_rows:
        if rows.num_rows:
            yield (), rows
        return
    codes = np.zeros(rows.num_rows, np.int64)
    for name in by:
        encoded = rows.column(name).dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    found, first = np.unique(codes[order], return_index=True)
    for group in np.split(order, first[1:]) if len(found) > 1 else (None,):
        some = rows if group is None else rows.take(pa.array(group))
        yield tuple(some.column(name)[0].as_py() for name in by), some
