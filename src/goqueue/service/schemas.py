"""The schema registry's verbs: register, look up, delete, compare, levels, modes."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from goqueue.api.schemas import RegistryStats
from goqueue.base.errors import GoQueueError, NotFound
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import (
    SCHEMA_BYTES_MAX,
    SCHEMA_COMPARE_SECONDS_MAX,
    SCHEMA_READY_BYTES_MAX,
    SCHEMA_READY_SECONDS_MAX,
    SCHEMA_REFERENCES_MAX,
    SCHEMAS_COMPILED_MAX,
)
from goqueue.core.compat.breaks import Incompatibility
from goqueue.core.compat.levels import VersionBreak, against
from goqueue.core.machine import Decision
from goqueue.core.schemas.errors import (
    IncompatibleSchema,
    InvalidSchema,
    SchemaNotReady,
    UnknownSchema,
    UnknownSchemaVersion,
)
from goqueue.core.schemas.kinds import Checker, Document, Unusable, checker, compare, parse
from goqueue.core.schemas.model import (
    GLOBAL,
    KINDS,
    LATEST,
    CompatibilitySettings,
    Level,
    Mode,
    Schema,
    check_bounds,
    check_subject,
    fingerprint,
    is_default,
)
from goqueue.core.schemas.proto_schema import ProtoDocument
from goqueue.core.schemas.records import Record
from goqueue.core.schemas.registry import Registry
from goqueue.core.schemas.table import SchemaTable, SchemaVersion
from goqueue.drive.offload import Offload
from goqueue.drive.schema_follower import SchemaHost

T = TypeVar("T")


class Prepared(msgspec.Struct, frozen=True):
    """A schema that was parsed and is right."""

    schema: Schema
    document: Any  # one of `Document`; msgspec knows no such classes
    checker: Any
    fingerprint: str


_LOOK_S: Final = 0.01
_LOOKS: Final = 300


class Schemas:
    """Changes one at a time; parsing and comparing happen off the loop."""

    def __init__(self, host: SchemaHost, offload: Offload) -> None:
        self._host = host
        self._offload = offload
        self._changing = asyncio.Lock()
        self._working = asyncio.Lock()  # one schema is parsed or compared at a time: threads are few
        self._readying: dict[int, asyncio.Task[None]] = {}
        self._documents: OrderedDict[int, Document] = OrderedDict()
        self._checkers: OrderedDict[int, Checker] = OrderedDict()

    @property
    def table(self) -> SchemaTable:
        return self._host.machine.table

    # --- on several nodes ------------------------------------------------------------------------------------

    def mark(self) -> Offset:
        """How far the log of schemas is safe, where it is written."""
        return self._host.mark

    async def read_to(self, mark: Offset) -> None:
        """Returns when a node that follows the log knows as much, or after a while."""
        for _ in range(_LOOKS):
            if self._host.read_to >= mark:
                return
            await asyncio.sleep(_LOOK_S)

    # --- register and compare --------------------------------------------------------------------------------

    async def register(
        self,
        subject: str,
        schema: Schema,
        schema_id: int | None = None,
        version: int | None = None,
        normalize: bool = False,
    ) -> SchemaVersion:
        """The version that holds the schema, new or not; `IncompatibleSchema` with every break if it may not be."""
        check_subject(subject)
        async with self._changing:
            self._host.check_current()
            registry = self._host.machine
            registry.check_writable(subject)
            registry.check_import(subject, schema_id, version)
            prepared = await self.prepare(schema, normalize or self.table.normalizes(subject))
            if registry.table.mode(subject) != "IMPORT" and self._held(subject, prepared) is None:
                await self._check_compatible(subject, prepared)
            chosen = (subject, prepared.schema, prepared.fingerprint, schema_id, version)
            held: SchemaVersion = await self._decide(lambda registry, *_: registry.register(*chosen))
            _keep(self._documents, held.id, prepared.document)
            _keep(self._checkers, held.id, prepared.checker)
            return held

    async def _decide(self, change: Callable[[Registry, int, Millis], Decision[Record]]) -> Any:
        self._host.check_current()
        return await self._host.call(change)

    def _held(self, subject: str, prepared: Prepared) -> SchemaVersion | None:
        known = self.table.id_of(prepared.fingerprint)
        return None if known is None else self.table.holding(subject, known)

    async def _check_compatible(self, subject: str, prepared: Prepared) -> None:
        versions = self.table.versions(subject) if self.table.has_live(subject) else []
        found = await self._against(self.table.level(subject), prepared, versions)
        if found:
            message = (
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
            )
            level = f", {{compatibility: '{self.table.level(subject)}'}}"
            breaks = list(map(str, found))
            raise IncompatibleSchema(f"{message}[{'; '.join(breaks)}{level}]", field="schema", breaks=breaks)

    async def _against(self, level: Level, prepared: Prepared, versions: list[SchemaVersion]) -> list[VersionBreak]:
        if level == "NONE" or not versions:
            return []
        chosen = versions if level.endswith("_TRANSITIVE") else versions[-1:]
        earlier = [(one.version, await self.document(one.id)) for one in chosen]
        return await self._work(lambda: _compared(level, prepared.document, earlier))

    async def test(
        self, subject: str, schema: Schema, number: int | None, normalize: bool = False
    ) -> list[VersionBreak]:
        """Breaks of a schema against one version, or against those that the subject's level asks for."""
        versions = self.table.versions(subject) if self.table.has_live(subject) else []
        if number is not None and number != LATEST and number not in [one.version for one in versions]:
            raise UnknownSchemaVersion(f"Version {number} not found.", field="version")
        if number is not None:
            versions = [one for one in versions if one.version == number] or versions[-1:]
        prepared = await self.prepare(schema, normalize or self.table.normalizes(subject))
        return await self._against(self.table.level(subject), prepared, versions)

    async def prepare(self, schema: Schema, normalize: bool = False) -> Prepared:
        """Parses and checks a schema, within all limits."""
        check_bounds(schema)
        try:
            schema = self._resolve_latest(schema)
            references = self.references_of(schema)
        except NotFound as error:
            raise InvalidSchema(error.message, field="references") from None
        return await self._work(lambda: _prepared(schema, references, normalize))

    def _resolve_latest(self, schema: Schema) -> Schema:
        """A reference to version -1 means the version that is the latest now, and stays with it."""
        if all(one.version != LATEST for one in schema.references):
            return schema
        latest = [self.table.version(one.subject, one.version) for one in schema.references if one.version == LATEST]
        numbers = {one.subject: one.version for one in latest}
        replaced = tuple(
            msgspec.structs.replace(one, version=numbers[one.subject]) if one.version == LATEST else one
            for one in schema.references
        )
        return msgspec.structs.replace(schema, references=replaced)

    def references_of(self, schema: Schema) -> dict[str, Schema]:
        """By name all that a schema refers to, and what those refer to, innermost first."""
        found: dict[str, Schema] = {}
        self._gather(schema, found, 0)
        if sum(len(one.text) for one in found.values()) > 4 * SCHEMA_BYTES_MAX:
            raise InvalidSchema("What the schema refers to is too large together.", field="references")
        return found

    def _gather(self, schema: Schema, found: dict[str, Schema], depth: int) -> None:
        if depth > SCHEMA_REFERENCES_MAX or len(found) > SCHEMA_REFERENCES_MAX:
            raise InvalidSchema(f"More than {SCHEMA_REFERENCES_MAX} references.", field="references")
        for reference in schema.references:
            if reference.name not in found:
                referred = self.table.referred(reference)
                if referred.kind != schema.kind:
                    raise InvalidSchema(
                        f"The reference {reference.name!r} is not of type {schema.kind}.", field="references"
                    )
                self._gather(referred, found, depth + 1)
                found[reference.name] = referred

    async def lookup(
        self, subject: str, schema: Schema, deleted: bool = False, normalize: bool = False
    ) -> SchemaVersion:
        """The subject's version with this schema."""
        self.table.versions(subject, deleted=True)  # raises if there is no such subject
        prepared = await self.prepare(schema, normalize or self.table.normalizes(subject))
        known = self.table.id_of(prepared.fingerprint)
        held = None if known is None else self.table.holding(subject, known, deleted)
        if held is None:
            raise UnknownSchema("Schema not found", field="schema")
        return held

    # --- what is kept ready ----------------------------------------------------------------------------------

    async def document(self, schema_id: int) -> Document:
        if schema_id not in self._documents:
            schema = self.table.schema(schema_id).schema
            references = self.references_of(schema)
            _keep(self._documents, schema_id, await self._work(lambda: parse(schema, references)))
        return self._documents[schema_id]

    def checker(self, schema_id: int) -> Checker:
        """Made ready once; then kept, for as many schemas as there is room for. Large ones are made off the loop."""
        found = self._checkers.get(schema_id)
        if found is None:
            schema = self.table.schema(schema_id).schema
            if self._size(schema) > SCHEMA_READY_BYTES_MAX:
                if schema_id not in self._readying:
                    self._readying[schema_id] = asyncio.create_task(self._make_ready(schema_id))
                raise SchemaNotReady(f"The schema {schema_id} is being made ready; try again in a moment.")
            found = self._checker_of(schema)
            _keep(self._checkers, schema_id, found)
        return found

    def _size(self, schema: Schema) -> int:
        if not schema.references:
            return len(schema.text)
        try:
            return len(schema.text) + sum(len(one.text) for one in self.references_of(schema).values())
        except GoQueueError:
            return len(schema.text)

    def _checker_of(self, schema: Schema) -> Checker:
        try:
            return checker(parse(schema, self.references_of(schema)))
        except GoQueueError as error:  # written down before a limit was set, or with a package that is not here now
            return Unusable(error.message)

    async def _make_ready(self, schema_id: int) -> None:
        stored = self.table.stored.get(schema_id)
        try:
            if stored is not None:  # else it was deleted meanwhile
                _keep(self._checkers, schema_id, await self._work(lambda: self._checker_of(stored.schema)))
        finally:
            self._readying.pop(schema_id, None)

    async def warm(self) -> None:
        """Makes the latest large schemas ready, as far as a start may take time for it."""
        until = time.monotonic() + SCHEMA_READY_SECONDS_MAX
        for subject in self.table.subjects():
            latest = self.table.latest(subject)
            if latest is not None and self._size(self.table.schema(latest.id).schema) > SCHEMA_READY_BYTES_MAX:
                if time.monotonic() > until:
                    return
                await self._make_ready(latest.id)

    async def _work(self, work: Callable[[], T]) -> T:
        async with self._working:
            return await self._offload(work)

    async def text(self, schema_id: int, form: str = "") -> str:
        """As it was registered; for Protobuf `serialized` is the description of the file."""
        if form == "serialized":
            document = await self.document(schema_id)
            if isinstance(document, ProtoDocument):
                return document.serialized
        return self.table.schema(schema_id).schema.text

    # --- delete, levels, modes -------------------------------------------------------------------------------

    async def delete_version(self, subject: str, number: int, permanent: bool) -> int:
        async with self._changing:
            done: int = await self._decide(lambda registry, *_: registry.delete_version(subject, number, permanent))
            return done

    async def delete_subject(self, subject: str, permanent: bool) -> list[int]:
        async with self._changing:
            done: list[int] = await self._decide(lambda registry, *_: registry.delete_subject(subject, permanent))
            return done

    async def set_settings(self, subject: str, settings: CompatibilitySettings) -> CompatibilitySettings:
        if not is_default(subject):
            check_subject(subject)
        async with self._changing:
            held: CompatibilitySettings = await self._decide(
                lambda registry, *_: registry.set_settings(subject, settings)
            )
            return held

    async def delete_settings(self, subject: str) -> Level:
        async with self._changing:
            before: Level = await self._decide(lambda registry, *_: registry.delete_settings(subject))
            return before

    async def set_mode(self, subject: str, mode: Mode, force: bool) -> Mode:
        if not is_default(subject):
            check_subject(subject)
        async with self._changing:
            held: Mode = await self._decide(lambda registry, *_: registry.set_mode(subject, mode, force))
            return held

    async def delete_mode(self, subject: str) -> Mode:
        async with self._changing:
            before: Mode = await self._decide(lambda registry, *_: registry.delete_mode(subject))
            return before

    # --- numbers -------------------------------------------------------------------------------------------

    def stats(self) -> RegistryStats:
        table = self.table
        versions = [one for name in table.subjects() for one in table.versions(name, deleted=True)]
        kinds = [one.schema.kind for one in table.stored.values()]
        return RegistryStats(
            sum(table.has_live(name) for name in table.subjects()),
            sum(not one.deleted for one in versions),
            sum(one.deleted for one in versions),
            len(kinds),
            {kind: kinds.count(kind) for kind in KINDS},
            table.last_id,
            table.level(GLOBAL),
            table.mode(GLOBAL),
        )


def _compared(level: Level, new: Document, earlier: list[tuple[int, Document]]) -> list[VersionBreak]:
    until = time.monotonic() + SCHEMA_COMPARE_SECONDS_MAX

    def in_time(reader: Document, writer: Document, is_newer: bool) -> list[Incompatibility]:
        return compare(reader, writer, is_newer, lambda: time.monotonic() > until)

    return against(level, new, earlier, in_time)


def _prepared(schema: Schema, references: dict[str, Schema], normalize: bool) -> Prepared:
    document = parse(schema, references)
    ready = checker(document)
    text = document.normal if normalize else document.text
    canonical = document.normal if normalize else document.canonical
    schema = msgspec.structs.replace(schema, text=text)
    return Prepared(schema, document, ready, fingerprint(schema, canonical))


def _keep(kept: OrderedDict[int, Any], schema_id: int, value: Any) -> None:
    kept[schema_id] = value
    kept.move_to_end(schema_id)
    while len(kept) > SCHEMAS_COMPILED_MAX:
        kept.popitem(last=False)
