"""Compares Avro schemas by Avro's rules of schema resolution: can the reader take what the writer wrote?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from goqueue.base.limits import SCHEMA_COMPARE_STEPS_MAX
from goqueue.core.compat.breaks import GiveUp, Incompatibility, TooHard, distinct, never
from goqueue.core.schemas.avro_schema import PRIMITIVES, AvroDocument, AvroField, AvroType

# writer -> readers that take it
_PROMOTED: Final = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_NAMED: Final = ("record", "enum", "fixed")


def compare(reader: AvroDocument, writer: AvroDocument, give_up: GiveUp = never) -> list[Incompatibility]:
    """Why the reader cannot take all that the writer writes; empty if it can."""
    try:
        return distinct(list(_Comparison(give_up).types(reader.root, writer.root, "")))
    except (TooHard, RecursionError):
        return [Incompatibility("TOO_COMPLEX", "/", "the schemas are too complex to compare; treated as incompatible")]


class _Comparison:
    def __init__(self, give_up: GiveUp) -> None:
        self._give_up = give_up
        self._fields: dict[int, dict[str, AvroField]] = {}
        self._under_way: set[tuple[int, int]] = set()
        self._steps = 0

    def types(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility]:
        self._steps += 1
        if self._steps > SCHEMA_COMPARE_STEPS_MAX or self._give_up():
            raise TooHard
        if writer.kind == "union":
            for number, branch in enumerate(writer.branches):
                yield from self.types(reader, branch, path if reader.kind == "union" else f"{path}/{number}")
        elif reader.kind == "union":
            yield from self._into_union(reader, writer, path)
        elif reader.kind != writer.kind:
            if reader.kind not in _PROMOTED.get(writer.kind, ()):
                yield Incompatibility("TYPE_MISMATCH", path or "/", f"{writer} cannot be read as {reader}")
        elif reader.kind in _NAMED:
            yield from self._named(reader, writer, path)
        elif reader.kind not in PRIMITIVES:
            step = "items" if reader.kind == "array" else "values"
            yield from self.types(reader.element, writer.element, f"{path}/{step}")

    def _into_union(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility]:
        """Some branch must take it; if one has the writer's name, what that one says is the reason."""
        tried: list[list[Incompatibility]] = []
        for number, branch in enumerate(reader.branches):
            if branch.kind == writer.kind and branch.kind in _NAMED and not _same_name(branch, writer):
                continue
            breaks = list(self.types(branch, writer, f"{path}/{number}"))
            if not breaks:
                return
            if branch.kind == writer.kind:
                tried.append(breaks)
        if tried:
            yield from tried[0]
        else:
            yield Incompatibility("MISSING_UNION_BRANCH", path or "/", f"no branch takes {writer}")

    def _named(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility]:
        if not _same_name(reader, writer):
            yield Incompatibility(
                "NAME_MISMATCH", f"{path}/name", f"{writer.name} is not {reader.name}, nor an alias of it"
            )
        elif reader.kind == "fixed":
            if reader.size != writer.size:
                yield Incompatibility(
                    "FIXED_SIZE_MISMATCH", f"{path}/size", f"{writer.size} bytes are not {reader.size}"
                )
        elif reader.kind == "enum":
            known = frozenset(reader.symbols)
            missing = [one for one in writer.symbols if one not in known]
            if missing and reader.default is None:
                yield Incompatibility("MISSING_ENUM_SYMBOLS", f"{path}/symbols", f"unknown: {', '.join(missing[:20])}")
        else:
            yield from self._record(reader, writer, path)

    def _record(self, reader: AvroType, writer: AvroType, path: str) -> Iterator[Incompatibility]:
        pair = (id(reader), id(writer))
        if pair in self._under_way:
            return  # a record within itself
        self._under_way.add(pair)
        for number, field in enumerate(reader.fields):
            at = f"{path}/fields/{number}"
            written = self._written(field, writer)
            if written is not None:
                yield from self.types(field.type, written.type, f"{at}/type")
            elif not field.has_default:
                message = f"{field.name!r} is not written, and has no default"
                yield Incompatibility("READER_FIELD_MISSING_DEFAULT_VALUE", at, message)
        self._under_way.discard(pair)

    def _written(self, field: AvroField, writer: AvroType) -> AvroField | None:
        known = self._fields.get(id(writer))
        if known is None:
            known = self._fields[id(writer)] = {one.name: one for one in writer.fields}
        return next((known[name] for name in (field.name, *field.aliases) if name in known), None)


def _same_name(reader: AvroType, writer: AvroType) -> bool:
    """Unqualified names count, as Avro says; aliases of the reader too."""
    return reader.short_name == writer.short_name or writer.name in reader.aliases
