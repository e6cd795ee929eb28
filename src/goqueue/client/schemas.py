"""Schemas as Python users have them, and the requests for them. Perform a call with either client's `perform`."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from goqueue.api.schemas import (
    Compatibility,
    ConfigIn,
    ConfigOut,
    ConfigSetOut,
    NewSchema,
    RegisteredSchema,
    RegistryMode,
    RegistryStats,
    SchemaReference,
)
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall

__all__ = [
    "Compatibility",
    "NewSchema",
    "RegisteredSchema",
    "RegistryStats",
    "SchemaReference",
    "check_schema",
    "compatibility",
    "delete_schema",
    "register_schema",
    "registry_mode",
    "registry_stats",
    "schema",
    "schema_by_id",
    "schemas",
    "set_compatibility",
    "set_registry_mode",
    "unset_compatibility",
]


def schemas(latest_only: bool = True, deleted: bool = False) -> RestCall[list[RegisteredSchema]]:
    """Of every subject the latest, or all versions."""
    query = {"latestOnly": str(latest_only).lower(), "deleted": str(deleted).lower()}
    return RestCall("GET", "/schemas", _reader(list[RegisteredSchema]), query)


def schema(subject: str, version: int | str = "latest") -> RestCall[RegisteredSchema]:
    return RestCall("GET", f"{_path(subject)}/versions/{version}", _reader(RegisteredSchema))


def schema_by_id(schema_id: int) -> RestCall[RegisteredSchema]:
    return RestCall("GET", f"/schemas/ids/{schema_id}", _reader(RegisteredSchema))


def register_schema(subject: str, new: NewSchema) -> RestCall[RegisteredSchema]:
    """The answer has id and version, not the text."""
    body = msgspec.json.encode(new)
    return RestCall("POST", f"{_path(subject)}/versions", _reader(RegisteredSchema), body=body)


def check_schema(subject: str, new: NewSchema, version: int | str | None = None) -> RestCall[Compatibility]:
    """Against one version, or against those that the subject's level asks for."""
    path = f"/compatibility{_path(subject)}/versions" + (f"/{version}" if version is not None else "")
    return RestCall("POST", path, _reader(Compatibility), {"verbose": "true"}, body=msgspec.json.encode(new))


def delete_schema(subject: str, version: int | str | None = None, permanent: bool = False) -> RestCall[Any]:
    path = _path(subject) + (f"/versions/{version}" if version is not None else "")
    return RestCall("DELETE", path, _reader(Any), {"permanent": str(permanent).lower()})


def compatibility(subject: str | None = None) -> RestCall[str]:
    """The level that holds."""

    def read(status: int, body: bytes) -> str:
        return from_json(body, ConfigOut).compatibility_level

    return RestCall("GET", _of("config", subject), read, {"defaultToGlobal": "true"})


def set_compatibility(level: str, subject: str | None = None) -> RestCall[str]:
    def read(status: int, body: bytes) -> str:
        return from_json(body, ConfigSetOut).compatibility or ""

    return RestCall("PUT", _of("config", subject), read, body=msgspec.json.encode(ConfigIn(level)))


def unset_compatibility(subject: str | None = None) -> RestCall[None]:
    return RestCall("DELETE", _of("config", subject), lambda status, body: None)


def registry_mode(subject: str | None = None) -> RestCall[str]:
    def read(status: int, body: bytes) -> str:
        return from_json(body, RegistryMode).mode

    return RestCall("GET", _of("mode", subject), read, {"defaultToGlobal": "true"})


def set_registry_mode(mode: str, subject: str | None = None, force: bool = False) -> RestCall[str]:
    def read(status: int, body: bytes) -> str:
        return from_json(body, RegistryMode).mode

    query = {"force": str(force).lower()}
    return RestCall("PUT", _of("mode", subject), read, query, body=msgspec.json.encode(RegistryMode(mode)))


def registry_stats() -> RestCall[RegistryStats]:
    return RestCall("GET", "/schemas/stats", _reader(RegistryStats))


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _of(what: str, subject: str | None) -> str:
    return f"/{what}" if subject is None else f"/{what}/{quote(subject, safe='')}"


def _reader(kind: Any) -> Any:
    decoder = msgspec.json.Decoder(kind)
    return lambda status, body: decoder.decode(body)
