"""What one task of the archive does with its messages: files for the archive, and for the typed table of each topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.pipeline.lake import messages
from goqueue.pipeline.lake.parts import DataFile, Parts, split
from goqueue.pipeline.lake.schemas import arrow_schema
from goqueue.pipeline.lake.typed import PARTITION_BY, Skips, TypedPlan, TypedRows
from goqueue.pipeline.lake.writing import packed
from goqueue.pipeline.link.place import Place

ARCHIVE = ""  # the archive itself, where the tables of topics have the topic's name


class TableEnds(msgspec.Struct, frozen=True):
    """How far each table is, by topic and partition: what lies below is in it already."""

    archive: dict[str, dict[int, int]]
    typed: dict[str, dict[int, int]]


class Written(msgspec.Struct, frozen=True):
    """What a task wrote for one table. `ends` is one past the last offset it saw of each place."""

    table: str
    parts: list[DataFile]
    ends: list[tuple[str, int, int]]
    seen: int
    skips: Skips


class ArchiveTask:
    """Goes to the executors as it is, so it holds values only. Tables are named by topic; `ARCHIVE` is the archive."""

    def __init__(self, archive: str, ends: TableEnds, typed: Mapping[str, TypedPlan]) -> None:
        self._archive = archive
        self._ends = ends
        self._typed = dict(typed)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        archive = _Table(Parts(self._archive, arrow_schema(messages.SCHEMA), messages.PARTITION_BY))
        typed = {topic: _TypedTable(plan) for topic, plan in self._typed.items()}
        for rows in batches:
            for place, some in split(rows, ("topic", "partition")):
                self._take(Place(*place), messages.with_day_and_text(some), archive, typed)
        found = [archive.written(ARCHIVE), *(table.written(topic) for topic, table in typed.items())]
        yield packed([one for one in found if one.seen])

    def _take(self, place: Place, rows: pa.RecordBatch, archive: _Table, typed: Mapping[str, _TypedTable]) -> None:
        archive.take(place, rows, self._ends.archive.get(place.topic, {}).get(place.partition))
        if place.topic in typed:
            typed[place.topic].take(place, rows, self._ends.typed.get(place.topic, {}).get(place.partition))


class _Table:
    """A table's files and counts, as one task sees them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._ends: dict[Place, int] = {}
        self._seen = 0

    def take(self, place: Place, rows: pa.RecordBatch, end: int | None) -> None:
        """Takes up what lies beyond the table's end."""
        fresh = beyond(rows, end)
        if fresh.num_rows:
            self._parts.write(self.shaped(fresh))
        last = pc.max(rows.column("offset")).as_py()
        self._ends[place] = max(last + 1, self._ends.get(place, 0))
        self._seen += rows.num_rows

    def shaped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows

    @property
    def skips(self) -> Skips:
        return Skips()

    def written(self, name: str) -> Written:
        ends = [(*place, end) for place, end in sorted(self._ends.items())]
        return Written(name, self._parts.close(), ends, self._seen, self.skips)


class _TypedTable(_Table):
    """The same with typed rows."""

    def __init__(self, plan: TypedPlan) -> None:
        super().__init__(Parts(plan.table, plan.schema, PARTITION_BY))
        self._typed = TypedRows(plan)

    def shaped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self._typed.of(rows)

    @property
    def skips(self) -> Skips:
        return self._typed.skips


def beyond(rows: pa.RecordBatch, end: int | None) -> pa.RecordBatch:
    """The rows from offset `end` on."""
    if end is None or pc.min(rows.column("offset")).as_py() >= end:
        return rows
    return rows.filter(pc.greater_equal(rows.column("offset"), end))
