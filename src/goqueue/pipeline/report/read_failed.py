"""What failed, as the pipelines `dlq` and `quality` found it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from goqueue.base.fingerprints import RULES
from goqueue.pipeline.report.lake_tables import LakeTables, millis
from goqueue.pipeline.report.rows import BreakRow, CheckedRow, DeadLetterRow, Deaths, Drift
from goqueue.pipeline.report.scale import time_step_ms

_KIND: Final = ["topic", "group", "reason", "fingerprint", "schema_version"]
_ALL: Final = "all"  # the line of `quality` that tells of all checks together
_SCHEMA: Final = "schema"  # the check that is not a rule of the user's
_EXAMPLES_MAX: Final = 30
_WINDOWS: Final = 60


def letters(lake: LakeTables) -> list[DeadLetterRow] | None:
    """By kind. Those that were put there by hand have no topic but their own."""
    columns = [*_KIND, "letter_topic", "partition", "offset", "died_at", "template"]
    found = lake.read("studies/letters", columns)
    if found is None:
        return None
    named = found.set_column(0, "topic", pc.coalesce(found["topic"], found["letter_topic"])).sort_by("died_at")
    asked = [("died_at", "count"), ("died_at", "min"), ("died_at", "max")]
    last = [(name, "last") for name in ("template", "partition", "offset")]
    rows = named.group_by(_KIND, use_threads=False).aggregate(asked + last).to_pylist()
    rows.sort(key=lambda row: -row["died_at_count"])
    values = _values(lake, rows[:_EXAMPLES_MAX])
    return [_letters(row, values.get(_place(row), "")) for row in rows]


def _letters(row: dict[str, Any], example: str) -> DeadLetterRow:
    version = "" if row["schema_version"] is None else str(row["schema_version"])
    times = millis(row["died_at_min"]), millis(row["died_at_max"])
    kind = row["topic"], row["group"], row["reason"], row["fingerprint"]
    return DeadLetterRow(*kind, row["died_at_count"], *times, version, row["template_last"] or "", example)


def _place(row: dict[str, Any]) -> tuple[str, int | None, int | None]:
    return row["topic"], row["partition_last"], row["offset_last"]


def _values(lake: LakeTables, rows: Sequence[dict[str, Any]]) -> dict[tuple[str, int | None, int | None], str]:
    """What is archived of the messages that died, as text."""
    archive = lake.open("messages")
    places = [_place(row) for row in rows if row["offset_last"] is not None]
    if archive is None or not places:
        return {}
    topic, partition, offset = (pc.field(name) for name in ("topic", "partition", "offset"))
    wanted = pc.scalar(False)
    for place in places:
        wanted |= (topic == place[0]) & (partition == place[1]) & (offset == place[2])
    found = archive.to_pyarrow_dataset().to_table(["topic", "partition", "offset", "text"], filter=wanted)
    return {(row["topic"], row["partition"], row["offset"]): row["text"] or "" for row in found.to_pylist()}


def deaths(lake: LakeTables) -> list[Deaths] | None:
    """By reason and time, in about sixty windows."""
    found = lake.read("studies/letters", ["topic", "reason", "died_at"])
    if found is None or not found.num_rows:
        return None if found is None else []
    at_ms = pc.cast(pc.cast(found["died_at"], pa.timestamp("ms", "UTC"), safe=False), pa.int64())
    length = time_step_ms(pc.max(at_ms).as_py() - pc.min(at_ms).as_py(), _WINDOWS)
    start = pc.multiply(pc.divide(at_ms, length), length)
    table = pa.table({"reason": found["reason"], "start": start})
    rows = table.group_by(["reason", "start"]).aggregate([([], "count_all")]).to_pylist()
    return [Deaths(row["reason"] or "by hand", row["start"], length, row["count_all"]) for row in rows]


# --- quality ------------------------------------------------------------------------------------------


def checked(lake: LakeTables) -> list[CheckedRow] | None:
    """All runs together."""
    found = lake.read("studies/quality", ["topic", "check", "rows", "bad"])
    if found is None:
        return None
    whole = found.filter(pc.equal(found["check"], _ALL))
    rows = whole.group_by("topic").aggregate([("rows", "sum"), ("bad", "sum")]).to_pylist()
    return [CheckedRow(row["topic"], row["rows_sum"], row["bad_sum"]) for row in rows]


def breaks(lake: LakeTables) -> list[BreakRow] | None:
    """What stands in the quarantine, by what is wrong with it."""
    table = lake.open("quarantine")
    if table is None:
        return None
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for batch in table.to_pyarrow_dataset().to_batches(columns=["topic", "text", "reasons"]):
        _count(found, (row for row in batch.to_pylist() if not lake.topics or row["topic"] in lake.topics))
    return [BreakRow(topic, rule, count, example) for (topic, rule), (count, example) in found.items()]


def _count(found: dict[tuple[str, str], tuple[int, str]], rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        for rule in {rule_of(one["check"], one["why"]) for one in row["reasons"]}:
            count, example = found.get((row["topic"], rule), (0, row["text"] or ""))
            found[row["topic"], rule] = count + 1, example


def rule_of(check: str, why: str) -> str:
    """A rule of the user's by its name, a schema's by what it says, without what differs from row to row."""
    if check != _SCHEMA:
        return check
    for pattern, instead in RULES:
        why = re.sub(pattern, instead, why)
    return f"{check}: {why}"


def drifts(lake: LakeTables) -> list[Drift] | None:
    """Of every run against the one before it."""
    columns = ["topic", "field", "change", "before", "after"]
    found = lake.read("studies/drift", columns)
    return None if found is None else [Drift(*(row[one] or "" for one in columns)) for row in found.to_pylist()]
