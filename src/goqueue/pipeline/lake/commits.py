"""Files become rows of a table here, in one transaction that can be asked for twice and happens once.

A transaction carries marks: names with numbers that the table keeps for ever (Delta's `txn` actions). One mark says
which batch of which query this is; a batch that the table has is left out. Others can say how far a topic is archived.
Two that commit the same mark at the same time cannot both succeed: Delta refuses the second.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from goqueue.pipeline.lake.errors import LakeBusy, LakeUnwritable
from goqueue.pipeline.lake.parts import DataFile

_ATTEMPTS_MAX: Final = 8
_PAUSE_S: Final = 0.1


class QueryBatch(msgspec.Struct, frozen=True):
    """Which batch of which query. Numbers of one query only grow."""

    query: str
    number: int


def has_batch(table: DeltaTable, batch: QueryBatch) -> bool:
    """Whether the table holds this batch, as far as its handle has been brought up to date."""
    found = table.transaction_version(batch.query)
    return found is not None and found >= batch.number


def commit(
    table: DeltaTable,
    parts: Sequence[DataFile],
    *,
    batch: QueryBatch | None = None,
    marks: Mapping[str, int] | None = None,
    seen: Mapping[str, int | None] | None = None,
    replace: DeltaSchema | None = None,
) -> bool:
    """Adds the files, or with `replace` puts them in the place of all rows, with that schema.

    False if the table had the batch; the files are orphans then. `seen` are marks as they were when the rows were
    chosen: if another writer moved one since, the rows are not what they should be, and `LakeBusy` says so.
    """
    for attempt in range(_ATTEMPTS_MAX):
        table.update_incremental()
        if batch is not None and has_batch(table, batch):
            return False
        _check_unmoved(table, seen or {})
        try:
            _transact(table, parts, _transactions(batch, marks or {}), replace)
        except CommitFailedError:
            time.sleep(_PAUSE_S * attempt)
            continue
        except (OSError, DeltaError) as error:
            raise LakeUnwritable(table.table_uri, error) from error
        table.update_incremental()
        return True
    raise LakeBusy(f"{table.table_uri} was changed by others {_ATTEMPTS_MAX} times in a row; run fewer jobs on it.")


def _transactions(batch: QueryBatch | None, marks: Mapping[str, int]) -> list[Transaction]:
    made = [Transaction(name, number) for name, number in sorted(marks.items())]
    return made if batch is None else [Transaction(batch.query, batch.number), *made]


def _check_unmoved(table: DeltaTable, seen: Mapping[str, int | None]) -> None:
    for name, number in seen.items():
        if table.transaction_version(name) != number:
            raise LakeBusy(f"Another job archived {name} to {table.table_uri} at the same time; run this one again.")


def _transact(
    table: DeltaTable, parts: Iterable[DataFile], marks: list[Transaction], replace: DeltaSchema | None
) -> None:
    table.create_write_transaction(
        [_add(part) for part in parts],
        "append" if replace is None else "overwrite",
        table.schema() if replace is None else replace,
        partition_by=table.metadata().partition_columns,
        commit_properties=CommitProperties(app_transactions=marks),
    )


def _add(part: DataFile) -> AddAction:
    return AddAction(part.path, part.size, part.values, part.made_ms, True, part.stats)
