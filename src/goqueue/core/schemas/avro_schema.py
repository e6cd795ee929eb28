"""Avro schemas: parsed by the rules of Avro 1.12, with named types of references known beforehand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from goqueue.base.limits import SCHEMA_ANALYSIS_STEPS_MAX, SCHEMA_EMPTY_VALUES_MAX
from goqueue.core.schemas.avro_text import canonical_avro, normal_avro
from goqueue.core.schemas.errors import InvalidSchema
from goqueue.core.schemas.json_text import canonical_json, load_json

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_NO_DEFAULT: Final = object()
# What the bytes of a type can mean besides, and which type that is.
LOGICAL: Final = {
    "date": "int",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
}
_DIGITS_MAX: Final = 38


class AvroType:
    """One type. `kind` says which of the other members mean something; a record may contain itself."""

    __slots__ = (
        "aliases",
        "branches",
        "default",
        "fields",
        "items",
        "kind",
        "logical",
        "name",
        "precision",
        "scale",
        "size",
        "symbols",
    )

    def __init__(self, kind: str, name: str = "", aliases: Sequence[str] = ()) -> None:
        self.kind = kind
        self.name = name
        self.aliases = tuple(aliases)
        self.fields: tuple[AvroField, ...] = ()
        self.items: AvroType | None = None  # of an array, or the values of a map
        self.branches: tuple[AvroType, ...] = ()
        self.symbols: tuple[str, ...] = ()
        self.size = 0
        self.default: str | None = None  # of an enum
        self.logical = ""
        self.precision = self.scale = 0  # of a decimal

    def mean(self, value: Mapping[str, Any]) -> AvroType:
        """Takes the logical type that its definition names; what makes no sense is ignored, as Avro has it."""
        logical = value.get("logicalType")
        if logical == "decimal" and self.kind in ("bytes", "fixed"):
            digits, scale = value.get("precision", 0), value.get("scale", 0)
            if (
                isinstance(digits, int)
                and isinstance(scale, int)
                and 0 <= scale <= digits
                and 0 < digits <= _DIGITS_MAX
            ):
                self.logical, self.precision, self.scale = logical, digits, scale
        elif isinstance(logical, str) and LOGICAL.get(logical) == self.kind:
            self.logical = logical
        return self

    @property
    def element(self) -> AvroType:
        assert self.items is not None
        return self.items

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        return self.name or self.kind


class AvroField:
    __slots__ = ("aliases", "default", "name", "type")

    def __init__(self, name: str, type_: AvroType, default: Any, aliases: Sequence[str]) -> None:
        self.name = name
        self.type = type_
        self.default = default
        self.aliases = tuple(aliases)

    @property
    def has_default(self) -> bool:
        return self.default is not _NO_DEFAULT


class AvroDocument:
    """A parsed schema."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self._named: dict[str, AvroType] = {}
        self._waiting: list[tuple[str, AvroType, Any]] = []  # defaults, checked when every name is known
        for one in references.values():
            self._parse(_loaded(one), "")
        referred = frozenset(self._named)
        value = _loaded(text)
        self.root = self._parse(value, "")
        self.text = self.canonical = canonical_avro(value, referred)
        self.normal = normal_avro(value, referred)
        _refuse_empty_bombs([*self._named.values(), self.root])
        fitting = _Fitting()
        for path, type_, default in self._waiting:
            if not fitting.fits(type_, default):
                raise _bad(f"the default {canonical_json(default)[:80]} of {path} does not fit its type {type_}")

    def _parse(self, value: Any, space: str) -> AvroType:
        if isinstance(value, str):
            return self._by_name(value, space)
        if isinstance(value, list):
            return self._union(value, space)
        if not isinstance(value, dict) or "type" not in value:
            raise _bad(f"{canonical_json(value)[:80]} is not a type")
        kind = value["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._complex(str(kind), value, space)
        if kind in ("array", "map"):
            made = AvroType(str(kind))
            key = "items" if kind == "array" else "values"
            if key not in value:
                raise _bad(f"{kind} without {key}")
            made.items = self._parse(value[key], space)
            return made
        found = self._parse(kind, space)  # a primitive with attributes, like a logical type
        return found.mean(value) if found.kind in PRIMITIVES else found

    def _by_name(self, name: str, space: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not space else f"{space}.{name}"
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise _bad(f"the type {name[:200]!r} is not known")
        return found

    def _union(self, value: list[Any], space: str) -> AvroType:
        made = AvroType("union")
        made.branches = tuple(self._parse(one, space) for one in value)
        seen: set[str] = set()
        for branch in made.branches:
            if branch.kind == "union":
                raise _bad("a union holds a union")
            if str(branch) in seen:
                raise _bad(f"a union holds {branch} twice")
            seen.add(str(branch))
        return made

    def _complex(self, kind: str, value: dict[str, Any], space: str) -> AvroType:
        name = value.get("name")
        if not isinstance(name, str) or not _FULL_NAME.fullmatch(name):
            raise _bad(f"{str(name)[:80]!r} is not a name of a type")
        if "." not in name:
            space = str(value.get("namespace", space) or "")
            name = f"{space}.{name}" if space else name
        else:
            space = name.rpartition(".")[0]
        if name in self._named or name in PRIMITIVES:
            raise _bad(f"{name!r} is defined twice")
        given = value.get("aliases", [])
        aliases = [one if "." in one or not space else f"{space}.{one}" for one in _texts(given, "aliases")]
        made = self._named[name] = AvroType("record" if kind == "error" else kind, name, aliases)
        if made.kind == "record":
            self._fill_record(made, value, space)
        elif kind == "enum":
            self._fill_enum(made, value)
        else:
            size = value.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise _bad(f"fixed {name!r} needs a size")
            made.size = size
            made.mean(value)
        return made

    def _fill_record(self, made: AvroType, value: dict[str, Any], space: str) -> None:
        listed = value.get("fields")
        if not isinstance(listed, list):
            raise _bad(f"record {made.name!r} has no list of fields")
        fields: dict[str, AvroField] = {}
        for one in listed:
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(name, str) or not _NAME.fullmatch(name) or "type" not in one:
                raise _bad(f"a field of {made.name!r} has no right name or no type")
            if name in fields:
                raise _bad(f"record {made.name!r} has the field {name!r} twice")
            type_ = self._parse(one["type"], space)
            default = one.get("default", _NO_DEFAULT)
            if default is not _NO_DEFAULT:
                self._waiting.append((f"{made.name}.{name}", type_, default))
            fields[name] = AvroField(name, type_, default, _texts(one.get("aliases", []), "aliases"))
        made.fields = tuple(fields.values())

    def _fill_enum(self, made: AvroType, value: dict[str, Any]) -> None:
        symbols = _texts(value.get("symbols"), "symbols")
        if not symbols or len(set(symbols)) != len(symbols) or not all(map(_NAME.fullmatch, symbols)):
            raise _bad(f"enum {made.name!r} needs different names as symbols")
        made.symbols = tuple(symbols)
        made.default = value.get("default")
        if made.default is not None and made.default not in made.symbols:
            raise _bad(f"the default of enum {made.name!r} is none of its symbols")


def _loaded(text: str) -> Any:
    """A bare name is not JSON, and yet a schema: `string` is what some clients send for `"string"`."""
    return text.strip() if text.strip() in PRIMITIVES else load_json(text)


def _texts(value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _bad(f"{what} is not a list of names")
    return value


def _bad(why: str) -> InvalidSchema:
    return InvalidSchema(f"The schema is not right: {why}.", field="schema")


class _Fitting:
    """Whether defaults, as JSON, are values of their types; bounded, as unions within records multiply."""

    def __init__(self) -> None:
        self._steps = 0

    def fits(self, type_: AvroType, value: Any, depth: int = 0) -> bool:
        kind = type_.kind
        self._steps += 1
        if self._steps > SCHEMA_ANALYSIS_STEPS_MAX:
            raise _bad("its defaults take too much work to check")
        if depth > 64:
            return False
        if kind == "union":
            return any(self.fits(branch, value, depth + 1) for branch in type_.branches)
        if kind == "record":
            return isinstance(value, dict) and all(
                self.fits(field.type, value[field.name], depth + 1) if field.name in value else field.has_default
                for field in type_.fields
            )
        if kind == "array":
            return isinstance(value, list) and all(self.fits(type_.element, one, depth + 1) for one in value)
        if kind == "map":
            return isinstance(value, dict) and all(self.fits(type_.element, one, depth + 1) for one in value.values())
        return _fits_scalar(type_, value)


def _refuse_empty_bombs(types: Sequence[AvroType]) -> None:
    """Records of records of nulls take no bytes, however many they are: an empty message could be endless work."""
    known: dict[int, int] = {}
    for type_ in types:
        if _empty_values(type_, known) > SCHEMA_EMPTY_VALUES_MAX:
            raise _bad(f"{type_} holds more than {SCHEMA_EMPTY_VALUES_MAX:,} values that take no bytes")


def _empty_values(type_: AvroType, known: dict[int, int]) -> int:
    """How many values a value of the type holds, itself included, if it takes no bytes; 0 if it takes some."""
    if type_.kind == "null" or (type_.kind == "fixed" and type_.size == 0):
        return 1
    if type_.kind != "record":
        return 0
    if id(type_) not in known:
        known[id(type_)] = 0  # a record within itself has no value at all
        inner = [_empty_values(field.type, known) for field in type_.fields]
        known[id(type_)] = 1 + sum(inner) if all(inner) else 0
    return known[id(type_)]


def _fits_scalar(type_: AvroType, value: Any) -> bool:
    kind = type_.kind
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits
    if kind in ("float", "double"):
        return (isinstance(value, int | float) and not isinstance(value, bool)) or value in ("NaN", "INF", "-INF")
    if kind == "enum":
        return value in type_.symbols
    return isinstance(value, str) and (kind != "fixed" or len(value) == type_.size)
