"""The queries of one pipeline as `serving` knows them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from goqueue.base.decoders import from_json
from goqueue.pipeline.definition.performing import Asked, check_query, is_batch, prepare, start_queries
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.sinks import QuarantineCount
from goqueue.pipeline.definition.source_versions import SourceVersions
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.source.offsets import mark_of


class Queries:
    """Started streaming queries, one a sink. Numbers are sums over them, of their last batch or since the start."""

    def __init__(
        self,
        queries: Mapping[str, StreamingQuery],
        quarantined: QuarantineCount,
        versions: SourceVersions,
        release: Callable[[], None],
    ) -> None:
        self._queries, self._quarantined, self._versions, self._release = queries, quarantined, versions, release
        self._seen: dict[str, int] = {}
        self._last: dict[str, str] = {}  # when what each had done last began, as it was to end
        self._totals = dict.fromkeys(("rows", "batches", "late_rows"), 0.0)

    def failure(self) -> str | None:
        for name, query in self._queries.items():
            try:
                check_query(name, query)
            except PipelineError as error:
                return str(error)
            if not query.isActive:
                return f"{name}: its query ended"
        return None

    def is_steady(self) -> bool:
        """Whether every query has done a batch, or found that there is nothing to do."""
        return all(_is_steady(query) for query in self._queries.values())

    def changed_source(self, now: float) -> str | None:
        """A table or file that was joined as it was at the start, and is another now."""
        return self._versions.changed(now)

    def wind_down(self) -> bool:
        """Stops the queries that are between two batches, or did one since this was first asked; whether all ended."""
        for name, query in self._queries.items():
            done = str(_field(query.lastProgress, "timestamp"))
            is_behind_it = done != self._last.setdefault(name, done) or not query.status["isTriggerActive"]
            if query.isActive and is_behind_it:
                query.stop()
        return not any(query.isActive for query in self._queries.values())

    def stop(self) -> None:
        """At once: a batch that is under way is broken off, and done again at the next start."""
        try:
            for query in self._queries.values():
                query.stop()
        finally:
            self._release()

    def numbers(self) -> Mapping[str, float]:
        now = dict.fromkeys(("state_rows", "state_bytes", "lag_rows", "rows_per_second"), 0.0)
        for name, query in self._queries.items():
            for one in filter(is_batch, query.recentProgress):
                self._add(name, one)
            last = query.lastProgress
            for operator in _field(last, "stateOperators") or []:
                now["state_rows"] += float(_field(operator, "numRowsTotal") or 0)
                now["state_bytes"] += float(_field(operator, "memoryUsedBytes") or 0)
            # All queries read the same topics: the slowest says how far the pipeline is.
            now["lag_rows"] = max(now["lag_rows"], sum(map(_lag, _field(last, "sources") or [])))
            now["rows_per_second"] += _speed(last)
        return {**self._totals, **now, "quarantined_rows": float(self._quarantined.rows)}

    def _add(self, name: str, progress: Any) -> None:
        number = int(_field(progress, "batchId"))
        if number <= self._seen.get(name, -1):
            return
        self._seen[name] = number
        self._totals["rows"] += float(_field(progress, "numInputRows"))
        self._totals["batches"] += 1
        for operator in _field(progress, "stateOperators") or []:
            self._totals["late_rows"] += float(_field(operator, "numRowsDroppedByWatermark") or 0)


def _is_steady(query: StreamingQuery) -> bool:
    status = query.status
    waits = not status["isTriggerActive"] and str(status["message"]).startswith("Waiting for")
    return waits or any(map(is_batch, query.recentProgress))


def _speed(progress: Any) -> float:
    speed = float(_field(progress, "processedRowsPerSecond") or 0)
    return speed if math.isfinite(speed) else 0.0


def _lag(source: Any) -> float:
    """Offsets between what the last batch read and what was there then."""
    ends = [_field(source, name) for name in ("endOffset", "latestOffset")]
    try:
        read, there = (mark_of(from_json(str(one), dict[str, Any])) for one in ends)
    except (msgspec.DecodeError, PipelineError):
        return 0.0  # the source is of another kind, or has not read anything yet
    if there is None:
        return 0.0
    before = {} if read is None else read.to
    return float(sum(max(0, end - before.get(place, 0)) for place, end in there.to.items()))


def _field(told: Any, name: str) -> Any:
    if told is None:
        return None
    return told[name] if isinstance(told, dict) else getattr(told, name)


def begin(spark: SparkSession, file: PipelineFile, asked: Asked) -> Queries:
    """In a session of its own, so that views of two pipelines may have the same name. Raises if it cannot start."""
    versions = SourceVersions(file, asked.lake, time.monotonic())
    ready = prepare(spark.newSession(), file, asked)
    try:
        queries = start_queries(ready)
        if not queries:
            told = "it reads no topic, so there is nothing to keep running; run it by `goqueue pipeline run`"
            raise PipelineError(told)
    except BaseException:
        ready.lock.release()
        raise
    return Queries(queries, ready.place.quarantined, versions, ready.lock.release)
