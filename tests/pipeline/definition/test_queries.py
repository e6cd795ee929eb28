"""What a served pipeline tells of its queries. Spark is not needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pyspark.sql.streaming.query import StreamingQuery

from goqueue.pipeline.definition.performing import SinkCounts, count
from goqueue.pipeline.definition.queries import Queries
from goqueue.pipeline.definition.reading import from_text
from goqueue.pipeline.definition.sinks import QuarantineCount
from goqueue.pipeline.definition.source_versions import SourceVersions
from goqueue.pipeline.definition.template import template


class Told:
    """A query that tells what a test wants."""

    def __init__(self) -> None:
        self.recentProgress: list[dict[str, Any]] = []
        self.status = {"message": "Initializing sources", "isTriggerActive": False, "isDataAvailable": False}
        self.stopped = False

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return self.recentProgress[-1] if self.recentProgress else None

    def stop(self) -> None:
        self.stopped = True

    def batch(self, number: int, rows: int) -> None:
        self._tell(number, rows, {"addBatch": 5, "triggerExecution": 9})

    def nothing_to_do(self, number: int) -> None:
        """As Spark tells it: with the number that the next batch will have."""
        self._tell(number, 0, {"latestOffset": 2, "triggerExecution": 2})
        self.status = {"message": "Waiting for next trigger", "isTriggerActive": False, "isDataAvailable": False}

    def _tell(self, number: int, rows: int, spent: dict[str, int]) -> None:
        told = {"batchId": number, "numInputRows": rows, "durationMs": spent, "stateOperators": [], "sources": []}
        self.recentProgress.append({**told, "processedRowsPerSecond": 0.0})


def queries(*told: Told) -> Queries:
    named = {f"table-{number}": cast(StreamingQuery, one) for number, one in enumerate(told)}
    file = from_text(Path("shop.toml"), template("shop"))
    return Queries(named, QuarantineCount(), SourceVersions(file, "/nowhere", 0), lambda: None)


def test_rows_of_a_batch_count_though_a_look_before_it_found_nothing() -> None:
    told = Told()
    found = queries(told)
    told.batch(0, 5)
    told.nothing_to_do(1)
    assert (found.numbers()["rows"], found.numbers()["batches"]) == (5.0, 1.0)
    told.batch(1, 7)
    told.nothing_to_do(2)
    assert (found.numbers()["rows"], found.numbers()["batches"]) == (12.0, 2.0)


def test_a_run_counts_rows_of_a_batch_though_a_look_before_it_found_nothing() -> None:
    told, counted, seen = Told(), SinkCounts("table-0"), dict[str, int]()
    told.nothing_to_do(3)
    count(counted, cast(StreamingQuery, told), seen)
    told.batch(3, 7)
    count(counted, cast(StreamingQuery, told), seen)
    assert (counted.rows_in, counted.batches) == (7, 1)


def test_queries_are_steady_when_each_has_done_a_batch_or_has_nothing_to_do() -> None:
    busy, idle = Told(), Told()
    found = queries(busy, idle)
    assert not found.is_steady()
    idle.nothing_to_do(4)
    assert not found.is_steady()
    busy.status = {"message": "Processing new data", "isTriggerActive": True, "isDataAvailable": True}
    assert not found.is_steady()
    busy.batch(0, 1)
    assert found.is_steady()
