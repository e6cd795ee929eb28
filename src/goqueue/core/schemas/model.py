"""The words of the registry: what a schema, a reference, a level and a mode are."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final, Literal, get_args

import msgspec

from goqueue.base.limits import NAME_CHARS_MAX, SCHEMA_BYTES_MAX, SCHEMA_REFERENCES_MAX
from goqueue.core.schemas.errors import InvalidCompatibility, InvalidMode, InvalidSchema, InvalidSubject

Kind = Literal["AVRO", "JSON", "PROTOBUF"]
Level = Literal["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
Mode = Literal["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
GLOBAL: Final = ""  # the subject name under which the registry's own level and mode are kept
# A slash, because imports of Protobuf files are subjects too. Subjects never become files.
_SUBJECT: Final = re.compile(rf"[a-zA-Z0-9._/-]{{1,{NAME_CHARS_MAX}}}")


class Reference(msgspec.Struct, frozen=True):
    """Under `name` the schema's text means the schema that a subject holds as a version."""

    name: str
    subject: str
    version: int


class Schema(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schema as it was handed in. Metadata and rules are the clients' business: kept, and given back."""

    kind: Kind
    text: str
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None


class Settings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a subject, or the whole registry, was told about compatibility."""

    compatibility: Level | None = None
    normalize: bool | None = None


def fingerprint(schema: Schema, canonical: str) -> str:
    """The same for schemas that differ in spaces and the order of an object's members only. Full SHA-256."""
    parts = (schema.kind, canonical, schema.references, schema.metadata, schema.rule_set)
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def guid_of(fingerprint: str) -> str:
    """A schema's other name, the same in every registry."""
    text = fingerprint[:32]
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def check_subject(name: str) -> str:
    if not _SUBJECT.fullmatch(name) or name in (".", ".."):
        told = f"{name[:80]!r} is not a subject: 1 to {NAME_CHARS_MAX} letters, digits, '.', '_', '-' and '/'."
        raise InvalidSubject(told, field="subject")
    return name


def check_kind(name: str) -> Kind:
    for kind in KINDS:
        if name == kind:
            return kind
    raise InvalidSchema(f"{name[:80]!r} is no type of schema; known are {', '.join(KINDS)}.", field="schemaType")


def check_level(name: str) -> Level:
    for level in LEVELS:
        if name.upper() == level:
            return level
    told = f"{name[:80]!r} is no compatibility level; known are {', '.join(LEVELS)}."
    raise InvalidCompatibility(told, field="compatibility")


def check_mode(name: str) -> Mode:
    for mode in MODES:
        if name.upper() == mode:
            return mode
    raise InvalidMode(f"{name[:80]!r} is no mode; known are {', '.join(MODES)}.", field="mode")


def check_bounds(schema: Schema) -> None:
    """What can be refused by counting, before anything is parsed."""
    if not schema.text.strip():
        raise InvalidSchema("The schema is empty.", field="schema")
    if len(schema.text) >= SCHEMA_BYTES_MAX or len(schema.text.encode("utf-8", "replace")) >= SCHEMA_BYTES_MAX:
        raise InvalidSchema(
            f"The schema is too large: it must have less than {SCHEMA_BYTES_MAX:,} bytes.", field="schema"
        )
    if len(schema.references) > SCHEMA_REFERENCES_MAX:
        raise InvalidSchema(f"More than {SCHEMA_REFERENCES_MAX} references.", field="references")
