"""The lake's own health: what its tables are made of, and what the audit of `compact` found."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from deltalake import DeltaTable

from goqueue.pipeline.report.lake_tables import LakeTables
from goqueue.pipeline.report.rows import AuditRow, Hole, Table

_SMALL_BYTES: Final = 128 << 20  # what `compact` makes of them unless it is told otherwise
_COUNTS: Final = ("first", "last", "rows", "explained", "expired", "lost", "unknown", "doubled")


def tables(lake: LakeTables) -> list[Table]:
    opened = {name: lake.open(name) for name in lake.names()}
    return [_table(name, one) for name, one in opened.items() if one is not None]


def _table(name: str, table: DeltaTable) -> Table:
    found: Any = table.get_add_actions(flatten=True)
    columns = found.schema.names
    parts = [found.column(one).to_pylist() for one in columns if one.startswith("partition.")]
    sizes = found.column("size_bytes").to_pylist()
    places = list(zip(*parts, strict=True)) if parts else [()] * len(sizes)
    rows = sum(count or 0 for count in found.column("num_records").to_pylist())
    written = max((one["timestamp"] for one in table.history(1)), default=0)
    return Table(name, rows, len(sizes), sum(sizes), small_files(places, sizes), table.version(), written)


def small_files(places: list[tuple[Any, ...]], sizes: list[int]) -> int:
    """How many files would be put together: small ones that lie beside others in the same partition of the table."""
    beside = Counter(place for place, size in zip(places, sizes, strict=True) if size < _SMALL_BYTES)
    return sum(count for count in beside.values() if count > 1)


def audits(lake: LakeTables) -> list[AuditRow] | None:
    found = lake.read("studies/audit", ["topic", "partition", *_COUNTS])
    if found is None:
        return None
    return [AuditRow(row["topic"], row["partition"], *(row[one] for one in _COUNTS)) for row in found.to_pylist()]


def holes(lake: LakeTables) -> list[Hole] | None:
    columns = ["topic", "partition", "kind", "verdict", "start", "end"]
    found = lake.read("studies/holes", columns)
    return None if found is None else [Hole(*(row[one] for one in columns)) for row in found.to_pylist()]
