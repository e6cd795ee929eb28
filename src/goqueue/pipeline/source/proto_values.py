"""Protobuf values as typed columns: messages as structs, with the columns that Spark's `from_protobuf` has.

The description of the file comes from the registry. Protobuf's own rules let one version read what another wrote, so
the latest one reads everything.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from decimal import Decimal
from importlib import import_module
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from goqueue.core.schemas.framing import message_indexes
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.pipeline.source.errors import Misfit, Untyped

Convert = Callable[[Any], Any]

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WELL_KNOWN: Final = "google/protobuf/"
# By the kind of a field's value, as Protobuf's Python package names it: `cpp_type`.
_NUMBERS: Final[dict[str, DataType]] = {
    "INT32": IntegerType(),
    "INT64": LongType(),
    "UINT32": LongType(),
    "UINT64": DecimalType(20, 0),
    "DOUBLE": DoubleType(),
    "FLOAT": FloatType(),
    "BOOL": BooleanType(),
    "ENUM": StringType(),
}


def proto_descriptor(text: str, named: Mapping[str, str]) -> Any:
    """The first message of a file; `text` and what it imports are descriptions of files in base64."""
    pb, pool_module = _package("descriptor_pb2"), _package("descriptor_pool")
    pool = pool_module.DescriptorPool()
    files = [*(_file(pb, one, name) for name, one in named.items()), _file(pb, text, None)]
    for one in files:
        for wanted in one.dependency:
            _add_well_known(pool, wanted)
        pool.AddSerializedFile(one.SerializeToString())
    messages = pool.FindFileByName(files[-1].name).message_types_by_name
    if not messages:
        raise Untyped("The registered Protobuf file has no message. Read bytes: leave the option 'schema' away.")
    return next(iter(messages.values()))


def _package(name: str) -> Any:
    try:
        return import_module(f"google.protobuf.{name}")
    except ImportError:
        raise Untyped("Typed columns of Protobuf need a package: pip install 'goqueue[schemas]'.") from None


def _file(pb: Any, text: str, name: str | None) -> Any:
    found = pb.FileDescriptorProto()
    found.ParseFromString(base64.b64decode(text))
    found.name = name or found.name or "registered.proto"
    return found


def _add_well_known(pool: Any, name: str) -> None:
    """What comes with the package itself."""
    if not name.startswith(_WELL_KNOWN):
        return
    module = _package(name.removeprefix(_WELL_KNOWN).removesuffix(".proto").replace("/", ".") + "_pb2")
    for deeper in module.DESCRIPTOR.dependencies:
        _add_well_known(pool, deeper.name)
    pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)


# --- types --------------------------------------------------------------------------------------------------------


def proto_type(message: Any, path: str = "$", inside: tuple[str, ...] = ()) -> DataType:
    """The column's type; `Untyped` for a message that contains itself."""
    if message.full_name == _TIMESTAMP:
        return TimestampType()
    if message.full_name in inside:
        raise Untyped(
            f"{path} contains itself ({message.full_name}), which no column can. "
            "Read bytes: leave the option 'schema' away."
        )
    within = (*inside, message.full_name)
    return StructType([StructField(one.name, _field_type(one, f"{path}.{one.name}", within)) for one in message.fields])


def _field_type(field: Any, path: str, inside: tuple[str, ...]) -> DataType:
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return MapType(_one_type(key, path, inside), _one_type(value, path, inside))
    one = _one_type(field, path, inside)
    return ArrayType(one) if field.is_repeated else one


def _one_type(field: Any, path: str, inside: tuple[str, ...]) -> DataType:
    if field.message_type is not None:
        return proto_type(field.message_type, path, inside)
    if field.cpp_type == field.CPPTYPE_STRING:
        return BinaryType() if field.type == field.TYPE_BYTES else StringType()
    return next(type_ for name, type_ in _NUMBERS.items() if field.cpp_type == getattr(field, f"CPPTYPE_{name}"))


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


# --- values -------------------------------------------------------------------------------------------------------


def proto_reader(message: Any) -> Callable[[bytes, int], Any]:
    """Reads a message from some place on to the end of its bytes."""
    make = _package("message_factory").GetMessageClass(message)
    wrong = _package("message").DecodeError
    convert = _struct(message)

    def value(data: bytes, at: int) -> Any:
        try:
            return convert(make.FromString(data[at:]))
        except wrong as error:
            raise Misfit(f"it is no message of the type {message.full_name} ({error})") from None

    return value


def _struct(message: Any) -> Convert:
    if message.full_name == _TIMESTAMP:
        return lambda told: told.seconds * 1_000_000 + told.nanos // 1_000
    members = [(field.name, field.has_presence, _convert(field)) for field in message.fields]

    def convert(told: Any) -> Any:
        return {
            name: None if may_be_unset and not told.HasField(name) else one(getattr(told, name))
            for name, may_be_unset, one in members
        }

    return convert


def _convert(field: Any) -> Convert:
    if _is_map(field):
        key, value = (_one(field.message_type.fields_by_name[name]) for name in ("key", "value"))
        return lambda told: [(key(name), value(told[name])) for name in told]
    one = _one(field)
    return (lambda told: [one(item) for item in told]) if field.is_repeated else one


def _one(field: Any) -> Convert:
    if field.message_type is not None:
        return _struct(field.message_type)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda told: names.get(told, str(told))
    return Decimal if field.cpp_type == field.CPPTYPE_UINT64 else lambda told: told


def proto_start(data: bytes, at: int) -> int:
    """Where a framed message begins, behind the numbers that say which of the file's messages it is: the first."""
    indexes, at = indexes_of(data, at)
    if any(indexes) or len(indexes) > 1:
        raise Misfit("it is not the first message of the registered file, whose columns these are")
    return at


def indexes_of(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """The way to a message of the file, which stands before framed data, and the place behind it."""
    try:
        return message_indexes(data, at)
    except Mismatch as error:
        raise Misfit(error.reason) from None
