"""The schema registry over REST: Confluent's routes, at the root where its clients look, and under `/schemas`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request

from goqueue.base.errors import InvalidField
from goqueue.core.schemas.errors import (
    InvalidSchemaVersion,
    NoSubjectConfig,
    NoSubjectMode,
    UnknownSchema,
    UnknownSubject,
)
from goqueue.core.schemas.model import GLOBAL, KINDS, check_mode, guid_of
from goqueue.core.schemas.table import Version
from goqueue.edge.rest.operations import Operation, Param
from goqueue.edge.rest.registry_schema import (
    CompatibilityOut,
    ConfigIn,
    ConfigOut,
    ModeIn,
    RegisteredOut,
    SchemaIn,
    SubjectVersionOut,
    registered_out,
    schema_in,
    settings_in,
)
from goqueue.edge.rest.requests import Bodies, decode
from goqueue.edge.rest.schema_errors import MEDIA_TYPE, confluent
from goqueue.service.schemas import Schemas, SchemaStats

T = TypeVar("T")
_NUMBER_MAX: Final = 2**31 - 1
_DELETED = Param("deleted", "Also what is deleted softly.", "boolean")
_PERMANENT = Param("permanent", "For ever, after it was deleted softly.", "boolean")
_FORMAT = Param("format", "`serialized` gives a Protobuf schema as the description of its file, in base64.")
_VERBOSE = Param("verbose", "Say why not.", "boolean")
_PAGE = (Param("offset", "Leave out so many.", "integer"), Param("limit", "At most this many; -1 all.", "integer"))
_PREFIX = Param("subjectPrefix", "Only subjects that begin with this.")
_LATEST_ONLY = Param("latestOnly", "Only the latest of each subject.", "boolean")
_FORCE = Param("force", "To mode IMPORT even where something is registered.", "boolean")
_TO_GLOBAL = Param("defaultToGlobal", "The registry's where the subject has none of its own.", "boolean")


class SchemaRoutes:
    def __init__(self, schemas: Schemas, bodies: Bodies) -> None:
        self._schemas = schemas
        self._bodies = bodies

    def operations(self) -> list[Operation]:
        one = "/subjects/{subject}/versions/{version}"
        many, subject = "/subjects/{subject}/versions", "/subjects/{subject}"
        test = "/compatibility/subjects/{subject}/versions"
        by_id = "/schemas/ids/{id}"
        return [
            _get("/subjects", self.subjects, "List subjects", params=(_PREFIX, _DELETED, *_PAGE)),
            _get(f"{one}/schema", self.version_schema, "A version's schema alone"),
            _get(f"{one}/referencedby", self.referenced_by, "Ids of schemas that refer to a version"),
            _get(one, self.version, "A version", RegisteredOut, params=(_DELETED, _FORMAT)),
            _op("DELETE", one, self.delete_version, "Delete a version", params=(_PERMANENT,)),
            _get(many, self.versions, "List a subject's versions", params=(_DELETED, *_PAGE)),
            _op("POST", many, self.register, "Register a schema", RegisteredOut, SchemaIn),
            _get(f"{subject}/metadata", self.by_metadata, "The latest version with such metadata", RegisteredOut),
            _op("POST", subject, self.lookup, "Find a schema in a subject", RegisteredOut, SchemaIn, (_DELETED,)),
            _op("DELETE", subject, self.delete_subject, "Delete a subject", params=(_PERMANENT,)),
            _get(
                "/schemas", self.all, "List schemas with their places", params=(_PREFIX, _DELETED, _LATEST_ONLY, *_PAGE)
            ),
            _get("/schemas/types", self.types, "Types of schema"),
            _get("/schemas/stats", self.stats, "The registry in numbers", SchemaStats),
            _get(f"{by_id}/schema", self.id_schema, "A schema alone, by id"),
            _get(f"{by_id}/subjects", self.id_subjects, "Subjects that hold a schema", params=(_DELETED,)),
            _get(f"{by_id}/versions", self.id_versions, "Versions that hold a schema", params=(_DELETED,)),
            _get(by_id, self.by_id, "A schema by id", RegisteredOut, params=(_FORMAT,)),
            _get("/schemas/guids/{guid}", self.by_guid, "A schema by guid", RegisteredOut, params=(_FORMAT,)),
            _op(
                "POST",
                f"{test}/{{version}}",
                self.test_one,
                "Test against a version",
                CompatibilityOut,
                SchemaIn,
                (_VERBOSE,),
            ),
            _op("POST", test, self.test_all, "Test as registering would", CompatibilityOut, SchemaIn, (_VERBOSE,)),
            *_settings_routes("config", self.config, self.set_config, self.delete_config, ConfigIn, (_TO_GLOBAL,)),
            *_settings_routes("mode", self.mode, self.set_mode, self.delete_mode, ModeIn, (_TO_GLOBAL, _FORCE)),
            _get("/contexts", self.contexts, "List contexts; there is one"),
        ]

    # --- subjects and versions -------------------------------------------------------------------------------

    @confluent
    async def subjects(self, request: Request) -> list[str]:
        table = self._schemas.table
        deleted, only = _flag(request, "deleted"), _flag(request, "deletedOnly", "deleted_only")
        prefix = request.query_params.get("subjectPrefix", "").removeprefix(":*:")
        found = [name for name in table.subjects() if name.startswith(prefix)]
        return _page(request, [name for name in found if _shown(not table.has_live(name), deleted, only)])

    @confluent
    async def versions(self, request: Request) -> list[int]:
        deleted, only = _flag(request, "deleted"), _flag(request, "deletedOnly", "deleted_only")
        found = self._schemas.table.versions(_subject(request), deleted or only)
        return _page(request, [one.version for one in found if _shown(one.deleted, deleted, only)])

    @confluent
    async def register(self, request: Request) -> RegisteredOut:
        given = await self._body(request, SchemaIn)
        version = None if given.version in (0, -1) else given.version
        schema_id = None if given.id in (0, -1) else given.id
        held = await self._schemas.register(_subject(request), schema_in(given), schema_id, version)
        # Without the text: a client would keep it instead of the form that it sent.
        guid = guid_of(self._schemas.table.schema(held.id).fingerprint)
        return RegisteredOut(held.id, held.subject, held.version, guid)

    @confluent
    async def lookup(self, request: Request) -> RegisteredOut:
        given = await self._body(request, SchemaIn)
        held = await self._schemas.lookup(_subject(request), schema_in(given), _flag(request, "deleted"))
        return await self._out(held, _form(request))

    @confluent
    async def version(self, request: Request) -> RegisteredOut:
        return await self._out(self._version(request), _form(request))

    @confluent
    async def version_schema(self, request: Request) -> Any:
        return _raw(await self._schemas.text(self._version(request).id, _form(request)))

    @confluent
    async def referenced_by(self, request: Request) -> list[int]:
        version = self._version(request)
        return _page(request, self._schemas.table.referrers(version.subject, version.version))

    @confluent
    async def by_metadata(self, request: Request) -> RegisteredOut:
        names, values = request.query_params.getlist("key"), request.query_params.getlist("value")
        wanted = dict(zip(names, values, strict=False))
        for held in reversed(self._schemas.table.versions(_subject(request), _flag(request, "deleted"))):
            properties = (self._schemas.table.schema(held.id).schema.metadata or {}).get("properties") or {}
            if all(properties.get(name) == value for name, value in wanted.items()):
                return await self._out(held, _form(request))
        raise UnknownSchema("No version has such metadata.")

    @confluent
    async def delete_version(self, request: Request) -> int:
        number = _number_of(request.path_params["version"])
        return await self._schemas.delete_version(_subject(request), number, _flag(request, "permanent"))

    @confluent
    async def delete_subject(self, request: Request) -> list[int]:
        return await self._schemas.delete_subject(_subject(request), _flag(request, "permanent"))

    # --- schemas -------------------------------------------------------------------------------------------

    @confluent
    async def all(self, request: Request) -> list[RegisteredOut]:
        table = self._schemas.table
        prefix, deleted = request.query_params.get("subjectPrefix", "").removeprefix(":*:"), _flag(request, "deleted")
        names = [name for name in table.subjects() if name.startswith(prefix) and (deleted or table.has_live(name))]
        found = [table.versions(name, deleted) for name in names]
        if _flag(request, "latestOnly"):
            found = [versions[-1:] for versions in found]
        chosen = _page(request, [one for versions in found for one in versions])
        return [await self._out(one, "") for one in chosen]

    @confluent
    async def types(self, request: Request) -> list[str]:
        return sorted(KINDS, reverse=True)

    @confluent
    async def stats(self, request: Request) -> SchemaStats:
        return self._schemas.stats()

    @confluent
    async def by_id(self, request: Request) -> RegisteredOut:
        return await self._bare(_id(request), request)

    @confluent
    async def by_guid(self, request: Request) -> RegisteredOut:
        found = self._schemas.table.id_of_guid(request.path_params["guid"])
        if found is None:
            raise UnknownSchema("No schema has that guid.", field="guid")
        return await self._bare(found, request)

    async def _bare(self, schema_id: int, request: Request) -> RegisteredOut:
        stored = self._schemas.table.schema(schema_id)
        max_id = self._schemas.table.last_id if _flag(request, "fetchMaxId") else None
        return registered_out(stored, await self._schemas.text(schema_id, _form(request)), max_id=max_id)

    @confluent
    async def id_schema(self, request: Request) -> Any:
        return _raw(await self._schemas.text(_id(request), _form(request)))

    @confluent
    async def id_subjects(self, request: Request) -> list[str]:
        return _page(request, list(dict.fromkeys(use.subject for use in self._uses(request))))

    @confluent
    async def id_versions(self, request: Request) -> list[SubjectVersionOut]:
        return _page(request, [SubjectVersionOut(use.subject, use.version) for use in self._uses(request)])

    def _uses(self, request: Request) -> list[Version]:
        schema_id, deleted = _id(request), _flag(request, "deleted")
        self._schemas.table.schema(schema_id)
        return [use for use in self._schemas.table.uses(schema_id) if deleted or not use.deleted]

    # --- compatibility, levels, modes ------------------------------------------------------------------------

    @confluent
    async def test_one(self, request: Request) -> CompatibilityOut:
        return await self._test(request, _number_of(request.path_params["version"]))

    @confluent
    async def test_all(self, request: Request) -> CompatibilityOut:
        return await self._test(request, None)

    async def _test(self, request: Request, number: int | None) -> CompatibilityOut:
        given = await self._body(request, SchemaIn)
        found = await self._schemas.test(_subject(request), schema_in(given), number)
        return CompatibilityOut(not found, list(map(str, found)) if _flag(request, "verbose") else [])

    @confluent
    async def config(self, request: Request) -> ConfigOut:
        subject, table = _subject(request), self._schemas.table
        own = table.own_settings(subject)
        if own is None and subject != GLOBAL and not _flag(request, "defaultToGlobal"):
            raise NoSubjectConfig(f"Subject {subject!r} has no compatibility level of its own.", field="subject")
        return ConfigOut(table.level(subject), None if own is None else own.normalize)

    @confluent
    async def set_config(self, request: Request) -> dict[str, Any]:
        given = await self._body(request, ConfigIn)
        held = await self._schemas.set_settings(_subject(request), settings_in(given))
        shown = {"compatibility": held.compatibility, "normalize": held.normalize}
        return {name: value for name, value in shown.items() if value is not None}

    @confluent
    async def delete_config(self, request: Request) -> ConfigOut:
        return ConfigOut(await self._schemas.delete_settings(_subject(request)))

    @confluent
    async def mode(self, request: Request) -> ModeIn:
        subject, table = _subject(request), self._schemas.table
        own = table.own_mode(subject)
        if own is None and subject != GLOBAL and not _flag(request, "defaultToGlobal"):
            raise NoSubjectMode(f"Subject {subject!r} has no mode of its own.", field="subject")
        return ModeIn(table.mode(subject))

    @confluent
    async def set_mode(self, request: Request) -> ModeIn:
        given = await self._body(request, ModeIn)
        mode = await self._schemas.set_mode(_subject(request), check_mode(given.mode), _flag(request, "force"))
        return ModeIn(mode)

    @confluent
    async def delete_mode(self, request: Request) -> ModeIn:
        return ModeIn(await self._schemas.delete_mode(_subject(request)))

    @confluent
    async def contexts(self, request: Request) -> list[str]:
        return ["."]

    # --- shared --------------------------------------------------------------------------------------------

    async def _body(self, request: Request, kind: type[T]) -> T:
        async with self._bodies.read(request) as body:
            return decode(body, kind)

    def _version(self, request: Request) -> Version:
        number = _number_of(request.path_params["version"])
        return self._schemas.table.version(_subject(request), number, _flag(request, "deleted"))

    async def _out(self, held: Version, form: str) -> RegisteredOut:
        return registered_out(self._schemas.table.schema(held.id), await self._schemas.text(held.id, form), held)


def _op(
    method: Any,
    path: str,
    handler: Any,
    summary: str,
    reply: Any = None,
    body: Any = None,
    params: tuple[Param, ...] = (),
) -> Operation:
    return Operation(method, path, handler, summary, "schemas", reply, 200, body, params, MEDIA_TYPE, also="/schemas")


def _get(path: str, handler: Any, summary: str, reply: Any = None, params: tuple[Param, ...] = ()) -> Operation:
    return _op("GET", path, handler, summary, reply, None, params)


def _settings_routes(
    what: str, show: Any, change: Any, delete: Any, body: Any, params: tuple[Param, ...]
) -> list[Operation]:
    found: list[Operation] = []
    for path, whose in ((f"/{what}", "the registry's"), (f"/{what}/{{subject}}", "a subject's")):
        found += [
            _op("GET", path, show, f"Show {whose} {what}", params=params[:1] if "{" in path else ()),
            _op("PUT", path, change, f"Set {whose} {what}", None, body, params[1:]),
            _op("DELETE", path, delete, f"Take {whose} {what} back to the default"),
        ]
    return found


def _subject(request: Request) -> str:
    """The registry's own settings have no subject. A context may be named if it is the only one."""
    given = str(request.path_params.get("subject", GLOBAL)).removeprefix(":.:")
    if not given and "subject" in request.path_params:
        raise UnknownSubject("A subject has a name.", field="subject")
    return given


