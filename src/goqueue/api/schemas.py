"""The schema registry, as Confluent's clients send and expect it. What is not known is ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class SchemaReference(msgspec.Struct, frozen=True):
    """Under `name` the schema's text means a subject's version."""

    name: str
    subject: str
    version: int


class NewSchema(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A schema to register, look up or test: `AVRO`, `JSON` or `PROTOBUF`. Without a type it is Avro."""

    schema: str
    schema_type: str | None = None
    references: Sequence[SchemaReference] | None = None
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    id: int | None = None
    version: int | None = None


class RegisteredSchema(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A schema in a subject, or by its id alone: then it has no subject and no version. Avro is not named as type."""

    id: int | None = None
    subject: str | None = None
    version: int | None = None
    guid: str | None = None
    schema_type: str = "AVRO"
    references: list[SchemaReference] = []
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    schema: str = ""
    max_id: int | None = None


class SubjectVersionOut(msgspec.Struct, frozen=True):
    subject: str
    version: int


class Compatibility(msgspec.Struct, frozen=True, omit_defaults=True):
    """`messages` say why not, each with its path, if that was asked for."""

    is_compatible: bool
    messages: list[str] | None = None


class ConfigIn(msgspec.Struct, frozen=True, omit_defaults=True):
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


class RegistryMode(msgspec.Struct, frozen=True):
    mode: str


class RegistryStats(msgspec.Struct, frozen=True):
    """The registry in numbers."""

    subjects: int
    versions: int
    deleted_versions: int
    schemas: int
    by_type: dict[str, int]
    last_id: int
    compatibility: str
    mode: str
