"""JSON values brought into the types of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, LongType, MapType, StringType, StructType

from goqueue.pipeline.source.errors import Misfit

Shape = Callable[[Any], Any]

_LONG_MAX: Final = 1 << 63


def json_shape(type_: DataType) -> Shape:
    """Brings a decoded value into a type: members nobody asked for are dropped, missing ones are null."""
    if isinstance(type_, StructType):
        return _struct({field.name: json_shape(field.dataType) for field in type_})
    if isinstance(type_, ArrayType):
        return _items(json_shape(type_.elementType))
    if isinstance(type_, MapType):
        return _entries(json_shape(type_.valueType))
    return _SHAPES[type(type_)]


def _struct(members: Mapping[str, Shape]) -> Shape:
    def shape(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Misfit(f"{_excerpt(value)} is not an object")
        return {name: one(value.get(name)) for name, one in members.items()}

    return shape


def _items(item: Shape) -> Shape:
    def shape(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise Misfit(f"{_excerpt(value)} is not an array")
        return [item(one) for one in value]

    return shape


def _entries(entry: Shape) -> Shape:
    def shape(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise Misfit(f"{_excerpt(value)} is not an object")
        return [(name, entry(one)) for name, one in value.items()]

    return shape


def _text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    raise Misfit(f"{_excerpt(value)} is not a string")


def _whole_number(value: Any) -> Any:
    if value is None:
        return None
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, int) and not isinstance(number, bool) and -_LONG_MAX <= number < _LONG_MAX:
        return number
    raise Misfit(f"{_excerpt(value)} is not an integer of 64 bits")


def _number(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value if value is None else float(value)
    raise Misfit(f"{_excerpt(value)} is not a number")


def _truth(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    raise Misfit(f"{_excerpt(value)} is not a boolean")


def _excerpt(value: Any) -> str:
    return repr(value)[:60]


_SHAPES: Final[dict[type[DataType], Shape]] = {
    StringType: _text,
    LongType: _whole_number,
    DoubleType: _number,
    BooleanType: _truth,
}
