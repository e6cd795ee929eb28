"""Columns made of headers, against the broker's own reading of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.base.priority import HEADER as PRIORITY
from goqueue.base.priority import priority_of
from goqueue.base.trace_context import TRACEPARENT, context_of
from goqueue.core.dead_letter import PREFIX
from goqueue.core.schemas.framing import HEADERS as SCHEMA_HEADERS
from goqueue.format.records import NewRecord, build
from goqueue.pipeline.arrow.columns import METADATA
from goqueue.pipeline.arrow.decode import decode_all
from goqueue.pipeline.arrow.metadata import ATTEMPTS, SCHEMA_ID

TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def told(*records: NewRecord) -> list[dict[str, object]]:
    return list(decode_all(build(records), "t", 0, METADATA).to_pylist())


def with_headers(*headers: tuple[str, bytes | None], value: bytes | None = b"x") -> NewRecord:
    return NewRecord(None, value, headers, 1)


def test_the_names_are_the_brokers() -> None:
    assert ATTEMPTS == PREFIX + "attempts" and SCHEMA_HEADERS["value"] == SCHEMA_ID


def test_a_message_without_headers_is_of_normal_priority_and_tells_nothing_else() -> None:
    assert told(with_headers()) == [{"priority": 2, "traceId": None, "schemaId": None, "attempts": None}]


def test_everything_is_told_of_the_right_message() -> None:
    found = told(
        with_headers(("other", b"1")),
        with_headers((PRIORITY, b"critical"), (TRACEPARENT, TRACE), (SCHEMA_ID, b"7"), (ATTEMPTS, b"5")),
        with_headers(),
        with_headers((PRIORITY, b"4"), ("a", None), ("b", b"")),
    )
    assert [row["priority"] for row in found] == [2, 0, 2, 4]
    assert [row["traceId"] for row in found] == [None, "0af7651916cd43dd8448eb211c80319c", None, None]
    assert [row["schemaId"] for row in found] == [None, 7, None, None]
    assert [row["attempts"] for row in found] == [None, 5, None, None]


names = st.sampled_from([PRIORITY, TRACEPARENT, "x"])
values = st.none() | st.sampled_from([b"0", b"high", b"9", b"", b"\xff", TRACE, TRACE.replace(b"c", b"d"), b"00-bad"])


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(names, values), max_size=4), min_size=1, max_size=12))
def test_repeated_and_unreadable_headers_mean_what_they_mean_to_the_broker(
    lists: list[list[tuple[str, bytes]]],
) -> None:
    records = [with_headers(*headers) for headers in lists]
    found = told(*records)
    assert [row["priority"] for row in found] == [priority_of(record.headers) for record in records]
    contexts = [context_of(record.headers) for record in records]
    assert [row["traceId"] for row in found] == [one and one.trace_id for one in contexts]


@pytest.mark.parametrize(
    ("record", "schema"),
    [
        (with_headers(value=b"\0\0\0\1\2rest"), 258),
        (with_headers(value=b"\0\0\0\1\2"), 258),
        (with_headers(value=b"\0\0\0\1"), None),
        (with_headers(value=b"\1\0\0\1\2rest"), None),
        (with_headers(value=b"\0\xff\xff\xff\xffrest"), None),
        (with_headers(value=None), None),
        (with_headers((SCHEMA_ID, b"9"), value=b"\0\0\0\1\2rest"), 9),
        (with_headers((SCHEMA_ID, b" 9 "), (SCHEMA_ID, b"10")), 9),
        (with_headers((SCHEMA_ID, b"nine")), None),
        (with_headers((SCHEMA_ID, None)), None),
        (with_headers((SCHEMA_ID, b"99999999999999")), None),
        (with_headers(("__value_schema_id", b"\0\0\0\0\5")), 5),
        (with_headers(("__value_schema_id", b"\1" + bytes(16))), None),
    ],
)
def test_the_schema_is_named_by_a_header_or_by_the_first_bytes(record: NewRecord, schema: int | None) -> None:
    assert told(with_headers(), record)[1]["schemaId"] == schema
