"""Typed tables: their columns, and what has no row."""

from __future__ import annotations

import json
from typing import Any

from goqueue.pipeline.lake.messages import with_day_and_text
from goqueue.pipeline.lake.typed import Skips, TypedPlan, TypedRows
from goqueue.pipeline.source.registry import Registered
from goqueue.pipeline.source.typed import Typed
from tests.pipeline.lake.rows import batch_of, message


def plan(schema: Any, kind: str = "JSON") -> TypedPlan:
    return TypedPlan(
        "orders", "/nowhere", Typed("http://nowhere", Registered(1, kind, json.dumps(schema)), {"orders": "latest"})
    )


def test_members_are_columns_beside_where_the_row_is_from() -> None:
    made = plan({"type": "object", "properties": {"id": {"type": "string"}, "price": {"type": "number"}}})
    assert made.columns.names == ["_partition", "_offset", "_timestamp", "_key", "_schemaId", "_date", "id", "price"]
    assert made.columns["price"].dataType.simpleString() == "double"


def test_names_that_tables_cannot_have_are_changed() -> None:
    members = {name: {"type": "string"} for name in ("a b", "a_b", "A_B", "_offset", "x.y")}
    names = plan({"type": "object", "properties": members}).columns.names[6:]
    assert names == ["a_b", "a_b_2", "A_B_3", "_offset_2", "x_y"]


def test_values_that_are_no_objects_are_one_column() -> None:
    made = plan({"type": "integer"})
    assert made.columns.names[6:] == ["value"]
    rows = TypedRows(made).of(with_day_and_text(batch_of([message(0, b"5")])))
    assert rows.column("value").to_pylist() == [5]


def test_avro_of_the_latest_version_is_read() -> None:
    made = plan({"type": "record", "name": "P", "fields": [{"name": "cents", "type": "long"}]}, "AVRO")
    typed = TypedRows(made)
    rows = typed.of(with_day_and_text(batch_of([message(0, b"\x54"), message(1, b"\x54\x54"), message(2, b"")])))
    assert rows.column("cents").to_pylist() == [42]
    assert rows.column("_offset").to_pylist() == [0]
    assert typed.skips.count == 2


def test_skips_keep_a_few_examples() -> None:
    skips = Skips()
    for number in range(10):
        skips.note(f"orders/0@{number}", "x" * 500)
    other = Skips()
    other.add(skips)
    assert other.count == 10
    assert [one[:11] for one in other.examples] == ["orders/0@0:", "orders/0@1:", "orders/0@2:"]
    assert all(len(one) < 250 for one in other.examples)
