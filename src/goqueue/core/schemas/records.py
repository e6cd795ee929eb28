"""What the registry writes to its internal, compacted topic. The key says what a record is about; the last one holds.

Ids and version numbers have high marks of their own, so that neither is ever given twice, whatever was deleted.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from goqueue.base.decoders import from_json
from goqueue.core.schemas.model import CompatibilitySettings, Mode, Schema


class SchemaSet(msgspec.Struct, frozen=True, tag="schema"):
    """A schema has an id."""

    id: int
    fingerprint: str
    schema: Schema


class SchemaGone(msgspec.Struct, frozen=True, tag="schema"):
    """No version uses the id any more."""

    id: int


class IdMark(msgspec.Struct, frozen=True, tag="ids"):
    """The highest id ever given."""

    last: int


class VersionSet(msgspec.Struct, frozen=True, tag="version"):
    subject: str
    version: int
    id: int
    deleted: bool = False


class VersionGone(msgspec.Struct, frozen=True, tag="version"):
    """Deleted for ever."""

    subject: str
    version: int


class SubjectMark(msgspec.Struct, frozen=True, tag="subject"):
    """The highest version number that a subject ever had."""

    subject: str
    last: int


class SettingsSet(msgspec.Struct, frozen=True, tag="config"):
    subject: str
    settings: CompatibilitySettings


class SettingsGone(msgspec.Struct, frozen=True, tag="config"):
    subject: str


class ModeSet(msgspec.Struct, frozen=True, tag="mode"):
    subject: str
    mode: Mode


class ModeGone(msgspec.Struct, frozen=True, tag="mode"):
    subject: str


Record: TypeAlias = (
    SchemaSet
    | SchemaGone
    | IdMark
    | VersionSet
    | VersionGone
    | SubjectMark
    | SettingsSet
    | SettingsGone
    | ModeSet
    | ModeGone
)

_GONE: dict[str, Any] = {"schema": SchemaGone, "version": VersionGone, "config": SettingsGone, "mode": ModeGone}
_SET: dict[str, Any] = {
    "schema": SchemaSet,
    "ids": IdMark,
    "version": VersionSet,
    "subject": SubjectMark,
    "config": SettingsSet,
    "mode": ModeSet,
}
_KEY_FIELDS = {"schema": ("id",), "version": ("subject", "version"), "ids": ()}


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Key and value; a tombstone for what is gone."""
    tag = str(record.__struct_config__.tag)
    fields = _KEY_FIELDS.get(tag, ("subject",))
    key = msgspec.json.encode([tag, *(getattr(record, name) for name in fields)])
    return key, None if isinstance(record, tuple(_GONE.values())) else msgspec.json.encode(record)


def decode_record(key: bytes, value: bytes | None) -> Record | None:
    """None for a record that this version does not know."""
    try:
        tag, *fields = from_json(key, list[Any])
        if value is not None:
            found: Record = from_json(value, _SET[tag])
        else:
            found = _GONE[tag](*fields)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError):
        return None
    return found
