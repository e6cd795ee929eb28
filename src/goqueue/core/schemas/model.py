"""The words of the registry: what a schema, a reference, a level and a mode are."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final, Literal, get_args

import msgspec

from goqueue.base.limits import SCHEMA_BYTES_MAX, SCHEMA_REFERENCES_MAX, SUBJECT_CHARS_MAX
from goqueue.base.tenants import full_name, split_tenant
from goqueue.core.schemas.errors import (
    InvalidCompatibility,
    InvalidMode,
    InvalidSchema,
    InvalidSubject,
    SchemaTooLarge,
)

Kind = Literal["AVRO", "JSON", "PROTOBUF"]
Level = Literal["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
Mode = Literal["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
GLOBAL: Final = ""  # the subject name under which the registry's own level and mode are kept
LATEST: Final = -1  # the version that means the newest one
# Any printable character, as in Confluent's registry: subjects never become files. A name that begins with `:.` is in a
# context, and there is one context only.
_SUBJECT: Final = re.compile(rf"(?!:\.)[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{{1,{SUBJECT_CHARS_MAX}}}")
_RESERVED: Final = ("__GLOBAL", "__EMPTY")


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


class CompatibilitySettings(msgspec.Struct, frozen=True, omit_defaults=True):
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
    _, own = split_tenant(name)
    if not _SUBJECT.fullmatch(own) or own in _RESERVED:
        raise InvalidSubject(f"The specified subject '{name[:80]}' is not a valid.", field="subject")
    return name


def is_default(subject: str) -> bool:
    """Whether settings of this subject are those of the registry, or of all subjects of a tenant."""
    return subject == GLOBAL or not split_tenant(subject)[1]


def scopes_of(subject: str) -> list[str]:
    """Where settings of a subject are looked for: its own, its tenant's, the registry's."""
    tenant, _ = split_tenant(subject)
    return list(dict.fromkeys((subject, full_name(tenant, GLOBAL), GLOBAL)))


def check_kind(name: str) -> Kind:
    for kind in KINDS:
        if name == kind:
            return kind
    raise InvalidSchema(f"Invalid schema type {name[:80]}; known are {', '.join(KINDS)}.", field="schemaType")


def check_level(name: str) -> Level:
    for level in LEVELS:
        if name.upper() == level:
            return level
    message = (
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive"
    )
    raise InvalidCompatibility(message, field="compatibility")


def check_mode(name: str) -> Mode:
    for mode in MODES:
        if name.upper() == mode:
            return mode
    raise InvalidMode(f"Invalid mode. Valid values are {', '.join(MODES[:-1])} and {MODES[-1]}.", field="mode")


def check_bounds(schema: Schema) -> None:
    """What can be refused by counting, before anything is parsed."""
    if not schema.text.strip():
        raise InvalidSchema("The schema is empty.", field="schema")
    if len(schema.text) >= SCHEMA_BYTES_MAX or len(schema.text.encode("utf-8", "replace")) >= SCHEMA_BYTES_MAX:
        raise SchemaTooLarge(
            f"Register operation failed because schema is too large: {SCHEMA_BYTES_MAX:,} bytes or more.",
            field="schema",
        )
    if len(schema.references) > SCHEMA_REFERENCES_MAX:
        raise InvalidSchema(f"More than {SCHEMA_REFERENCES_MAX} references.", field="references")
