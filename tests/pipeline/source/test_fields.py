from __future__ import annotations

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.pipeline.arrow.columns import BASE, HEADERS, METADATA, arrow_schema
from goqueue.pipeline.options import Options
from goqueue.pipeline.source.errors import BadOption
from goqueue.pipeline.source.fields import check_asked, columns_of, schema_of

# As Spark's Kafka source declares it, in KafkaRecordToRowConverter.
KAFKA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def test_the_columns_are_those_of_sparks_kafka_source() -> None:
    assert schema_of(columns_of(Options())) == KAFKA
    with_headers = StructType([*KAFKA, StructField("headers", ArrayType(_HEADER))])
    assert schema_of(columns_of(Options(headers=True))) == with_headers


def test_metadata_comes_behind_them() -> None:
    assert columns_of(Options(headers=True, metadata=True)) == (*BASE, HEADERS, *METADATA)


@pytest.mark.parametrize(
    "columns", [BASE, (*BASE, HEADERS), (*BASE, HEADERS, *METADATA), ("offset", "value"), METADATA]
)
def test_trap_7_what_tasks_hand_over_has_exactly_the_arrow_types_that_spark_expects(columns: tuple[str, ...]) -> None:
    promised = to_arrow_schema(schema_of(columns), timezone="UTC")
    assert promised.equals(arrow_schema(columns))
    assert all(field.nullable for field in promised)
    if "timestamp" in columns:
        assert str(promised.field("timestamp").type) == "timestamp[us, tz=UTC]"


def test_columns_can_be_chosen_in_any_order() -> None:
    assert columns_of(Options(columns=("offset", "traceId", "value"))) == ("offset", "traceId", "value")


@pytest.mark.parametrize(
    ("columns", "hint"), [(("ofset",), "'offset'"), ((), "one at least"), (("key", "key"), "once")]
)
def test_columns_that_are_not_there(columns: tuple[str, ...], hint: str) -> None:
    with pytest.raises(BadOption, match=hint):
        columns_of(Options(columns=columns))


def test_a_schema_of_the_users_own_is_refused() -> None:
    with pytest.raises(BadOption, match=r"Leave schema\(...\) away"):
        check_asked(StructType([StructField("value", StringType())]), KAFKA)
