"""Which rows can be messages."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.pipeline.sink.columns import PASSED_OVER, WRITTEN, BadColumns, columns_to_write

STRING, BINARY, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()
HEADERS = ArrayType(StructType([StructField("key", STRING), StructField("value", BINARY)]))


def _schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_the_columns_of_sparks_kafka_sink_are_written() -> None:
    schema = _schema(key=STRING, value=BINARY, topic=STRING, partition=INT, headers=HEADERS)
    assert columns_to_write(schema, None) == ("key", "value", "topic", "partition", "headers")


def test_a_topic_for_all_rows_wins_over_their_own() -> None:
    assert columns_to_write(_schema(value=STRING, topic=STRING), "orders") == ("value",)


def test_what_a_read_has_besides_is_passed_over_so_that_a_copy_needs_no_select() -> None:
    read = _schema(
        key=BINARY,
        value=BINARY,
        topic=STRING,
        partition=INT,
        offset=LONG,
        timestamp=TimestampType(),
        timestampType=INT,
    )
    assert columns_to_write(read, "copy") == ("key", "value", "partition")


def test_an_unknown_column_is_an_error_that_names_those_allowed() -> None:
    with pytest.raises(BadColumns) as told:
        columns_to_write(_schema(value=STRING, customer=STRING), "orders")
    assert "'customer'" in str(told.value)
    assert all(name in str(told.value) for name in (*WRITTEN, *PASSED_OVER, "to_json"))


def test_rows_without_a_value_are_refused() -> None:
    with pytest.raises(BadColumns, match="no column 'value'"):
        columns_to_write(_schema(key=STRING), "orders")


def test_rows_that_nobody_told_where_to_go_are_refused() -> None:
    with pytest.raises(BadColumns, match="option 'topic'"):
        columns_to_write(_schema(value=STRING), None)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"value": INT}, "'value' is int, but has to be string or binary"),
        ({"value": STRING, "key": LONG}, "'key' is bigint"),
        ({"value": STRING, "partition": LONG}, "'partition' is bigint, but has to be int"),
        (
            {"value": STRING, "headers": MapType(STRING, BINARY)},
            "'headers' is map<string,binary>, but has to be array<struct",
        ),
    ],
)
def test_a_wrong_type_is_named_with_the_right_ones(columns: dict[str, DataType], told: str) -> None:
    with pytest.raises(BadColumns, match=told):
        columns_to_write(_schema(**columns), "orders")
