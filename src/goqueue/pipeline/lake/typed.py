"""Typed tables: one for each topic whose values have a registered schema, a column for each of their members.

A value that does not fit its schema has no row here. It is counted with an example, and whole in the archive.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.pipeline.lake.schemas import arrow_schema
from goqueue.pipeline.source.typed import Decoder, Typed, type_of

PARTITION_BY: Final = ("_date",)
# Where a row comes from. The underscore keeps these apart from members of values.
ORIGIN: Final = {
    "_partition": ("partition", IntegerType()),
    "_offset": ("offset", LongType()),
    "_timestamp": ("timestamp", TimestampType()),
    "_key": ("key", BinaryType()),
    "_schemaId": ("schemaId", IntegerType()),
    "_date": ("date", DateType()),
}
_BARE: Final = "value"  # the column of values that are no objects
_NO_NAME: Final = re.compile(r"[ ,;{}()\n\t=.`]")  # what Delta and Spark do not take in a column's name
_EXAMPLES_MAX: Final = 3


class Skips(msgspec.Struct):
    """Values that fit no typed row: how many, and where the first ones are."""

    count: int = 0
    examples: list[str] = []

    def note(self, where: str, why: str) -> None:
        self.count += 1
        self.examples = [*self.examples, f"{where}: {why[:200]}"][:_EXAMPLES_MAX]

    def add(self, other: Skips) -> None:
        self.count += other.count
        self.examples = [*self.examples, *other.examples][:_EXAMPLES_MAX]


class TypedPlan(msgspec.Struct, frozen=True):
    """How a topic's messages become rows of its table. Passes between processes."""

    topic: str
    table: str
    typed: Typed

    @property
    def columns(self) -> StructType:
        origin = [StructField(name, kind) for name, (_, kind) in ORIGIN.items()]
        return StructType([*origin, *_members(type_of(self.typed.schema))])

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.columns)


def _members(value: DataType) -> list[StructField]:
    if not isinstance(value, StructType):
        return [StructField(_BARE, value)]
    taken = {name.lower() for name in ORIGIN}
    return [StructField(_free(field.name, taken), field.dataType) for field in value.fields]


def _free(name: str, taken: set[str]) -> str:
    """A name that no other column has, in whatever case."""
    wanted = _NO_NAME.sub("_", name) or "_"
    number = 2
    found = wanted
    while found.lower() in taken:
        found, number = f"{wanted}_{number}", number + 1
    taken.add(found.lower())
    return found


class TypedRows:
    """Makes typed rows of archived ones; one for each task."""

    def __init__(self, plan: TypedPlan) -> None:
        self._schema = plan.schema
        self._decoder = Decoder(plan.typed)
        self.skips = Skips()

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        values, misfits = self._decoder.column(rows.column("value"), rows.column("schemaId"))
        for row, error in misfits.items():
            self.skips.note(_where(rows, row), error)
        members = values.flatten() if pa.types.is_struct(values.type) else [values]
        columns = [*(rows.column(source) for source, _ in ORIGIN.values()), *members]
        named = pa.RecordBatch.from_arrays(columns, names=self._schema.names)
        return named if not misfits else _without(named, misfits.keys())


def _without(rows: pa.RecordBatch, left_out: Container[int]) -> pa.RecordBatch:
    return rows.filter(pa.array([row not in left_out for row in range(rows.num_rows)]))


def _where(rows: pa.RecordBatch, row: int) -> str:
    topic, partition, offset = (rows.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return f"{topic}/{partition}@{offset}"
