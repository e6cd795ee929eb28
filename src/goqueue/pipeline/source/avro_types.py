"""The typed columns of what Avro schemas describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from goqueue.core.schemas.avro_schema import AvroDocument, AvroType
from goqueue.core.schemas.errors import InvalidSchema
from goqueue.pipeline.source.errors import Untyped

_PRIMITIVES: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: Final[dict[str, DataType]] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
}
_SAY: Final = "Read bytes: leave the option 'schema' away."


def parse_avro(text: str, named: Mapping[str, str]) -> AvroType:
    """The schema's type; `named` are the texts of other subjects' types, the deepest first."""
    try:
        return AvroDocument(text, {one: one for one in named.values()}).root
    except InvalidSchema as error:
        raise Untyped(f"{error.message} {_SAY}") from None


# --- columns ------------------------------------------------------------------------------------------------------


def avro_type(node: AvroType, path: str = "$", inside: tuple[str, ...] = ()) -> DataType:
    """The column's type; `Untyped` says where there is none."""
    if node.kind == "record":
        return _struct(node, path, inside)
    if node.kind == "array":
        return ArrayType(avro_type(node.element, f"{path}[]", inside))
    if node.kind == "map":
        return MapType(StringType(), avro_type(node.element, f"{path}{{}}", inside))
    if node.kind == "union":
        return avro_type(only_branch(node, path), path, inside)
    if node.kind == "null":
        raise Untyped(f"{path} is always null, which no column is. {_SAY}")
    if node.logical == "decimal":
        return DecimalType(node.precision, node.scale)
    return _LOGICAL[node.logical] if node.logical else _PRIMITIVES[node.kind]


def _struct(node: AvroType, path: str, inside: tuple[str, ...]) -> DataType:
    if node.name in inside:
        raise Untyped(f"{path} contains itself ({node.name}), which no column can. {_SAY}")
    within = (*inside, node.name)
    return StructType([StructField(one.name, avro_type(one.type, f"{path}.{one.name}", within)) for one in node.fields])


def only_branch(union: AvroType, path: str = "$") -> AvroType:
    """What a union is when it is not null; `Untyped` if it may be several things."""
    real = [one for one in union.branches if one.kind != "null"]
    if len(real) != 1:
        kinds = " or ".join(one.name or one.kind for one in real) or "nothing"
        raise Untyped(f"{path} may be {kinds}, which no column is. {_SAY}")
    return real[0]
