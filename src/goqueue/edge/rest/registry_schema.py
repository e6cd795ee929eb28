"""Between the registry's JSON and its words."""

from __future__ import annotations

from goqueue.api.schemas import ConfigIn, NewSchema, RegisteredSchema, SchemaReference
from goqueue.core.schemas.model import CompatibilitySettings, Reference, Schema, check_kind, check_level, guid_of
from goqueue.core.schemas.records import SchemaSet
from goqueue.core.schemas.table import SchemaVersion


def schema_in(given: NewSchema) -> Schema:
    references = tuple(Reference(one.name, one.subject, one.version) for one in given.references or ())
    kind = check_kind(given.schema_type or "AVRO")
    return Schema(kind, given.schema, references, given.metadata or None, given.rule_set or None)


def settings_in(given: ConfigIn) -> CompatibilitySettings:
    return CompatibilitySettings(
        None if given.compatibility is None else check_level(given.compatibility), given.normalize
    )


def registered_out(
    stored: SchemaSet, text: str, place: SchemaVersion | None = None, max_id: int | None = None
) -> RegisteredSchema:
    schema = stored.schema
    return RegisteredSchema(
        None if place is None else stored.id,
        None if place is None else place.subject,
        None if place is None else place.version,
        guid_of(stored.fingerprint),
        schema.kind,
        [SchemaReference(one.name, one.subject, one.version) for one in schema.references],
        schema.metadata,
        schema.rule_set,
        text,
        max_id,
    )
