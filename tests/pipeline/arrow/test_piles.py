"""Rows that are held back come out as they went in."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.format.records import NewRecord, decode
from goqueue.pipeline.arrow.encode import BatchProducer, encode
from goqueue.pipeline.arrow.piles import PartitionRows
from goqueue.pipeline.arrow.rows import rows_of
from tests.pipeline.arrow.some_records import record_lists, rows_to_write

Message = tuple[bytes | None, bytes | None, object, int]


def messages(pile: PartitionRows) -> list[Message]:
    (one,) = encode(pile.take(), BatchProducer(1, 0), 0, 0, 1 << 30)
    return [(one.key, one.value, one.headers, one.timestamp_ms) for one in decode(one.batch)]


@settings(deadline=None, max_examples=40)
@given(st.lists(record_lists, min_size=1, max_size=4), st.sets(st.sampled_from(["key", "headers"])))
def test_a_pile_keeps_everything_in_order(parts: list[list[NewRecord]], absent: set[str]) -> None:
    """Columns that some parts do not have are null in those."""
    pile = PartitionRows()
    expected: list[Message] = []
    for number, records in enumerate(parts):
        rows = rows_to_write(records)
        gone = absent if number % 2 else set()
        pile.add(rows_of(rows.select([name for name in rows.schema.names if name not in gone]), 0))
        expected += [
            (
                None if "key" in gone else one.key,
                one.value,
                () if "headers" in gone else one.headers,
                one.timestamp_ms,
            )
            for one in records
        ]
    assert pile.size > 0
    assert messages(pile) == expected
    assert pile.size == 0


def test_a_pile_of_bare_values_stays_bare() -> None:
    pile = PartitionRows()
    for value in ("a", "b"):
        pile.add(rows_of(pa.record_batch({"value": [value]}), 5))
    taken = pile.take()
    assert taken.keys is None and taken.headers is None and taken.values.to_pylist() == [b"a", b"b"]
