"""Avro data read into the types of columns: written with one version of a schema, read as another.

Avro's rules of resolution hold: members by name or alias, defaults for what was not written, wider numbers for narrow
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from struct import Struct
from typing import Any, Final

from goqueue.core.schemas.avro_cursor import AvroCursor, BadAvro
from goqueue.core.schemas.avro_schema import AvroField, AvroType
from goqueue.pipeline.source.avro_types import only_branch
from goqueue.pipeline.source.errors import Misfit, Untyped

Read = Callable[[AvroCursor], Any]

_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")
_DEPTH_MAX: Final = 128
_ITEMS_MAX: Final = 1_000_000  # of one array; items may take no bytes
_WIDER: Final = frozenset(
    {("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double")}
)
_THOUSANDTHS: Final = frozenset({"timestamp-millis", "local-timestamp-millis"})


def avro_reader(writer: AvroType, reader: AvroType) -> Callable[[bytes, int], Any]:
    """Reads a value from some place on to the end of its bytes. `Untyped` if the one cannot be read as the other."""
    read = _read(writer, reader)

    def value(data: bytes, at: int) -> Any:
        cursor = AvroCursor(data, at)
        try:
            found = read(cursor)
        except BadAvro as error:
            raise Misfit(str(error)) from None
        if cursor.at != len(data):
            raise Misfit(f"{len(data) - cursor.at} bytes follow the value")
        return found

    return value


def _read(writer: AvroType, reader: AvroType) -> Read:
    if writer.kind == "union":
        return _read_union([_read_branch(one, reader) for one in writer.branches])
    if reader.kind == "union":
        return _read(writer, only_branch(reader)) if writer.kind != "null" else _read_nothing
    if reader.kind != writer.kind and (writer.kind, reader.kind) not in _WIDER | {
        ("string", "bytes"),
        ("bytes", "string"),
    }:
        raise Untyped(f"Data written as {writer.kind} cannot be read as {reader.kind}.")
    if writer.kind == "record":
        return _read_record(writer, reader)
    if writer.kind in ("array", "map"):
        return _read_blocks(writer, reader)
    return _read_simple(writer, reader)


def _read_branch(writer: AvroType, reader: AvroType) -> Read:
    """A branch nobody can read is an error only for the data that has it."""
    try:
        return _read_nothing if writer.kind == "null" and reader.kind == "union" else _read(writer, reader)
    except Untyped as error:
        told = str(error)

    def refuse(cursor: AvroCursor) -> Any:
        raise Misfit(told)

    return refuse


def _read_nothing(cursor: AvroCursor) -> Any:
    return None


def _read_union(branches: list[Read]) -> Read:
    return lambda cursor: branches[cursor.choice(len(branches), "branch")](cursor)


def _read_record(writer: AvroType, reader: AvroType) -> Read:
    wanted = {name: field for field in reader.fields for name in (*field.aliases, field.name)}
    steps: list[tuple[str | None, Read]] = [_step(one, wanted.get(one.name)) for one in writer.fields]
    written = {name for name, _ in steps}
    missing = {one.name: _default(one) for one in reader.fields if one.name not in written}

    def read(cursor: AvroCursor) -> Any:
        found = dict(missing)
        for name, step in steps:
            value = step(cursor)
            if name is not None:
                found[name] = value
        return found

    return read


def _step(written: AvroField, wanted: AvroField | None) -> tuple[str | None, Read]:
    if wanted is None:
        return None, lambda cursor: _skip(cursor, written.type, 0)
    return wanted.name, _read(written.type, wanted.type)


def _default(field: AvroField) -> Any:
    """What was not written. Columns can be null, so a default that is no simple value becomes that."""
    value = field.default if field.has_default else None
    return value if isinstance(value, str | bool | int | float) and not _is_converted(field.type) else None


def _is_converted(type_: AvroType) -> bool:
    """Whether a default's text is not the column's value, as with bytes and times."""
    kinds = [type_, *type_.branches]
    return any(one.kind in ("bytes", "fixed") or one.logical for one in kinds)


def _read_blocks(writer: AvroType, reader: AvroType) -> Read:
    item = _read(writer.element, reader.element)
    if writer.kind == "array":
        return lambda cursor: _blocks(cursor, item)
    return lambda cursor: _blocks(cursor, lambda one: (one.text(), item(one)))


def _blocks(cursor: AvroCursor, item: Read) -> list[Any]:
    found: list[Any] = []
    while count := cursor.number():
        if count < 0:
            count = -count
            cursor.number()  # the block's size, for those who skip it
        if len(found) + count > _ITEMS_MAX:
            raise Misfit(f"an array has more than {_ITEMS_MAX} items")
        found += [item(cursor) for _ in range(count)]
    return found


# --- simple values ------------------------------------------------------------------------------------------------


def _read_simple(writer: AvroType, reader: AvroType) -> Read:
    read = _read_enum(writer, reader) if writer.kind == "enum" else _plain(writer)
    if reader.kind in ("float", "double"):
        return lambda cursor: float(read(cursor))
    if {writer.kind, reader.kind} == {"string", "bytes"}:
        return AvroCursor.octets if reader.kind == "bytes" else AvroCursor.text
    if reader.logical == "decimal":
        return lambda cursor: _decimal(read(cursor), reader)
    if reader.logical in _THOUSANDTHS:
        return lambda cursor: read(cursor) * 1000
    return read


def _plain(writer: AvroType) -> Read:
    if writer.kind == "fixed":
        return lambda cursor: cursor.take(writer.size)
    return _SIMPLE[writer.kind]


def _read_enum(writer: AvroType, reader: AvroType) -> Read:
    known = set(reader.symbols)
    symbols = [one if one in known else reader.default for one in writer.symbols]

    def read(cursor: AvroCursor) -> Any:
        symbol = symbols[cursor.choice(len(symbols), "symbol")]
        if symbol is None:
            raise Misfit(f"a symbol is not among {', '.join(reader.symbols)}")
        return symbol

    return read


def _decimal(data: bytes, reader: AvroType) -> Decimal:
    number = int.from_bytes(data, "big", signed=True)
    if abs(number) >= 10**reader.precision:
        raise Misfit(f"a decimal has more than {reader.precision} digits")
    return Decimal(number).scaleb(-reader.scale)


_SIMPLE: Final[Mapping[str, Read]] = {
    "null": _read_nothing,
    "boolean": AvroCursor.truth,
    "int": lambda cursor: cursor.number(32),
    "long": AvroCursor.number,
    "float": lambda cursor: _FLOAT.unpack(cursor.take(4))[0],
    "double": lambda cursor: _DOUBLE.unpack(cursor.take(8))[0],
    "bytes": AvroCursor.octets,
    "string": AvroCursor.text,
}


def _skip(cursor: AvroCursor, type_: AvroType, depth: int) -> None:
    """Past a value that nobody asked for."""
    if depth > _DEPTH_MAX:
        raise Misfit("the data is nested too deep")
    if type_.kind == "record":
        for field in type_.fields:
            _skip(cursor, field.type, depth + 1)
    elif type_.kind == "union":
        _skip(cursor, type_.branches[cursor.choice(len(type_.branches), "branch")], depth + 1)
    elif type_.kind in ("array", "map"):
        _skip_blocks(cursor, type_, depth)
    elif type_.kind == "enum":
        cursor.choice(len(type_.symbols), "symbol")
    else:
        _plain(type_)(cursor)


def _skip_blocks(cursor: AvroCursor, type_: AvroType, depth: int) -> None:
    def item(one: AvroCursor) -> None:
        if type_.kind == "map":
            one.text()
        _skip(one, type_.element, depth + 1)

    _blocks(cursor, item)
