"""Columns of variable-length numbers, against one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.base.errors import CorruptBatch
from goqueue.pipeline.arrow import varints
from tests.format import by_hand

numbers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70) | st.integers(-9000, 9000), max_size=40)


@given(numbers, st.binary(max_size=12))
def test_what_one_by_one_wrote_is_read_as_a_column(values: list[int], junk: bytes) -> None:
    parts = [by_hand.varint(value) for value in values]
    ends = np.cumsum([len(junk), *map(len, parts)])
    data = np.frombuffer(junk + b"".join(parts), np.uint8)
    found = varints.read(data, ends[:-1].astype(np.int64))
    assert found.values.tolist() == values
    assert found.ends.tolist() == ends[1:].tolist()


@given(numbers)
def test_a_column_is_written_as_one_by_one(values: list[int]) -> None:
    column = varints.write(np.array(values, np.int64))
    assert column.sizes.tolist() == [len(by_hand.varint(value)) for value in values]
    assert varints.side_by_side([column]).tobytes() == b"".join(map(by_hand.varint, values))


@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1) | st.integers(-99, 99)] * 3), max_size=20))
def test_columns_are_written_row_by_row(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, np.int64).reshape(-1, 3)
    written = varints.side_by_side([varints.write(table[:, place]) for place in range(3)])
    assert written.tobytes() == b"".join(by_hand.varint(value) for row in rows for value in row)


@pytest.mark.parametrize("data", [b"\x80", b"\x80" * 8, b"\xff" * 11, b"\x01" * 7])
def test_places_at_and_behind_the_end_are_zeros_or_an_error(data: bytes) -> None:
    for at in range(len(data) + 30):
        try:
            found = varints.read(np.frombuffer(data, np.uint8), np.array([at], np.int64))
        except CorruptBatch:
            assert at < len(data)
        else:
            assert found.ends[0] > at


@given(st.binary(max_size=40), st.integers(0, 50))
def test_junk_is_a_number_or_an_error(data: bytes, at: int) -> None:
    try:
        value, end = varints.read_one(data, at)
    except CorruptBatch:
        return
    assert at < end <= len(data) and -(2**63) <= value < 2**63
