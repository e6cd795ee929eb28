"""Avro data read into the types of columns: written with one version of a schema, read as another.

Avro's rules of resolution hold: members by name or alias, defaults for what was not written, wider numbers for narrow
ones. Every count is held against the bytes that are left, so data cannot claim more than it brings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from struct import Struct
from typing import Any, Final

from goqueue.pipeline.source.avro_types import AvroNode, Field, only_branch
from goqueue.pipeline.source.errors import Misfit, Untyped

Read = Callable[["Cursor"], Any]

_FLOAT: Final = Struct("<f")
_DOUBLE: Final = Struct("<d")
_DEPTH_MAX: Final = 128
_ITEMS_MAX: Final = 1_000_000  # of one array; items may take no bytes
_WIDER: Final = frozenset(
    {("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double")}
)
_THOUSANDTHS: Final = frozenset({"timestamp-millis", "local-timestamp-millis"})


class Cursor:
    """A place in the data."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self.data):
            raise Misfit(f"{size} bytes are announced, {len(self.data) - start} are there")
        return self.data[start : self.at]

    def number(self) -> int:
        """A zigzag varint of at most 64 bits."""
        result = shift = 0
        while shift < 70:
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1)
            shift += 7
        raise Misfit("a number has more than ten bytes")

    def choice(self, count: int) -> int:
        number = self.number()
        if not 0 <= number < count:
            raise Misfit(f"choice {number} of {count} does not exist")
        return number


def avro_reader(writer: AvroNode, reader: AvroNode) -> Callable[[bytes, int], Any]:
    """Reads a value from some place on to the end of its bytes. `Untyped` if the one cannot be read as the other."""
    read = _read(writer, reader)

    def value(data: bytes, at: int) -> Any:
        cursor = Cursor(data, at)
        found = read(cursor)
        if cursor.at != len(data):
            raise Misfit(f"{len(data) - cursor.at} bytes follow the value")
        return found

    return value


def _read(writer: AvroNode, reader: AvroNode) -> Read:
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


def _read_branch(writer: AvroNode, reader: AvroNode) -> Read:
    """A branch nobody can read is an error only for the data that has it."""
    try:
        return _read_nothing if writer.kind == "null" and reader.kind == "union" else _read(writer, reader)
    except Untyped as error:
        told = str(error)

    def refuse(cursor: Cursor) -> Any:
        raise Misfit(told)

    return refuse


def _read_nothing(cursor: Cursor) -> Any:
    return None


def _read_union(branches: list[Read]) -> Read:
    return lambda cursor: branches[cursor.choice(len(branches))](cursor)


def _read_record(writer: AvroNode, reader: AvroNode) -> Read:
    wanted = {name: field for field in reader.fields for name in (*field.aliases, field.name)}
    steps: list[tuple[str | None, Read]] = [_step(one, wanted.get(one.name)) for one in writer.fields]
    written = {name for name, _ in steps}
    missing = {one.name: _default(one) for one in reader.fields if one.name not in written}

    def read(cursor: Cursor) -> Any:
        found = dict(missing)
        for name, step in steps:
            value = step(cursor)
            if name is not None:
                found[name] = value
        return found

    return read


def _step(written: Field, wanted: Field | None) -> tuple[str | None, Read]:
    if wanted is None:
        return None, lambda cursor: _skip(cursor, written.type, 0)
    return wanted.name, _read(written.type, wanted.type)


def _default(field: Field) -> Any:
    """What was not written. Columns can be null, so a default that is no simple value becomes that."""
    value = field.default[0] if field.default else None
    return value if isinstance(value, str | bool | int | float) and not _is_converted(field.type) else None


def _is_converted(type_: AvroNode) -> bool:
    """Whether a default's text is not the column's value, as with bytes and times."""
    kinds = [type_, *type_.branches]
    return any(one.kind in ("bytes", "fixed") or one.logical for one in kinds)


