"""The schema registry over REST: Confluent's routes, at the root where its clients look, and under `/schemas`."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from goqueue import __version__
from goqueue.api.schemas import (
    Compatibility,
    ContextIdOut,
    NewSchema,
    RegisteredSchema,
    RegistryStats,
    ServerVersionOut,
    SubjectVersionOut,
)
from goqueue.base.commands import Caller
from goqueue.core.schemas.errors import (
    InvalidSchema,
    UnknownSchema,
)
from goqueue.core.schemas.model import KINDS, guid_of
from goqueue.core.schemas.table import SchemaVersion
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation
from goqueue.edge.rest.registry_operations import registry_get, registry_operation
from goqueue.edge.rest.registry_params import flag, form, id_of, is_shown, number_of, page, subject_of
from goqueue.edge.rest.registry_schema import registered_out, schema_in
from goqueue.edge.rest.requests import Bodies, decode
from goqueue.edge.rest.schema_errors import Text, confluent
from goqueue.service.front import Front
from goqueue.service.schemas import Schemas

_DELETED = Param("deleted", "Also what is deleted softly.", "boolean")
_PERMANENT = Param("permanent", "For ever, after it was deleted softly.", "boolean")
_FORMAT = Param("format", "`serialized` gives a Protobuf schema as the description of its file, in base64.")
_NEGATIVE = Param("deletedAsNegative", "Deleted versions with a minus.", "boolean")
_NORMALIZE = Param("normalize", "Bring the schema into its normal form first.", "boolean")
_VERBOSE = Param("verbose", "Say why not.", "boolean")
_PAGE = (Param("offset", "Leave out so many.", "integer"), Param("limit", "At most this many; -1 all.", "integer"))
_PREFIX = Param("subjectPrefix", "Only subjects that begin with this.")
_LATEST_ONLY = Param("latestOnly", "Only the latest of each subject.", "boolean")


class SchemaRoutes:
    def __init__(self, schemas: Front[Schemas], bodies: Bodies) -> None:
        self._schemas = schemas
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        one = "/subjects/{subject}/versions/{version}"
        many, subject = "/subjects/{subject}/versions", "/subjects/{subject}"
        test = "/compatibility/subjects/{subject}/versions"
        by_id = "/schemas/ids/{id}"
        return [
            registry_get("/subjects", self.subjects, "List subjects", list[str], params=(_PREFIX, _DELETED, *_PAGE)),
            registry_get(f"{one}/schema", self.version_schema, "A version's schema alone", Any, (_DELETED, _FORMAT)),
            registry_get(
                f"{one}/referencedby", self.referenced_by, "Ids of schemas that refer to a version", list[int], _PAGE
            ),
            registry_get(one, self.version, "A version", RegisteredSchema, params=(_DELETED, _FORMAT)),
            registry_operation("DELETE", one, self.delete_version, "Delete a version", int, params=(_PERMANENT,)),
            registry_get(many, self.versions, "List a subject's versions", list[int], (_DELETED, _NEGATIVE, *_PAGE)),
            registry_operation(
                "POST", many, self.register, "Register a schema", RegisteredSchema, NewSchema, (_NORMALIZE,)
            ),
            registry_get(
                f"{subject}/metadata", self.by_metadata, "The latest version with such metadata", RegisteredSchema
            ),
            registry_operation(
                "POST",
                subject,
                self.lookup,
                "Find a schema in a subject",
                RegisteredSchema,
                NewSchema,
                (_DELETED, _NORMALIZE),
            ),
            registry_operation(
                "DELETE", subject, self.delete_subject, "Delete a subject", list[int], params=(_PERMANENT,)
            ),
            registry_get(
                "/schemas",
                self.all,
                "List schemas with their places",
                list[RegisteredSchema],
                (_PREFIX, _DELETED, _LATEST_ONLY, *_PAGE),
            ),
            registry_get("/schemas/types", self.types, "Types of schema", list[str]),
            registry_get("/schemas/stats", self.stats, "The registry in numbers", RegistryStats),
            registry_get(f"{by_id}/schema", self.id_schema, "A schema alone, by id", Any, (_FORMAT,)),
            registry_get(
                f"{by_id}/subjects", self.id_subjects, "Subjects that hold a schema", list[str], (_DELETED, *_PAGE)
            ),
            registry_get(
                f"{by_id}/versions",
                self.id_versions,
                "Versions that hold a schema",
                list[SubjectVersionOut],
                (_DELETED, *_PAGE),
            ),
            registry_get(by_id, self.by_id, "A schema by id", RegisteredSchema, params=(_FORMAT,)),
            registry_get("/schemas/guids/{guid}/ids", self.guid_ids, "Ids of a guid", list[ContextIdOut]),
            registry_get(
                "/schemas/guids/{guid}", self.by_guid, "A schema by guid", RegisteredSchema, params=(_FORMAT,)
            ),
            registry_operation(
                "POST",
                f"{test}/{{version}}",
                self.test_one,
                "Test against a version",
                Compatibility,
                NewSchema,
                (_VERBOSE, _NORMALIZE),
            ),
            registry_operation(
                "POST",
                test,
                self.test_all,
                "Test as registering would",
                Compatibility,
                NewSchema,
                (_VERBOSE, _NORMALIZE),
            ),
            registry_get("/contexts", self.contexts, "List contexts; there is one", list[str]),
            registry_get("/metadata/version", self.server_version, "The version of the server", ServerVersionOut),
        ]

    # --- subjects and versions -------------------------------------------------------------------------------

    @confluent
    async def subjects(self, request: Request) -> list[str]:
        table = self._schemas.by(caller_of(request)).table
        deleted, only = flag(request, "deleted"), flag(request, "deletedOnly", "deleted_only")
        prefix = request.query_params.get("subjectPrefix", "").removeprefix(":*:")
        found = [name for name in table.subjects() if name.startswith(prefix)]
        return page(request, [name for name in found if is_shown(not table.has_live(name), deleted, only)])

    @confluent
    async def versions(self, request: Request) -> list[int]:
        deleted, only = flag(request, "deleted"), flag(request, "deletedOnly", "deleted_only")
        negative = flag(request, "deletedAsNegative")
        found = self._schemas.by(caller_of(request)).table.versions(subject_of(request), deleted or only or negative)
        if negative:
            return page(request, [-one.version if one.deleted else one.version for one in found])
        return page(request, [one.version for one in found if is_shown(one.deleted, deleted, only)])

    @confluent
    async def register(self, request: Request) -> RegisteredSchema:
        given = await self._new_schema(request)
        version = None if given.version in (0, -1) else given.version
        schema_id = None if given.id in (0, -1) else given.id
        normalize = flag(request, "normalize")
        held = await self._schemas.by(caller_of(request)).register(
            subject_of(request), schema_in(given), schema_id, version, normalize
        )
        # Without the text: a client would keep it instead of the form that it sent.
        guid = guid_of(self._schemas.by(caller_of(request)).table.schema(held.id).fingerprint)
        return RegisteredSchema(held.id, held.subject, held.version, guid)

    @confluent
    async def lookup(self, request: Request) -> RegisteredSchema:
        given = await self._new_schema(request)
        deleted, normalize = flag(request, "deleted"), flag(request, "normalize")
        held = await self._schemas.by(caller_of(request)).lookup(
            subject_of(request), schema_in(given), deleted, normalize
        )
        return await self._out(caller_of(request), held, form(request))

    @confluent
    async def version(self, request: Request) -> RegisteredSchema:
        return await self._out(caller_of(request), self._version(request), form(request))

    @confluent
    async def version_schema(self, request: Request) -> Text:
        return Text(await self._schemas.by(caller_of(request)).text(self._version(request).id, form(request)))

    @confluent
    async def referenced_by(self, request: Request) -> list[int]:
        number = number_of(request.path_params["version"])
        version = self._schemas.by(caller_of(request)).table.version(subject_of(request), number, deleted=True)
        return page(request, self._schemas.by(caller_of(request)).table.referrers(version.subject, version.version))

    @confluent
    async def by_metadata(self, request: Request) -> RegisteredSchema:
        names, values = request.query_params.getlist("key"), request.query_params.getlist("value")
        wanted = dict(zip(names, values, strict=False))
        for held in reversed(
            self._schemas.by(caller_of(request)).table.versions(subject_of(request), flag(request, "deleted"))
        ):
            properties = (self._schemas.by(caller_of(request)).table.schema(held.id).schema.metadata or {}).get(
                "properties"
            ) or {}
            if all(properties.get(name) == value for name, value in wanted.items()):
                return await self._out(caller_of(request), held, form(request))
        raise UnknownSchema("Schema not found")

    @confluent
    async def delete_version(self, request: Request) -> int:
        number = number_of(request.path_params["version"])
        return await self._schemas.by(caller_of(request)).delete_version(
            subject_of(request), number, flag(request, "permanent")
        )

    @confluent
    async def delete_subject(self, request: Request) -> list[int]:
        return await self._schemas.by(caller_of(request)).delete_subject(
            subject_of(request), flag(request, "permanent")
        )

    # --- schemas -------------------------------------------------------------------------------------------

    @confluent
    async def all(self, request: Request) -> list[RegisteredSchema]:
        table = self._schemas.by(caller_of(request)).table
        prefix, deleted = request.query_params.get("subjectPrefix", "").removeprefix(":*:"), flag(request, "deleted")
        names = [name for name in table.subjects() if name.startswith(prefix) and (deleted or table.has_live(name))]
        found = [table.versions(name, deleted) for name in names]
        if flag(request, "latestOnly"):
            found = [versions[-1:] for versions in found]
        chosen = page(request, [one for versions in found for one in versions])
        return [await self._out(caller_of(request), one, "") for one in chosen]

    @confluent
    async def types(self, request: Request) -> list[str]:
        return sorted(KINDS, reverse=True)

    @confluent
    async def stats(self, request: Request) -> RegistryStats:
        return self._schemas.by(caller_of(request)).stats()

    @confluent
    async def by_id(self, request: Request) -> RegisteredSchema:
        return await self._bare(id_of(request), request)

    @confluent
    async def by_guid(self, request: Request) -> RegisteredSchema:
        return await self._bare(self._id_of_guid(request), request)

    def _id_of_guid(self, request: Request) -> int:
        found = self._schemas.by(caller_of(request)).table.id_of_guid(request.path_params["guid"])
        if found is None:
            raise UnknownSchema(f"Schema {request.path_params['guid'][:80]} not found", field="guid")
        return found

    @confluent
    async def guid_ids(self, request: Request) -> list[ContextIdOut]:
        return [ContextIdOut(".", self._id_of_guid(request))]

    async def _bare(self, schema_id: int, request: Request) -> RegisteredSchema:
        stored = self._schemas.by(caller_of(request)).table.schema(schema_id)
        max_id = self._schemas.by(caller_of(request)).table.last_id if flag(request, "fetchMaxId") else None
        return registered_out(
            stored, await self._schemas.by(caller_of(request)).text(schema_id, form(request)), max_id=max_id
        )

    @confluent
    async def id_schema(self, request: Request) -> Text:
        self._schemas.by(caller_of(request)).table.schema(id_of(request))
        return Text(await self._schemas.by(caller_of(request)).text(id_of(request), form(request)))

    @confluent
    async def id_subjects(self, request: Request) -> list[str]:
        return page(request, list(dict.fromkeys(use.subject for use in self._uses(request))))

    @confluent
    async def id_versions(self, request: Request) -> list[SubjectVersionOut]:
        return page(request, [SubjectVersionOut(use.subject, use.version) for use in self._uses(request)])

    def _uses(self, request: Request) -> list[SchemaVersion]:
        schema_id, deleted = id_of(request), flag(request, "deleted")
        self._schemas.by(caller_of(request)).table.schema(schema_id)
        return [use for use in self._schemas.by(caller_of(request)).table.uses(schema_id) if deleted or not use.deleted]

    # --- compatibility ---------------------------------------------------------------------------------------

    @confluent
    async def test_one(self, request: Request) -> Compatibility:
        return await self._test(request, number_of(request.path_params["version"]))

    @confluent
    async def test_all(self, request: Request) -> Compatibility:
        return await self._test(request, None)

    async def _test(self, request: Request, number: int | None) -> Compatibility:
        given, is_verbose = await self._new_schema(request), flag(request, "verbose")
        try:
            found = await self._schemas.by(caller_of(request)).test(
                subject_of(request), schema_in(given), number, flag(request, "normalize")
            )
        except InvalidSchema as error:
            if not is_verbose:
                raise
            return Compatibility(False, [error.message])
        return Compatibility(not found, list(map(str, found)) if is_verbose else None)

    @confluent
    async def contexts(self, request: Request) -> list[str]:
        return ["."]

    @confluent
    async def server_version(self, request: Request) -> ServerVersionOut:
        return ServerVersionOut(__version__, "")

    # --- parts ---------------------------------------------------------------------------------------------

    async def _new_schema(self, request: Request) -> NewSchema:
        async with self._bodies.read(request) as body:
            return decode(body, NewSchema)

    def _version(self, request: Request) -> SchemaVersion:
        number = number_of(request.path_params["version"])
        return self._schemas.by(caller_of(request)).table.version(subject_of(request), number, flag(request, "deleted"))

    async def _out(self, caller: Caller, held: SchemaVersion, form: str) -> RegisteredSchema:
        return registered_out(
            self._schemas.by(caller).table.schema(held.id),
            await self._schemas.by(caller).text(held.id, form),
            held,
        )
