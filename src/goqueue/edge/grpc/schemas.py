"""The schema registry."""

from __future__ import annotations

from typing import Final

from goqueue.base.errors import InvalidField
from goqueue.base.limits import SUBJECT_CHARS_MAX
from goqueue.core.schemas.model import Reference, check_kind, guid_of
from goqueue.core.schemas.model import Schema as StoredSchema
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.service.front import Front
from goqueue.service.schemas import Schemas
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.Schemas"
_LATEST: Final = -1


class SchemaMethods:
    def __init__(self, schemas: Front[Schemas]) -> None:
        self._schemas = schemas

    def methods(self) -> list[GrpcMethod]:
        return [
            GrpcMethod(f"{_SERVICE}/RegisterSchema", pb.RegisterSchemaRequest, self.register),
            GrpcMethod(f"{_SERVICE}/GetSchema", pb.GetSchemaRequest, self.get),
            GrpcMethod(f"{_SERVICE}/ListSubjects", pb.ListSubjectsRequest, self.subjects),
            GrpcMethod(f"{_SERVICE}/ListVersions", pb.ListVersionsRequest, self.versions),
            GrpcMethod(f"{_SERVICE}/TestSchema", pb.TestSchemaRequest, self.test),
            GrpcMethod(f"{_SERVICE}/DeleteSchema", pb.DeleteSchemaRequest, self.delete),
        ]

    async def register(self, request: pb.RegisterSchemaRequest, call: GrpcCall) -> pb.RegisteredSchema:
        subject, schema = _subject(request.subject), _schema_in(request.schema)
        held = await self._schemas.by(call.caller).register(subject, schema, None, None, request.normalize)
        return await self._out(held.id, call, held.subject, held.version)

    async def get(self, request: pb.GetSchemaRequest, call: GrpcCall) -> pb.RegisteredSchema:
        if request.HasField("id") == bool(request.subject):
            raise InvalidField("Send the id, or the subject.", field="id")
        if request.HasField("id"):
            return await self._out(request.id, call)
        number = _version(request.version) if request.HasField("version") else _LATEST
        held = self._schemas.by(call.caller).table.version(_subject(request.subject), number)
        return await self._out(held.id, call, held.subject, held.version)

    async def subjects(self, request: pb.ListSubjectsRequest, call: GrpcCall) -> pb.ListSubjectsResponse:
        table = self._schemas.by(call.caller).table
        found = [one for one in table.subjects() if one.startswith(request.prefix) and table.has_live(one)]
        return pb.ListSubjectsResponse(subjects=found)

    async def versions(self, request: pb.ListVersionsRequest, call: GrpcCall) -> pb.ListVersionsResponse:
        found = self._schemas.by(call.caller).table.versions(_subject(request.subject))
        return pb.ListVersionsResponse(versions=[one.version for one in found])

    async def test(self, request: pb.TestSchemaRequest, call: GrpcCall) -> pb.TestSchemaResponse:
        number = _version(request.version) if request.HasField("version") else None
        subject, schema = _subject(request.subject), _schema_in(request.schema)
        found = await self._schemas.by(call.caller).test(subject, schema, number)
        return pb.TestSchemaResponse(is_compatible=not found, messages=list(map(str, found)))

    async def delete(self, request: pb.DeleteSchemaRequest, call: GrpcCall) -> pb.DeleteSchemaResponse:
        schemas, subject = self._schemas.by(call.caller), _subject(request.subject)
        if not request.HasField("version"):
            return pb.DeleteSchemaResponse(versions=await schemas.delete_subject(subject, request.permanent))
        number = await schemas.delete_version(subject, _version(request.version), request.permanent)
        return pb.DeleteSchemaResponse(versions=[number])

    async def _out(self, schema_id: int, call: GrpcCall, subject: str = "", version: int = 0) -> pb.RegisteredSchema:
        schemas = self._schemas.by(call.caller)
        stored = schemas.table.schema(schema_id)
        references = [
            pb.SchemaReference(name=one.name, subject=one.subject, version=one.version)
            for one in stored.schema.references
        ]
        text = await schemas.text(schema_id)
        return pb.RegisteredSchema(
            id=schema_id,
            subject=subject,
            version=version,
            guid=guid_of(stored.fingerprint),
            schema=pb.Schema(type=stored.schema.kind, schema=text, references=references),
        )


def _schema_in(given: pb.Schema) -> StoredSchema:
    references = tuple(Reference(one.name, one.subject, one.version) for one in given.references)
    return StoredSchema(check_kind(given.type or "AVRO"), given.schema, references)


def _subject(name: str) -> str:
    if not 0 < len(name) <= SUBJECT_CHARS_MAX:
        raise InvalidField(f"A subject has 1 to {SUBJECT_CHARS_MAX} characters.", field="subject")
    return name


def _version(number: int) -> int:
    if number < 1:
        raise InvalidField("Versions count from 1.", field="version")
    return number
