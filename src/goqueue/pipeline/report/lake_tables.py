"""The lake's tables as plain rows, read with delta-rs and pyarrow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from goqueue.pipeline.lake.tending import tables_in


class LakeTables:
    """One look at a lake, at all topics or at some. `rows` counts what was read."""

    def __init__(self, lake: str, topics: Collection[str] = ()) -> None:
        self.lake = lake.rstrip("/")
        self.topics = sorted(topics)
        self.rows = 0

    def names(self) -> list[str]:
        return tables_in(self.lake)

    def open(self, name: str) -> DeltaTable | None:
        """None if there is no such table."""
        place = f"{self.lake}/{name}"
        return DeltaTable(place) if DeltaTable.is_deltatable(place) else None

    def read(self, name: str, columns: Sequence[str]) -> pa.Table | None:
        """Columns of a table, of the topics that are looked at; None if there is no such table."""
        table = self.open(name)
        if table is None:
            return None
        found = table.to_pyarrow_table(columns=list(columns))
        if self.topics and "topic" in columns:
            found = found.filter(pc.is_in(found["topic"], pa.array(self.topics, pa.string())))
        self.rows += found.num_rows
        return found


def millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
