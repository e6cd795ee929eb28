"""Avro data by our walker, judged by fastavro: what it writes fits, what is cut or lengthened does not."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.core.schemas.avro_data import AvroChecker
from goqueue.core.schemas.avro_schema import AvroDocument
from goqueue.core.schemas.mismatch import Mismatch

TEXT: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "prices", "type": {"type": "array", "items": "double"}},
        {"name": "tags", "type": {"type": "map", "values": "boolean"}},
        {"name": "raw", "type": "bytes"},
        {"name": "small", "type": "int"},
        {"name": "ratio", "type": "float"},
        {"name": "parts", "type": {"type": "array", "items": "Order"}},
    ],
}
CHECKER = AvroChecker(AvroDocument(json.dumps(TEXT), {}))
PARSED = fastavro.parse_schema(TEXT)


def orders(depth: int = 2) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "id": st.integers(-(2**63), 2**63 - 1),
            "note": st.none() | st.text(max_size=10),
            "kind": st.sampled_from(["A", "B"]),
            "hash": st.binary(min_size=4, max_size=4),
            "prices": st.lists(st.floats(allow_nan=False), max_size=3),
            "tags": st.dictionaries(st.text(max_size=4), st.booleans(), max_size=3),
            "raw": st.binary(max_size=10),
            "small": st.integers(-(2**31), 2**31 - 1),
            "ratio": st.floats(width=32, allow_nan=False),
            "parts": st.lists(orders(depth - 1), max_size=2) if depth else st.just([]),
        }
    )


@settings(max_examples=150, deadline=None)
@given(orders(), st.data())
def test_whole_data_fits_and_no_other_length_does(order: dict[str, Any], data: st.DataObject) -> None:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, PARSED, order)
    whole = written.getvalue()
    CHECKER.check(whole)
    for other in (whole + b"\0", whole[: data.draw(st.integers(0, len(whole) - 1))]):
        with pytest.raises(Mismatch):
            CHECKER.check(other)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_junk_is_a_mismatch_or_what_fastavro_reads(junk: bytes) -> None:
    try:
        CHECKER.check(junk)
    except Mismatch:
        return
    read = io.BytesIO(junk)
    fastavro.schemaless_reader(read, PARSED, None)
    assert read.tell() == len(junk)


def test_the_path_leads_to_the_place() -> None:
    text = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": {"type": "array", "items": ["null", "int"]}}],
    }
    with pytest.raises(Mismatch, match="no branch 3") as why:
        AvroChecker(AvroDocument(json.dumps(text), {})).check(b"\x04\x00\x06\x00")
    assert why.value.path == "$.a[1]"


def test_types_of_references_are_known_by_name() -> None:
    inner = '{"type":"record","name":"shop.Item","fields":[{"name":"n","type":"int"}]}'
    document = AvroDocument('{"type":"array","items":"shop.Item"}', {"whatever": inner})
    AvroChecker(document).check(b"\x02\x02\x00")
    assert document.canonical == '{"type":"array","items":"shop.Item"}'


@pytest.mark.parametrize("text", ["string", '"string"', '{"type":"string"}', ' "string" '])
def test_bare_names_are_schemas(text: str) -> None:
    AvroChecker(AvroDocument(text, {})).check(b"\x02a")
