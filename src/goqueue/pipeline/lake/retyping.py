"""A typed table made anew from the archive: for a schema that came late, or that changed in a way columns cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from goqueue.pipeline.lake.archive_query import ArchiveQuery, by_table
from goqueue.pipeline.lake.archive_task import Written
from goqueue.pipeline.lake.commits import commit
from goqueue.pipeline.lake.parts import Parts
from goqueue.pipeline.lake.reading import read_files
from goqueue.pipeline.lake.schemas import delta_schema
from goqueue.pipeline.lake.tables import ensure_table, open_table
from goqueue.pipeline.lake.typed import PARTITION_BY, Skips, TypedPlan, TypedRows
from goqueue.pipeline.lake.typed_tables import TypedTables
from goqueue.pipeline.lake.writing import packed
from goqueue.pipeline.running import Run


def retype(spark: SparkSession, run: Run, typed: TypedTables, query: ArchiveQuery, topic: str) -> None:
    """Replaces the table's rows in one commit that also says how far the archive was.

    The archive and its ends are of one version, so nothing that is archived later is left out or taken twice.
    """
    archive = open_table(run.place("messages"))
    marks = query.marks_of(topic, archive)
    plan = typed.plan_of(topic)
    rows = read_files(spark, archive, [[("topic", "=", topic)]]).where(f"topic = '{topic}'")
    written = by_table(rows.mapInArrow(_Retyping(plan), "part binary").collect())
    found = written.get(topic, Written(topic, [], [], 0, Skips()))
    table = ensure_table(plan.table, plan.columns, PARTITION_BY, replace=True)
    commit(table, found.parts, marks=marks, replace=delta_schema(plan.columns))
    typed.forget(topic)
    query.count(topic, found)


class _Retyping:
    """What one task does."""

    def __init__(self, plan: TypedPlan) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts, typed = Parts(self._plan.table, self._plan.schema, PARTITION_BY), TypedRows(self._plan)
        seen = 0
        for rows in batches:
            seen += rows.num_rows
            if rows.num_rows:
                parts.write(typed.of(rows))
        yield packed([Written(self._plan.topic, parts.close(), [], seen, typed.skips)])
