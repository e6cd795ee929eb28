"""Tests in a pipeline's file: rows in, rows out, in one Spark session, without a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from goqueue.pipeline.definition.frames import Frames, GivenFrames
from goqueue.pipeline.definition.mistakes import Mistake
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.views import build_views
from goqueue.pipeline.definition.words import Rows, Trial


class Verdict(msgspec.Struct, frozen=True):
    """How a test ended; `differences` are empty if it passed."""

    test: str
    differences: list[str]


def run_tests(spark: SparkSession, file: PipelineFile, like: Frames) -> Iterator[Verdict]:
    """Each test of the file in turn. `like` says what columns sources have."""
    for number, trial in enumerate(file.definition.test):
        try:
            given = GivenFrames(spark, like, trial.given)
            views = build_views(spark, file, given)
        except ValueError as error:
            raise file.refuse(Mistake(f"test {trial.name!r}: {error}", ("test", number, "given"))) from None
        yield Verdict(trial.name, list(_differences(views.frames, trial)))


def _differences(frames: Mapping[str, DataFrame], trial: Trial) -> Iterator[str]:
    for view, expected in trial.expect.items():
        named = list(dict.fromkeys(name for row in expected for name in row))
        unknown = [name for name in named if name not in frames[view].columns]
        if unknown:
            yield f"{view} has no column {unknown[0]!r}; it has {', '.join(frames[view].columns)}"
            continue
        got = _rows(frames[view], named)
        yield from _compared(view, expected, got)


def _compared(view: str, expected: Rows, got: list[dict[str, Any]]) -> Iterator[str]:
    """As sets with multiplicity: order says nothing in Spark."""
    left = [_plain(row) for row in got]
    for row in expected:
        wanted = {name: _plain_value(value) for name, value in row.items()}
        match = next((one for one in left if all(_same(one.get(name), value) for name, value in wanted.items())), None)
        if match is None:
            yield f"{view}: missing {wanted}"
        else:
            left.remove(match)
    for row in left:
        yield f"{view}: unexpected {row}"


def _rows(frame: DataFrame, named: list[str]) -> list[dict[str, Any]]:
    rows = frame.select(*(f"`{name}`" for name in named)) if named else frame
    return [row.asDict(recursive=True) for row in rows.limit(10_000).collect()]


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain_value(value) for name, value in row.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, list):
        return [_plain_value(one) for one in value]
    if isinstance(value, dict):
        return _plain(value)
    return value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return (
            isinstance(one, int | float)
            and isinstance(other, int | float)
            and abs(one - other) <= 1e-9 * max(1, abs(other))
        )
    return bool(one == other)
