"""What a table needs to take other rows: columns that it lacks, types that get wider. Anything else is refused."""

from __future__ import annotations

from typing import Final

import msgspec
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from goqueue.pipeline.lake.errors import CannotGrow, SchemaChanged
from goqueue.pipeline.lake.schemas import plain

_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)


class Renamed(CannotGrow):
    """A column went and another came: nobody can know that they are the same."""

    def __init__(self, table: str, gone: list[str], came: list[str]) -> None:
        super().__init__(
            f"{table} has {', '.join(gone)}, which the rows lack, and the rows have {', '.join(came)}, which it lacks. "
            f"A renamed column is not followed: keep the old name too (NULL AS {gone[0]}), or write to another table."
        )


class Growth(msgspec.Struct, frozen=True):
    """`added` are new columns, `widened` columns with their new types."""

    added: StructType
    widened: StructType

    @property
    def is_nothing(self) -> bool:
        return not self.added.fields and not self.widened.fields


def growth(table: str, has: StructType, given: StructType) -> Growth:
    """What of the given columns the table lacks; names differ by more than case.

    `SchemaChanged` where a type cannot become the other without a loss, `Renamed` where columns came and others went.
    A table's type that is wider than the given one stays.
    """
    known = {field.name.lower(): field for field in plain(has).fields}
    asked = plain(given)
    added, widened = StructType(), StructType()
    for field in asked.fields:
        old = known.get(field.name.lower())
        if old is None:
            added.add(field)
        elif _is_wider(field.dataType, old.dataType):
            widened.add(StructField(old.name, field.dataType))
        elif old.dataType != field.dataType and not _is_wider(old.dataType, field.dataType):
            kinds = old.dataType.simpleString(), field.dataType.simpleString()
            raise SchemaChanged(table, field.name, *kinds)
    gone = [field.name for name, field in known.items() if name not in {one.name.lower() for one in asked.fields}]
    if gone and added.fields:
        raise Renamed(table, gone, added.names)
    return Growth(added, widened)


def _is_wider(one: DataType, other: DataType) -> bool:
    """Whether every value of the other type is one of this type."""
    if isinstance(one, _WHOLE) and isinstance(other, _WHOLE):
        return _WHOLE.index(type(one)) > _WHOLE.index(type(other))
    if isinstance(one, DecimalType) and isinstance(other, DecimalType):
        return one.scale == other.scale and one.precision > other.precision
    return isinstance(one, DoubleType) and isinstance(other, FloatType)
