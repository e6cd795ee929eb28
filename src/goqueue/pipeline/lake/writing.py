"""Frames into Delta tables: executors write the files, the driver commits them in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import NumericType, StructType

from goqueue.base.decoders import from_msgpack
from goqueue.pipeline.lake.commits import QueryBatch, commit, has_batch
from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.folders import folder, location
from goqueue.pipeline.lake.parts import DataFile, Parts
from goqueue.pipeline.lake.schemas import arrow_schema, delta_schema, spark_schema
from goqueue.pipeline.lake.tables import ensure_table

_TOLD_CHARS_MAX: Final = 1_000
_FROM_JAVA: Final = "An error occurred while calling "  # as Py4J tells what Java raised
_JAVA_CAUSE: Final = "Caused by: "

EachBatch = Callable[[DataFrame, int], int | None]  # how many rows it wrote; None if it ran all of the frame anyway


def write_table(
    frame: DataFrame,
    table: str,
    *,
    mode: str = "append",
    partition_by: Sequence[str] = (),
    app_id: str | None = None,
    version: int | None = None,
) -> int:
    """Writes the rows in one commit, added to the table or in place of all it has; how many they are.

    With `app_id` and `version` it happens once: 0 if the table has that version of `app_id` already.
    """
    if mode not in ("append", "overwrite"):
        raise LakeError(f"A table is written with mode append or overwrite, not {mode!r}.")
    batch = None if app_id is None or version is None else QueryBatch(app_id, version)
    anew = mode == "overwrite"
    found = ensure_table(table, frame.schema, partition_by, replace=anew)
    if batch is not None and has_batch(found, batch):
        return 0
    by = found.metadata().partition_columns
    _check_divided(frame, table, by)
    parts = write_files(frame if anew else fitted(frame, spark_schema(found)), table, by)
    if not parts and not anew:
        return 0
    done = commit(found, parts, batch=batch, replace=delta_schema(frame.schema) if anew else None)
    return sum(part.rows for part in parts) if done else 0


def fitted(frame: DataFrame, columns: StructType) -> DataFrame:
    """The rows with the table's types, where those are wider."""
    kinds = {field.name.lower(): field.dataType for field in columns.fields}
    given = {field.name: field.dataType for field in frame.schema.fields}
    wider = {
        name: frame[f"`{name}`"].cast(kinds[name.lower()])
        for name, kind in given.items()
        if isinstance(kind, NumericType) and kinds.get(name.lower(), kind) != kind
    }
    return frame.withColumns(wider) if wider else frame


def _check_divided(frame: DataFrame, table: str, by: Sequence[str]) -> None:
    missing = sorted(set(by) - set(frame.columns))
    if missing:
        raise LakeError(f"{table} is divided by {', '.join(by)}, and the rows have no {', '.join(missing)}.")


def write_stream(
    frame: DataFrame,
    table: str,
    query_name: str,
    checkpoint: str,
    *,
    partition_by: Sequence[str] = (),
    once: bool = True,
    every_s: float | None = None,
) -> StreamingQuery:
    """Starts a query that adds its rows to the table, each batch exactly once whatever crashes in between.

    `once` works off what is there and ends; else a batch is made every `every_s`, or as fast as it goes.
    """
    ensure_table(table, frame.schema, partition_by)

    def write(rows: DataFrame, number: int) -> int:
        return write_table(rows, table, partition_by=partition_by, app_id=query_id(rows), version=number)

    return start(frame, write, query_name, checkpoint, once=once, every_s=every_s)


def start(
    frame: DataFrame,
    each: EachBatch,
    query_name: str,
    checkpoint: str,
    *,
    once: bool,
    every_s: float | None = None,
    output: str = "append",
) -> StreamingQuery:
    """A query that gives every batch to `each`, on the driver.

    A batch that was written just before a kill is given again, and not written twice. What Spark keeps between batches
    (of windows, joins, deduplication) has to see it all the same.
    """

    def guarded(rows: DataFrame, number: int) -> None:
        try:
            if each(rows, number) == 0 and _keeps_state(checkpoint):
                rows.write.format("noop").mode("overwrite").save()
        except Exception as error:
            # Spark searches the whole traceback with a pattern that overflows its stack if the text is long.
            raise LakeError(f"Batch {number}: {short(error)}") from None

    writer = frame.writeStream.queryName(query_name).option("checkpointLocation", location(checkpoint))
    writer = writer.outputMode(output)
    if once:
        writer = writer.trigger(availableNow=True)
    elif every_s is not None:
        writer = writer.trigger(processingTime=f"{every_s} seconds")
    return writer.foreachBatch(guarded).start()


def _keeps_state(checkpoint: str) -> bool:
    return bool(folder(location(checkpoint)).get_file_info(fs.FileSelector("state", allow_not_found=True)))


def short(why: BaseException) -> str:
    """What went wrong, without the traceback of the worker that it happened in."""
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    if not lines:
        return type(why).__name__
    if lines[0].startswith(_FROM_JAVA):
        return _java_cause(lines)[:_TOLD_CHARS_MAX]
    told = lines[-1] if "Traceback" in str(why) else lines[0]
    return f"{type(why).__name__}: {told}"[:_TOLD_CHARS_MAX]


def _java_cause(lines: Sequence[str]) -> str:
    """The innermost that it names; else what stands behind the name of the call."""
    causes = [line.removeprefix(_JAVA_CAUSE) for line in lines if line.startswith(_JAVA_CAUSE)]
    return causes[-1] if causes else lines[1 if len(lines) > 1 else 0].lstrip(": ")


def query_id(rows: DataFrame) -> str:
    """The id of the query that a batch belongs to: the same after every restart from its checkpoint."""
    found = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    if found is None:
        raise LakeError("This frame is no batch of a streaming query; give app_id and version instead.")
    return found


def write_files(frame: DataFrame, table: str, partition_by: Sequence[str], whole_rows: bool = False) -> list[DataFile]:
    """Runs the frame and writes its rows into the table's folder. No reader sees them before a commit.

    Delta's files leave out the columns that the table is divided by; with `whole_rows` they are in the files.
    """
    task = _Writing(location(table), arrow_schema(frame.schema), tuple(partition_by), whole_rows)
    return [from_msgpack(row[0], DataFile) for row in frame.mapInArrow(task, "part binary").collect()]


class _Writing:
    """What one task does: its rows go into files, and what is known of the files goes back to the driver."""

    def __init__(self, table: str, schema: pa.Schema, partition_by: tuple[str, ...], whole_rows: bool) -> None:
        self._table, self._schema, self._partition_by, self._whole_rows = table, schema, partition_by, whole_rows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = Parts(self._table, self._schema, self._partition_by, self._whole_rows)
        for rows in batches:
            parts.write(rows)
        yield packed(parts.close())


def packed(values: Sequence[Any]) -> pa.RecordBatch:
    """Values on their way to the driver, one a row."""
    told = pa.array([msgspec.msgpack.encode(value) for value in values], pa.binary())
    return pa.RecordBatch.from_arrays([told], names=["part"])
