"""What keeps an Iceberg table small and quick: rows deleted, small files together, old versions and lost files away."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, parquet_file_to_data_file
from pyiceberg.table import Table

from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.folders import NOTE_OF_ICEBERG, ORPHAN_MS, folder, location
from goqueue.pipeline.lake.iceberg import data_files, open_iceberg, transact
from goqueue.pipeline.lake.parts import Parts

_GROUP_FILES_MAX: Final = 1_000


def delete_iceberg(path: str, condition: str) -> int:
    """Rows that fit a condition, in one commit; how many they were. Files with what is left are written anew."""
    rows: list[int] = []

    def change(table: Table, transaction: Any) -> None:
        rows.append(int(table.scan(row_filter=condition).to_arrow().num_rows))
        if rows[-1]:
            transaction.delete(condition)

    transact(path, None, change)
    return rows[-1]


def gather_iceberg(path: str, file_bytes: int) -> None:
    """Small files of each partition become larger ones, in a commit a group: memory holds one group's rows."""
    for group in _groups(open_iceberg(path), file_bytes):
        transact(path, None, partial(_rewrite, group))


def _groups(table: Table, file_bytes: int) -> Iterator[list[Any]]:
    """Files of one partition that together make about one good file."""
    by: dict[str, list[Any]] = {}
    for task in data_files(table):
        if task.file.file_size_in_bytes < file_bytes // 2 and not task.delete_files:
            by.setdefault(repr(task.file.partition), []).append(task)
    for tasks in by.values():
        group: list[Any] = []
        for task in tasks:
            group.append(task)
            if sum(one.file.file_size_in_bytes for one in group) >= file_bytes or len(group) >= _GROUP_FILES_MAX:
                yield group
                group = []
        if len(group) > 1:
            yield group


def _rewrite(group: Sequence[Any], table: Table, transaction: Any) -> None:
    there = {task.file.file_path for task in data_files(table)}
    if not all(task.file.file_path in there for task in group):
        return  # others changed these files since; the next time finds them as they are then
    schema = table.schema()
    rows: pa.Table = ArrowScan(table.metadata, table.io, schema, AlwaysTrue()).to_table(list(group))
    parts = Parts(location(table.location()), rows.schema, (), whole_rows=True)
    for batch in rows.combine_chunks().to_batches():
        parts.write(batch)
    with transaction.update_snapshot().overwrite() as update:
        for task in group:
            update.delete_data_file(task.file)
        for part in parts.close():
            where = f"{location(table.location())}/{part.path}"
            update.append_data_file(parquet_file_to_data_file(table.io, transaction.table_metadata, where))


def sweep_iceberg(path: str, retention_ms: int) -> int:
    """Forgets versions of that age and removes what only they named, then old files that no version ever named."""
    oldest = dt.datetime.now(dt.UTC) - dt.timedelta(milliseconds=retention_ms)
    removed = _forget_versions(path, oldest)
    needed = _needed(open_iceberg(path))
    where = folder(location(path))
    orphans = [
        one.path
        for one in where.get_file_info(fs.FileSelector("", recursive=True, allow_not_found=True))
        if one.type is fs.FileType.File
        and one.path not in needed
        and _age_ms(one) >= max(retention_ms, ORPHAN_MS)  # younger ones may wait for their commit
    ]
    for name in orphans:
        where.delete_file(name)
    return removed + sum(1 for name in orphans if name.startswith("data/"))


def purge_iceberg(path: str) -> int:
    """Forgets all older versions and removes what only they named; how many data files that were."""
    return _forget_versions(path, dt.datetime.now(dt.UTC))


def _forget_versions(path: str, oldest: dt.datetime) -> int:
    table = open_iceberg(path)
    before = _needed(table)
    table.maintenance.expire_snapshots().older_than(oldest).commit()
    gone = before - _needed(open_iceberg(path))
    where = folder(location(path))
    for name in gone:
        if where.get_file_info(name).type is fs.FileType.File:
            where.delete_file(name)
    return sum(1 for name in gone if name.startswith("data/"))


def _age_ms(file: fs.FileInfo) -> int:
    return time.time_ns() // 10**6 - (file.mtime_ns or 0) // 10**6


def _needed(table: Table) -> set[str]:
    """Every file that some version of the table names, inside its folder."""
    named = {table.metadata_location, *(one.metadata_file for one in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            named.add(manifest.manifest_path)
            named.update(one.data_file.file_path for one in manifest.fetch_manifest_entry(table.io))
    root = location(table.location()) + "/"
    inside = {_plain(name).removeprefix(root) for name in named}
    if any(name.startswith("/") or "://" in name for name in inside):
        raise LakeError(f"{table.location()} has files in other places; nothing is removed there.")
    return inside | {NOTE_OF_ICEBERG}


def _plain(name: str) -> str:
    return name.removeprefix("file://")


def file_count(path: str) -> int:
    return len(data_files(open_iceberg(path)))
