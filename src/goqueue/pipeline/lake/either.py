"""A table of the lake whatever its format is: what is asked of it by its path alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

import pyarrow as pa

from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.folders import NOTE_OF_ICEBERG, ORPHAN_MS, has_file
from goqueue.pipeline.lake.tables import exists as is_delta
from goqueue.pipeline.lake.tables import open_table
from goqueue.pipeline.lake.tending import Tended, delete_rows, gather, keep_log, sweep


class FoundTable:
    """An existing table. Deltas and Icebergs answer the same."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_iceberg = has_iceberg(path)

    @property
    def format(self) -> str:
        return "iceberg" if self._is_iceberg else "delta"

    def columns(self) -> pa.Schema:
        if self._is_iceberg:
            from goqueue.pipeline.lake.iceberg import open_iceberg

            return open_iceberg(self._path).schema().as_arrow()
        return pa.schema(open_table(self._path).schema().to_arrow())

    def version(self) -> str:
        """Another one after every change of the table."""
        if self._is_iceberg:
            from goqueue.pipeline.lake.iceberg import open_iceberg

            return open_iceberg(self._path).metadata_location
        return str(open_table(self._path).version())

    def files(self) -> int:
        if self._is_iceberg:
            from goqueue.pipeline.lake.iceberg_upkeep import file_count

            return file_count(self._path)
        return len(open_table(self._path).file_uris())

    def quoted(self, column: str) -> str:
        """The column's name as `delete` takes it, whatever signs are in it: dots are a part of Delta's names."""
        if self._is_iceberg:
            return ".".join(f'"{part}"' for part in column.split("."))
        return '"{}"'.format(column.replace('"', '""'))

    def delete(self, condition: str) -> int:
        """Rows that fit a condition in SQL, by quoted columns, literals, AND, OR; how many they were."""
        if self._is_iceberg:
            from goqueue.pipeline.lake.iceberg_upkeep import delete_iceberg

            return delete_iceberg(self._path, condition)
        return delete_rows(open_table(self._path), condition)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, a piece at a time."""
        if self._is_iceberg:
            from goqueue.pipeline.lake.iceberg import open_iceberg

            yield from open_iceberg(self._path).scan(selected_fields=tuple(names)).to_arrow_batch_reader()
        else:
            yield from open_table(self._path).to_pyarrow_dataset().to_batches(columns=list(names))

    def purge(self) -> int:
        """Removes every file that only older versions need; how many. Files that a writer has not committed stay."""
        if self._is_iceberg:
            from goqueue.pipeline.lake.iceberg_upkeep import purge_iceberg

            return purge_iceberg(self._path)
        return sweep(open_table(self._path), 0, orphans=False)

    def delete_before(self, column: str, oldest: dt.datetime) -> int:
        """Rows whose time or day is before this one. What has none stays, and so do tables without the column."""
        kinds = {field.name: str(field.type) for field in self.columns()}
        if column not in kinds:
            return 0
        if not kinds[column].startswith(("timestamp", "date")):
            raise LakeError(f"{self._path}: {column} is {kinds[column]}; rows expire by a time or a day.")
        is_day = kinds[column].startswith("date")
        before = oldest.date().isoformat() if is_day else oldest.isoformat(timespec="microseconds")
        return self.delete(f"{self.quoted(column)} < '{before}'")

    def tend(self, name: str, file_bytes: int, retention_ms: int) -> Tended:
        """Small files together, files nobody needs away, and no more of the log than the retention asks for.

        Files that no version names may belong to a batch that is not committed yet: they stay for a day at least.
        """
        before = self.files()
        if self._is_iceberg:
            from goqueue.pipeline.lake.iceberg_upkeep import gather_iceberg, sweep_iceberg

            gather_iceberg(self._path, file_bytes)
            removed = sweep_iceberg(self._path, retention_ms)
        else:
            table = open_table(self._path)
            gather(table, file_bytes)
            removed = sweep(table, retention_ms, orphans=False) + sweep(table, max(retention_ms, ORPHAN_MS))
            keep_log(table, retention_ms)
        return Tended(name, before, self.files(), 0, removed)


def has_iceberg(path: str) -> bool:
    return has_file(path, NOTE_OF_ICEBERG)


def exists(path: str) -> bool:
    return has_iceberg(path) or is_delta(path)


def missing(path: str, columns: Sequence[str]) -> list[str]:
    """Which of these columns the table does not have."""
    there = set(FoundTable(path).columns().names)
    return [name for name in columns if name not in there]
