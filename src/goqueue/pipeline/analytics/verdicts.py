"""What the checks of a run found: by topic and check how many rows were looked at and how many are bad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from goqueue.pipeline.analytics.checks import CheckPlan
from goqueue.pipeline.analytics.profiles import NAME, run_of
from goqueue.pipeline.analytics.rules import Rule
from goqueue.pipeline.analytics.tables import append_rows

SCHEMA: Final = "schema"  # the check that is no rule of the user's
ALL: Final = "all"  # the line of all checks together: a row that breaks two is bad once
_TABLE: Final = pa.schema(
    [
        ("date", pa.date32()),
        ("time", pa.timestamp("us", "UTC")),
        ("number", pa.int64()),
        ("topic", pa.string()),
        ("check", pa.string()),
        ("rows", pa.int64()),
        ("bad", pa.int64()),
        ("example", pa.string()),
    ]
)


class CheckVerdict(msgspec.Struct, frozen=True):
    """One check of one topic. `example` tells where the last bad row is and what is wrong with it."""

    topic: str
    check: str
    rows: int
    bad: int
    example: str = ""


def verdicts_of(
    bad: DataFrame, totals: Mapping[str, int], rules: Sequence[Rule], book: CheckPlan
) -> list[CheckVerdict]:
    """From a run's rows in quarantine, and how many messages each topic had."""
    where = f.concat_ws("", "topic", f.lit("/"), "partition", f.lit("@"), "offset")
    each = bad.select("topic", "partition", "offset", where.alias("where"), f.explode("reasons").alias("reason"))
    worst = f.max(f.struct("partition", "offset", f.concat_ws(": ", "where", "reason.why").alias("told")))
    by_check = each.groupBy("topic", "reason.check").agg(f.count(f.lit(1)).alias("bad"), worst.alias("example"))
    whole = bad.groupBy("topic").agg(f.count(f.lit(1)).alias("bad"))
    found = {(row["topic"], row["check"]): (row["bad"], row["example"]["told"]) for row in by_check.collect()}
    found |= {(row["topic"], ALL): (row["bad"], "") for row in whole.collect()}
    return [
        CheckVerdict(topic, check, rows, *found.get((topic, check), (0, "")))
        for topic, rows in sorted(totals.items())
        for check in _checks(topic, rules, book)
    ]


def _checks(topic: str, rules: Sequence[Rule], book: CheckPlan) -> list[str]:
    schema = [SCHEMA] if book.is_checked(topic) else []
    return [ALL, *schema, *(one.name for one in rules if not one.topics or topic in one.topics)]


def write_verdicts(found: Iterable[CheckVerdict], table: str, number: int, now: datetime) -> None:
    rows = [{**run_of(number, now), **msgspec.structs.asdict(one)} for one in found]
    append_rows(pa.Table.from_pylist(rows, _TABLE), table, NAME, number)


def bad_rows(found: Iterable[CheckVerdict]) -> int:
    return sum(one.bad for one in found if one.check == ALL)


def shown(found: Iterable[CheckVerdict]) -> list[dict[str, Any]]:
    """For the summary."""
    return [msgspec.structs.asdict(one) for one in found]