def _flag(request: Request, *names: str) -> bool:
    return any(request.query_params.get(name, "false").lower() in ("true", "1", "") for name in names)


def _form(request: Request) -> str:
    return request.query_params.get("format", "")


def _shown(is_deleted: bool, deleted: bool, only: bool) -> bool:
    return is_deleted if only else deleted or not is_deleted


def _raw(text: str) -> Any:
    """A schema as itself: JSON as JSON, other text as a string."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _page(request: Request, found: Sequence[T]) -> list[T]:
    bounds: list[int] = []
    for name, default in (("offset", "0"), ("limit", "-1")):
        text = request.query_params.get(name, default)
        if not text.removeprefix("-").isdecimal() or len(text) > 10:
            raise InvalidField(f"{name} is a whole number.", field=name)
        bounds.append(int(text))
    start, count = max(0, bounds[0]), bounds[1]
    return list(found[start:] if count < 0 else found[start : start + count])


def _number_of(text: str) -> int:
    """A version: `latest` and -1 are the newest."""
    if text in ("latest", "-1"):
        return -1
    if not text.isdecimal() or not 1 <= int(text[:11]) <= _NUMBER_MAX:
        raise InvalidSchemaVersion(f"{text[:40]!r} is no version: a number from 1 on, or latest.", field="version")
    return int(text)


def _id(request: Request) -> int:
    text = request.path_params["id"]
    if not text.isdecimal() or len(text) > 10:
        raise UnknownSchema(f"{text[:40]!r} is not a schema's id.", field="id")
    return int(text)