def _read_blocks(writer: AvroNode, reader: AvroNode) -> Read:
    assert writer.element is not None
    assert reader.element is not None
    item = _read(writer.element, reader.element)
    if writer.kind == "array":
        return lambda cursor: _blocks(cursor, item)
    return lambda cursor: _blocks(cursor, lambda one: (_text(one), item(one)))


def _blocks(cursor: Cursor, item: Read) -> list[Any]:
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


def _read_simple(writer: AvroNode, reader: AvroNode) -> Read:
    read = _read_enum(writer, reader) if writer.kind == "enum" else _plain(writer)
    if reader.kind in ("float", "double"):
        return lambda cursor: float(read(cursor))
    if {writer.kind, reader.kind} == {"string", "bytes"}:
        return _as_bytes if reader.kind == "bytes" else _text
    if reader.logical == "decimal":
        return lambda cursor: _decimal(read(cursor), reader)
    if reader.logical in _THOUSANDTHS:
        return lambda cursor: read(cursor) * 1000
    return read


def _plain(writer: AvroNode) -> Read:
    if writer.kind == "fixed":
        return lambda cursor: cursor.take(writer.size)
    return _SIMPLE[writer.kind]


def _read_enum(writer: AvroNode, reader: AvroNode) -> Read:
    known = set(reader.symbols)
    symbols = [one if one in known else reader.default for one in writer.symbols]

    def read(cursor: Cursor) -> Any:
        symbol = symbols[cursor.choice(len(symbols))]
        if symbol is None:
            raise Misfit(f"a symbol is not among {', '.join(reader.symbols)}")
        return symbol

    return read


def _decimal(data: bytes, reader: AvroNode) -> Decimal:
    number = int.from_bytes(data, "big", signed=True)
    if abs(number) >= 10**reader.precision:
        raise Misfit(f"a decimal has more than {reader.precision} digits")
    return Decimal(number).scaleb(-reader.scale)


def _int(cursor: Cursor) -> int:
    number = cursor.number()
    if not -(1 << 31) <= number < 1 << 31:
        raise Misfit(f"{number} is no integer of 32 bits")
    return number


def _long(cursor: Cursor) -> int:
    number = cursor.number()
    if not -(1 << 63) <= number < 1 << 63:
        raise Misfit(f"{number} is no integer of 64 bits")
    return number


def _truth(cursor: Cursor) -> bool:
    byte = cursor.take(1)[0]
    if byte > 1:
        raise Misfit("a boolean is neither 0 nor 1")
    return byte == 1


def _as_bytes(cursor: Cursor) -> bytes:
    return cursor.take(cursor.number())


def _text(cursor: Cursor) -> str:
    try:
        return cursor.take(cursor.number()).decode()
    except UnicodeDecodeError:
        raise Misfit("a text is not UTF-8") from None


_SIMPLE: Final[Mapping[str, Read]] = {
    "null": _read_nothing,
    "boolean": _truth,
    "int": _int,
    "long": _long,
    "float": lambda cursor: _FLOAT.unpack(cursor.take(4))[0],
    "double": lambda cursor: _DOUBLE.unpack(cursor.take(8))[0],
    "bytes": _as_bytes,
    "string": _text,
}


def _skip(cursor: Cursor, type_: AvroNode, depth: int) -> None:
    """Past a value that nobody asked for."""
    if depth > _DEPTH_MAX:
        raise Misfit("the data is nested too deep")
    if type_.kind == "record":
        for field in type_.fields:
            _skip(cursor, field.type, depth + 1)
    elif type_.kind == "union":
        _skip(cursor, type_.branches[cursor.choice(len(type_.branches))], depth + 1)
    elif type_.kind in ("array", "map"):
        _skip_blocks(cursor, type_, depth)
    elif type_.kind == "enum":
        cursor.choice(len(type_.symbols))
    else:
        _plain(type_)(cursor)


def _skip_blocks(cursor: Cursor, type_: AvroNode, depth: int) -> None:
    def item(one: Cursor) -> None:
        if type_.kind == "map":
            _text(one)
        assert type_.element is not None
        _skip(one, type_.element, depth + 1)

    _blocks(cursor, item)
