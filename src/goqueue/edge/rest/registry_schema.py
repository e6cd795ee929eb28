"""The JSON of the schema registry, as Confluent's clients send and expect it. What is not known is ignored."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.core.schemas.model import CompatibilitySettings, Reference, Schema, check_kind, check_level, guid_of
from goqueue.core.schemas.records import SchemaSet
from goqueue.core.schemas.table import SchemaVersion


class ReferenceIn(msgspec.Struct, frozen=True):
    name: str
    subject: str
    version: int


class SchemaIn(msgspec.Struct, frozen=True, rename="camel"):
    """A schema to register, look up or test. Without a type it is Avro."""

    schema: str
    schema_type: str | None = None
    references: list[ReferenceIn] | None = None
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    id: int | None = None
    version: int | None = None


class RegisteredOut(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A schema with its places. Avro is the type that is not named."""

    id: int | None = None
    subject: str | None = None
    version: int | None = None
    guid: str | None = None
    schema_type: str | None = None
    references: list[ReferenceIn] | None = None
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    schema: str | None = None
    max_id: int | None = None


class SubjectVersionOut(msgspec.Struct, frozen=True):
    subject: str
    version: int


class CompatibilityOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """`messages` say why not, each with its path."""

    is_compatible: bool
    messages: list[str] | None = None


class ConfigIn(msgspec.Struct, frozen=True):
    compatibility: str | None = None
    normalize: bool | None = None


class ConfigOut(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    compatibility_level: str
    normalize: bool | None = None


class ConfigSetOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was set, under the names that it is set by."""

    compatibility: str | None = None
    normalize: bool | None = None


class ContextIdOut(msgspec.Struct, frozen=True):
    context: str
    id: int


class ServerVersionOut(msgspec.Struct, frozen=True, rename="camel"):
    version: str
    commit_id: str


class ModeIn(msgspec.Struct, frozen=True):
    mode: str


def schema_in(given: SchemaIn) -> Schema:
    references = tuple(Reference(one.name, one.subject, one.version) for one in given.references or ())
    kind = check_kind(given.schema_type or "AVRO")
    return Schema(kind, given.schema, references, given.metadata or None, given.rule_set or None)


def settings_in(given: ConfigIn) -> CompatibilitySettings:
    return CompatibilitySettings(
        None if given.compatibility is None else check_level(given.compatibility), given.normalize
    )


def registered_out(
    stored: SchemaSet, text: str, place: SchemaVersion | None = None, max_id: int | None = None
) -> RegisteredOut:
    schema = stored.schema
    return RegisteredOut(
        None if place is None else stored.id,
        None if place is None else place.subject,
        None if place is None else place.version,
        guid_of(stored.fingerprint),
        None if schema.kind == "AVRO" else schema.kind,
        [ReferenceIn(one.name, one.subject, one.version) for one in schema.references] or None,
        schema.metadata,
        schema.rule_set,
        text,
        max_id,
    )
