"""What keeps a table small and quick: old days deleted, small files put together, files nobody needs removed."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

import msgspec
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from pyarrow import fs

from goqueue.pipeline.lake.errors import LakeError, LakeUnwritable
from goqueue.pipeline.lake.folders import NOTE_OF_ICEBERG, folder, location

EXPIRED: Final = "goqueue-expired-before"  # a mark: days since 1970
_DAY_COLUMNS: Final = ("date", "_date")
_DEPTH_MAX: Final = 4
_LOG: Final = "_delta_log"
_HOUR_MS: Final = 3_600_000


class Tended(msgspec.Struct, frozen=True):
    """One table before and after."""

    table: str
    files: int
    now: int
    expired_rows: int
    removed: int


def tables_in(lake: str) -> list[str]:
    """The names of all tables in a lake, with slashes. What begins with an underscore is no table's."""
    found: list[str] = []
    _walk(folder(location(lake)), "", 0, found)
    return sorted(found)


def _walk(where: fs.FileSystem, inside: str, depth: int, found: list[str]) -> None:
    listed = where.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    names = {one.base_name: one.path for one in listed if one.type == fs.FileType.Directory}
    notes = {one.path for one in where.get_file_info([f"{inside}/{NOTE_OF_ICEBERG}"]) if one.type == fs.FileType.File}
    if _LOG in names or (inside and notes):
        found.append(inside)
    elif depth < _DEPTH_MAX:
        for name, path in names.items():
            if not name.startswith("_"):
                _walk(where, path, depth + 1, found)


def expire(table: DeltaTable, before: dt.date) -> int:
    """Deletes whole days, which only changes the log; how many rows that were. What has no day stays."""
    column = _day_column(table)
    if column is None:
        return 0
    rows = _rows_before(table, column, before)
    if rows:
        days = (before - dt.date(1970, 1, 1)).days
        marked = CommitProperties(app_transactions=[Transaction(EXPIRED, days)])
        _changed(table, lambda: table.delete(f"{column} < DATE '{before.isoformat()}'", commit_properties=marked))
    return rows


def delete_rows(table: DeltaTable, condition: str) -> int:
    """In one commit; how many they were. Files with what is left are written anew."""
    deleted: list[int] = []
    _changed(table, lambda: deleted.append(int(table.delete(condition)["num_deleted_rows"] or 0)))
    return deleted[0]


def keep_log(table: DeltaTable, retention_ms: int) -> None:
    """Entries of the table's log that are older go when it is next compacted, so that it does not grow for ever."""
    hours = max(1, -(-retention_ms // _HOUR_MS))
    wanted = {"delta.logRetentionDuration": f"interval {hours} hours", "delta.enableExpiredLogCleanup": "true"}
    if not wanted.items() <= table.metadata().configuration.items():
        _changed(table, lambda: table.alter.set_table_properties(wanted))
    _changed(table, table.create_checkpoint)
    _changed(table, table.cleanup_metadata)


def expired_before(table: DeltaTable) -> dt.date:
    """Days before this one were deleted on purpose."""
    days = table.transaction_version(EXPIRED)
    return dt.date.min if days is None else dt.date(1970, 1, 1) + dt.timedelta(days)


def rows_to_expire(table: DeltaTable, before: dt.date) -> int:
    column = _day_column(table)
    return 0 if column is None else _rows_before(table, column, before)


def _day_column(table: DeltaTable) -> str | None:
    return next((name for name in _DAY_COLUMNS if name in table.metadata().partition_columns), None)


def _rows_before(table: DeltaTable, column: str, before: dt.date) -> int:
    found: Any = table.get_add_actions(flatten=True)
    days = found.column(f"partition.{column}").to_pylist()
    rows = found.column("num_records").to_pylist()
    return sum(count for day, count in zip(days, rows, strict=True) if day is not None and day < before)


def gather(table: DeltaTable, file_bytes: int) -> None:
    """Small files of each partition become larger ones, in the order they were written."""
    _changed(table, lambda: table.optimize.compact(target_size=file_bytes))


def sweep(table: DeltaTable, retention_ms: int, dry_run: bool = False, orphans: bool = True) -> int:
    """Removes files that no version of that age needs, and orphans that no version ever named; how many they were."""
    hours = -(-retention_ms // _HOUR_MS)
    removed: list[str] = []

    def vacuum() -> None:
        removed.extend(
            table.vacuum(retention_hours=hours, dry_run=dry_run, enforce_retention_duration=False, full=orphans)
        )

    _changed(table, vacuum)
    return len(removed)


def _changed(table: DeltaTable, change: Any) -> None:
    """Brings the handle up to date before and after."""
    try:
        table.update_incremental()
        change()
        table.update_incremental()
    except OSError as error:
        raise LakeUnwritable(table.table_uri, error) from error
    except DeltaError as error:
        raise LakeError(
            f"{table.table_uri} could not be changed: {error}. Others may be writing it; run again."
        ) from error
