"""What messages look like: the fields of their JSON, by type, and how many messages have each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

WHOLE: Final = ""  # the field that stands for the whole value
TYPES: Final = ("null", "boolean", "integer", "number", "string", "object", "array")
_COLUMNS: Final = "topic string, field string, type string, rows bigint"
_SCHEMA: Final = pa.schema(
    [("topic", pa.string()), ("field", pa.string()), ("type", pa.string()), ("rows", pa.int64())]
)
_DEPTH_MAX: Final = 8
_FIELDS_MAX: Final = 1_000  # of a topic, in one task; what comes later counts under `_OTHERS`
_OTHERS: Final = "*"

Found = set[tuple[str, str]]


def fields(frame: DataFrame) -> DataFrame:
    """One row for each topic, field and type: how many messages have it. Needs the columns `topic`, `value` and `text`.

    Members of members are `a.b`, items of arrays `a[]`. The whole value is the field without a name; its type is that
    of its JSON, or `text`, `binary`, or `tombstone`.
    """
    counted = frame.select("topic", f.col("value").isNull().alias("is_null"), "text").mapInArrow(_count, _COLUMNS)
    return counted.groupBy("topic", "field", "type").agg(f.sum("rows").alias("rows"))


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One task: few rows come out, however many go in."""
    counts: Counter[tuple[str, str, str]] = Counter()
    known: dict[str, set[str]] = {}
    for rows in batches:
        for topic, is_null, text in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            seen = known.setdefault(topic, set())
            for field, kind in fields_of(is_null, text):
                counts[topic, _bounded(field, seen), kind] += 1
    columns = [list(column) for column in zip(*counts, strict=True)] or [[], [], []]
    yield pa.RecordBatch.from_pydict(dict(zip(_SCHEMA.names, [*columns, list(counts.values())], strict=True)), _SCHEMA)


def _bounded(field: str, seen: set[str]) -> str:
    if field not in seen and len(seen) >= _FIELDS_MAX:
        return _OTHERS
    seen.add(field)
    return field


def fields_of(is_null: bool, text: str | None) -> Found:
    """The fields of one message, each with its types."""
    if is_null:
        return {(WHOLE, "tombstone")}
    if text is None:
        return {(WHOLE, "binary")}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {(WHOLE, "text")}
    found: Found = set()
    _walk(WHOLE, value, 0, found)
    return found


def _walk(path: str, value: Any, depth: int, found: Found) -> None:
    found.add((path, type_of(value)))
    if depth >= _DEPTH_MAX:
        return
    if isinstance(value, dict):
        for name, member in value.items():
            _walk(f"{path}.{name}" if path else name, member, depth + 1, found)
    elif isinstance(value, list):
        for item in value:
            _walk(f"{path}[]", item, depth + 1, found)


def type_of(value: Any) -> str:
    """As JSON Schema names it."""
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
    return kinds.get(type(value), "null")
