"""The columns a read has: those of Spark's Kafka source, more on request, or a choice of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.pipeline.arrow.columns import BASE, HEADERS, METADATA
from goqueue.pipeline.options import Options
from goqueue.pipeline.source.errors import BadOption, unknown

CORRUPT: Final = "_corrupt_record"  # the bytes of a value that has no typed columns, in permissive mode
_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(_HEADER),
    "priority": IntegerType(),
    "traceId": StringType(),
    "schemaId": IntegerType(),
    "attempts": IntegerType(),
}


def columns_of(options: Options) -> tuple[str, ...]:
    """The names of a read's columns, in order."""
    if options.columns is None:
        return (*BASE, *((HEADERS,) if options.headers else ()), *(METADATA if options.metadata else ()))
    return _checked(options.columns)


def _checked(columns: Sequence[str]) -> tuple[str, ...]:
    for name in columns:
        if name not in _TYPES:
            raise unknown("column", name, _TYPES)
    if not columns or len(set(columns)) < len(columns):
        raise BadOption("The option 'columns' names each column once, and one at least: like 'key,value,offset'.")
    return tuple(columns)


def schema_of(columns: Sequence[str], value: DataType | None = None, keeps_corrupt: bool = False) -> StructType:
    """What Spark is told; `value` is the type of typed values."""
    types = _TYPES if value is None else {**_TYPES, "value": value}
    corrupt = [StructField(CORRUPT, BinaryType())] if value is not None and keeps_corrupt else []
    return StructType([*(StructField(name, types[name]) for name in columns), *corrupt])


def check_asked(asked: StructType, given: StructType) -> None:
    """`BadOption` if a user's own schema is not the one that is read."""
    if asked != given:
        raise BadOption(
            f"A read has the columns {given.simpleString()}, not {asked.simpleString()}. Leave schema(...) away, "
            "choose with the option 'columns', and cast afterwards."
        )
