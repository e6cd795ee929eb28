"""Schemas of the registry as the parsers want them, with all that they refer to."""

from __future__ import annotations

from goqueue.client import Client
from goqueue.client.schemas import RegisteredSchema
from goqueue.client.schemas import schema as schema_of
from goqueue.core.schemas.model import Schema, check_kind


def whole_schema(found: RegisteredSchema) -> Schema:
    return Schema(check_kind(found.schema_type), found.schema)


def referred_schemas(client: Client, found: RegisteredSchema) -> dict[str, Schema]:
    """All that a schema needs, innermost first."""
    gathered: dict[str, Schema] = {}
    for one in found.references:
        referred = client.perform(schema_of(one.subject, one.version))
        gathered |= {**referred_schemas(client, referred), one.name: whole_schema(referred)}
    return gathered
