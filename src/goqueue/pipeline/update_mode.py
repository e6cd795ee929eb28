"""`writeStream.format("goqueue").outputMode("update")`: changed rows are appended, as Spark's Kafka sink does.

Spark refuses the mode for every sink that is written in Python, and a sink cannot change that. So the writer of a
stream hands such a query's batches to `foreachBatch`, where Spark allows it, and each is written as a batch whose name
and number are the query's: exactly once, as by the sink itself, also over restarts.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FORMAT: Final = "goqueue"
_QUERY: Final = "sql.streaming.queryId"  # stays the same over restarts
_NOTED: Final = "_goqueue_noted"  # what was asked of a writer: Spark does not tell it again


def allow_update_mode() -> None:
    """Lets `DataStreamWriter` know the mode for our format. May be called twice; other formats do not notice."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if hasattr(DataStreamWriter, _NOTED):
        return
    setattr(DataStreamWriter, _NOTED, None)
    for name in ("format", "outputMode", "option", "options"):
        setattr(DataStreamWriter, name, _noting(name, getattr(DataStreamWriter, name)))
    setattr(DataStreamWriter, "start", _starting(DataStreamWriter.start))  # noqa: B010


def _noting(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def noted(writer: DataStreamWriter, *given: Any, **named: Any) -> DataStreamWriter:
        chosen = original(writer, *given, **named)
        _note(_notes(writer), name, given, named)
        return chosen  # type: ignore[no-any-return]

    return noted


def _note(notes: dict[str, Any], name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    if name == "options":
        notes["options"] |= {key: value for key, value in named.items() if value is not None}
    elif name == "option":
        key, value = (*given, *named.values())
        notes["options"] |= {} if value is None else {key: value}
    else:
        notes[name] = next(iter((*given, *named.values())))


def _notes(writer: DataStreamWriter) -> dict[str, Any]:
    if getattr(writer, _NOTED) is None:
        setattr(writer, _NOTED, {"options": {}})
    notes: dict[str, Any] = getattr(writer, _NOTED)
    return notes


def _starting(original: Any) -> Any:
    @functools.wraps(original)
    def start(
        writer: DataStreamWriter,
        path: str | None = None,
        format: str | None = None,  # noqa: A002
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> StreamingQuery:
        if format is not None:
            writer.format(format)
        if outputMode is not None:
            writer.outputMode(outputMode)
        writer.options(**options)
        notes = _notes(writer)
        if path is None and _is_ours(notes):
            writer.foreachBatch(functools.partial(_write_batch, dict(notes["options"])))
        query: StreamingQuery = original(writer, path, partitionBy=partitionBy, queryName=queryName)
        return query

    return start


def _is_ours(notes: dict[str, Any]) -> bool:
    wanted = str(notes.get("format", "")).lower(), str(notes.get("outputMode", "")).lower()
    return wanted == (_FORMAT, "update")


def _write_batch(options: dict[str, Any], rows: DataFrame, batch: int) -> None:
    query = rows.sparkSession.sparkContext.getLocalProperty(_QUERY)
    named = {key: value for key, value in options.items() if key.lower() not in ("checkpointlocation", "queryname")}
    writer = rows.write.format(_FORMAT).mode("append").options(**named)
    writer.option("txnAppId", query).option("txnVersion", batch).save()
