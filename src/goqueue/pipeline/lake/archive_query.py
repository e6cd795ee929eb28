"""The archive's batches on the driver: what a batch may still need, its files, and one commit for each table.

Typed tables are committed first and the archive last, each with the batch's number and with how far it is in every
partition. So whatever is cut off in between is done over, and every table leaves out what it has. How far a table is
counts even if the checkpoint is lost or other topics are chosen: no message is ever taken twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from deltalake import DeltaTable
from pyspark.sql import DataFrame, Row

from goqueue.base.decoders import from_msgpack
from goqueue.pipeline.lake import messages
from goqueue.pipeline.lake.archive_task import ARCHIVE, ArchiveTask, TableEnds, Written
from goqueue.pipeline.lake.commits import QueryBatch, commit, has_batch
from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.folders import location
from goqueue.pipeline.lake.tables import ensure_table
from goqueue.pipeline.lake.typed import Skips
from goqueue.pipeline.lake.typed_tables import TypedTables
from goqueue.pipeline.lake.writing import query_id
from goqueue.pipeline.link.cluster import Cluster
from goqueue.pipeline.link.place import Place


class ArchiveCounts(msgspec.Struct):
    """What was done so far, by table."""

    seen: int = 0
    batches: int = 0
    files: int = 0
    bytes: int = 0
    rows: dict[str, int] = {}
    typed: dict[str, int] = {}
    skips: dict[str, Skips] = {}


class ArchiveQuery:
    """Given every batch of the query; lives as long as one run."""

    def __init__(self, archive: str, cluster: Cluster, topics: Sequence[str], typed: TypedTables) -> None:
        self._path = location(archive)
        self._cluster = cluster
        self._topics = tuple(topics)
        self._typed = typed
        self._table = ensure_table(archive, messages.SCHEMA, messages.PARTITION_BY)
        self.tally = ArchiveCounts()
        self.failure: Exception | None = None
        self.on_batch: Callable[[Mapping[Place, int]], None] = lambda ends: None
        self._reached: dict[Place, int] = {}

    def __call__(self, rows: DataFrame, number: int) -> None:
        try:
            self._archive(rows, QueryBatch(query_id(rows), number))
        except Exception as error:
            self.failure = error
            raise

    def ends(self) -> dict[Place, int | None]:
        """How far the archive is in each partition that the topics have; None where it has nothing."""
        return {
            place: self._table.transaction_version(mark)
            for place, mark in marks_in(self._cluster, self._topics).items()
        }

    def marks_of(self, topic: str, table: DeltaTable) -> dict[str, int]:
        """How far that version of the archive is in a topic, as its tables keep it."""
        found = {
            mark: table.transaction_version(mark)
            for place, mark in marks_in(self._cluster, self._topics).items()
            if place.topic == topic
        }
        return {mark: end for mark, end in found.items() if end is not None}

    def _archive(self, rows: DataFrame, batch: QueryBatch) -> None:
        self._table.update_incremental()
        if has_batch(self._table, batch):
            return
        marks = marks_in(self._cluster, self._topics)
        self._typed.refresh()
        tables = self._typed.tables
        ends = TableEnds(_by_topic(self._table, marks), _by_own_topic(tables, marks))
        task = ArchiveTask(self._path, ends, self._typed.plans)
        found = rows.mapInArrow(task, "part binary").collect()
        written = by_table(found)
        for name, table in [*sorted(tables.items()), (ARCHIVE, self._table)]:
            if name in written:
                self._commit(name, table, written[name], batch, marks, ends)
        self.tally.batches += 1
        self.on_batch(self._reached)

    def _commit(
        self,
        name: str,
        table: DeltaTable,
        written: Written,
        batch: QueryBatch,
        marks: Mapping[Place, str],
        ends: TableEnds,
    ) -> None:
        """A batch may hold nothing new for a table; how far the table is moves on all the same."""
        known = ends.archive if name == ARCHIVE else ends.typed
        reached = {Place(topic, number): end for topic, number, end in written.ends}
        _check_known(reached, marks)
        before = {place: known.get(place.topic, {}).get(place.partition) for place in reached}
        after = {marks[place]: max(end, before[place] or 0) for place, end in reached.items()}
        seen = {marks[place]: end for place, end in before.items()}
        if commit(table, written.parts, batch=batch, marks=after, seen=seen):
            self.count(name, written)
        if name == ARCHIVE:
            self._reached |= reached

    def count(self, name: str, written: Written) -> None:
        tally = self.tally
        tally.files += len(written.parts)
        tally.bytes += sum(part.size for part in written.parts)
        if name != ARCHIVE:
            tally.typed[name] = tally.typed.get(name, 0) + sum(part.rows for part in written.parts)
            tally.skips.setdefault(name, Skips()).add(written.skips)
            return
        tally.seen += written.seen
        for part in written.parts:
            topic = part.values["topic"] or ""
            tally.rows[topic] = tally.rows.get(topic, 0) + part.rows


def marks_in(there: Cluster, topics: Sequence[str]) -> dict[Place, str]:
    """The names under which tables keep how far they are. A topic that was made again begins anew: its id is in it."""
    known = there.topics()
    found = there.describe([topic for topic in topics if topic in known])
    return {
        Place(topic, number): f"{topic}/{number}/{facts.id.hex()}"
        for topic, facts in found.items()
        for number in range(facts.partitions)
    }


def _check_known(reached: Iterable[Place], marks: Mapping[Place, str]) -> None:
    for place in reached:
        if place not in marks:
            raise LakeError(f"{place} was deleted while it was archived; run again without the topic {place.topic!r}.")


def _by_topic(table: DeltaTable, marks: Mapping[Place, str]) -> dict[str, dict[int, int]]:
    ends: dict[str, dict[int, int]] = {}
    for place, mark in marks.items():
        end = table.transaction_version(mark)
        if end is not None:
            ends.setdefault(place.topic, {})[place.partition] = end
    return ends


def _by_own_topic(tables: Mapping[str, DeltaTable], marks: Mapping[Place, str]) -> dict[str, dict[int, int]]:
    ends: dict[str, dict[int, int]] = {}
    for topic, table in tables.items():
        own = {place: mark for place, mark in marks.items() if place.topic == topic}
        ends.update(_by_topic(table, own))
    return ends


def by_table(rows: Iterable[Row]) -> dict[str, Written]:
    """What tasks sent back: all their work for a table as one."""
    found: dict[str, Written] = {}
    for row in rows:
        one = from_msgpack(row[0], Written)
        known = found.get(one.table)
        found[one.table] = one if known is None else _joined(known, one)
    return found


def _joined(one: Written, other: Written) -> Written:
    """Ends of one place in two tasks: the later one holds."""
    ends = {(topic, number): end for topic, number, end in one.ends}
    for topic, number, end in other.ends:
        ends[topic, number] = max(end, ends.get((topic, number), 0))
    skips = Skips()
    skips.add(one.skips)
    skips.add(other.skips)
    listed = [(*place, end) for place, end in sorted(ends.items())]
    return Written(one.table, [*one.parts, *other.parts], listed, one.seen + other.seen, skips)
