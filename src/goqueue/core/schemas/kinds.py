"""The three kinds of schema behind one face: parse, compare, make ready for checking data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from goqueue.core.compat import avro, json_schema, protobuf
from goqueue.core.compat.breaks import GiveUp, Incompatibility, never
from goqueue.core.schemas.avro_data import AvroChecker
from goqueue.core.schemas.avro_schema import AvroDocument
from goqueue.core.schemas.json_schema import JsonDocument
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.model import Schema
from goqueue.core.schemas.proto_data import ProtoChecker
from goqueue.core.schemas.proto_schema import ProtoDocument

Document = JsonDocument | AvroDocument | ProtoDocument


class Checker(Protocol):
    """Raises a `Mismatch` if data does not fit."""

    def check(self, data: bytes) -> None: ...


class Unusable:
    """Stands for a schema that is registered and cannot be used: nothing fits it, and it says why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason.rstrip(".")

    def check(self, data: bytes) -> None:
        raise Mismatch((), f"the schema cannot be used: {self._reason}")


def parse(schema: Schema, references: Mapping[str, Schema]) -> Document:
    """The document behind a schema; `references` are all that it needs, those of references too, innermost first."""
    texts = {name: one.text for name, one in references.items()}
    if schema.kind == "JSON":
        return JsonDocument(schema.text, texts)
    return AvroDocument(schema.text, texts) if schema.kind == "AVRO" else ProtoDocument(schema.text, texts)


def checker(document: Document) -> Checker:
    """Also proves that a document is a schema of its draft."""
    if isinstance(document, JsonDocument):
        return document.compile()
    return AvroChecker(document) if isinstance(document, AvroDocument) else ProtoChecker(document)


def compare(
    reader: Document, writer: Document, is_newer: bool = True, give_up: GiveUp = never
) -> list[Incompatibility]:
    """Why the reader cannot take all that the writer writes."""
    if isinstance(reader, JsonDocument) and isinstance(writer, JsonDocument):
        return json_schema.compare(reader, writer, give_up)
    if isinstance(reader, AvroDocument) and isinstance(writer, AvroDocument):
        return avro.compare(reader, writer, give_up)
    if isinstance(reader, ProtoDocument) and isinstance(writer, ProtoDocument):
        return protobuf.compare(reader, writer, is_newer, give_up)
    return [Incompatibility("SCHEMA_TYPE_CHANGED", "#", "the types of the schemas are different")]
