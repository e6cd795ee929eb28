"""Columns as Spark, Delta and Arrow each say them. In the lake every column may be null."""

from __future__ import annotations

import json

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


def plain(schema: StructType) -> StructType:
    """The columns alone: nothing required, and none of the notes that Spark hangs on them."""
    return StructType([StructField(field.name, _plain(field.dataType)) for field in schema.fields])


def _plain(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return plain(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_plain(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_plain(kind.keyType), _plain(kind.valueType))
    return kind


def delta_schema(schema: StructType) -> DeltaSchema:
    return DeltaSchema.from_json(plain(schema).json())


def arrow_schema(schema: StructType) -> pa.Schema:
    """As data files have them: times in UTC to the microsecond."""
    return pa.schema(delta_schema(schema).to_arrow())


def spark_schema(table: DeltaTable) -> StructType:
    return StructType.fromJson(json.loads(table.schema().to_json()))
