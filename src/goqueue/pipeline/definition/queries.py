"""The queries of one pipeline as `serving` knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from goqueue.pipeline.definition.performing import Asked, check_query, prepare, start_queries
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.link.errors import PipelineError


class Queries:
    """Started streaming queries, one a sink. Numbers are sums over them, of their last batch or since the start."""

    def __init__(self, queries: Mapping[str, StreamingQuery]) -> None:
        self._queries = queries
        self._seen: dict[str, int] = {}
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

    def stop(self) -> None:
        for query in self._queries.values():
            query.stop()

    def numbers(self) -> Mapping[str, float]:
        state_rows = state_bytes = 0.0
        for name, query in self._queries.items():
            for one in query.recentProgress:
                self._add(name, one)
            last = query.lastProgress
            for operator in _field(last, "stateOperators") or []:
                state_rows += float(_field(operator, "numRowsTotal") or 0)
                state_bytes += float(_field(operator, "memoryUsedBytes") or 0)
        return {**self._totals, "state_rows": state_rows, "state_bytes": state_bytes}

    def _add(self, name: str, progress: Any) -> None:
        number = int(_field(progress, "batchId"))
        if number <= self._seen.get(name, -1):
            return
        self._seen[name] = number
        self._totals["rows"] += float(_field(progress, "numInputRows"))
        self._totals["batches"] += 1
        for operator in _field(progress, "stateOperators") or []:
            self._totals["late_rows"] += float(_field(operator, "numRowsDroppedByWatermark") or 0)


def _field(told: Any, name: str) -> Any:
    if told is None:
        return None
    return told[name] if isinstance(told, dict) else getattr(told, name)


def begin(spark: SparkSession, file: PipelineFile, asked: Asked) -> Queries:
    """In a session of its own, so that views of two pipelines may have the same name. Raises if it cannot start."""
    queries = start_queries(prepare(spark.newSession(), file, asked))
    if not queries:
        raise PipelineError("it reads no topic, so there is nothing to keep running; run it by `goqueue pipeline run`")
    return Queries(queries)
