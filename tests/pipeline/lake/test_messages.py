"""The archive's own columns: the day, and the text."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from goqueue.pipeline.lake import messages
from goqueue.pipeline.lake.messages import days, texts, with_day_and_text
from goqueue.pipeline.lake.schemas import arrow_schema
from tests.pipeline.lake.rows import batch_of, message

MOMENT = pa.timestamp("us", "UTC")


def test_the_day_is_utc_and_none_beyond_the_calendar() -> None:
    late, early = 1_763_251_199_999_999, 1_763_251_200_000_000
    found = days(pa.array([late, early, None, 253_402_300_800_000_000, -62_135_596_800_000_001], MOMENT))
    assert found.to_pylist() == [dt.date(2025, 11, 15), dt.date(2025, 11, 16), None, None, None]


def test_text_is_what_is_utf8() -> None:
    assert texts(pa.array([b"abc", "ä".encode(), None, b""])).to_pylist() == ["abc", "ä", None, ""]
    assert texts(pa.array([b"abc", b"\xff", None])).to_pylist() == ["abc", None, None]


def test_json_behind_a_schemas_id_is_text_and_other_data_is_not() -> None:
    framed = [b'\0\0\0\0\x07{"a": 1}', b"\0\0\0\0\x07[1]", b"\0\0\0\0\x07\x06abc", b"\0", b"plain"]
    assert texts(pa.array(framed)).to_pylist() == ['{"a": 1}', "[1]", None, None, "plain"]


def test_a_row_of_the_connector_becomes_one_of_the_archive() -> None:
    found = with_day_and_text(batch_of([message(0, b"x"), message(1, None)]))
    assert found.schema.names == messages.SCHEMA.names == arrow_schema(messages.SCHEMA).names
    assert found.column("date").to_pylist() == [dt.date(2026, 11, 15)] * 2
    assert found.column("text").to_pylist() == ["x", None]
