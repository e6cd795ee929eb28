"""Compatibility levels and modes of the schema registry over REST: the registry's own and those of a subject."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from goqueue.api.schemas import ConfigIn, ConfigOut, ConfigSetOut, RegistryMode
from goqueue.core.schemas.errors import NoSubjectConfig, NoSubjectMode
from goqueue.core.schemas.model import GLOBAL, check_mode
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation
from goqueue.edge.rest.registry_operations import registry_operation
from goqueue.edge.rest.registry_params import flag, subject_of
from goqueue.edge.rest.registry_schema import settings_in
from goqueue.edge.rest.requests import Bodies, decode
from goqueue.edge.rest.schema_errors import confluent
from goqueue.service.front import Front
from goqueue.service.schemas import Schemas

_FORCE = Param("force", "To mode IMPORT even where something is registered.", "boolean")
_TO_GLOBAL = Param("defaultToGlobal", "The registry's where the subject has none of its own.", "boolean")


class SchemaSettingsRoutes:
    def __init__(self, schemas: Front[Schemas], bodies: Bodies) -> None:
        self._schemas = schemas
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        return [
            *_settings_routes(
                "config", self.config, self.set_config, self.delete_config, ConfigIn, ConfigOut, (_TO_GLOBAL,)
            ),
            *_settings_routes(
                "mode", self.mode, self.set_mode, self.delete_mode, RegistryMode, RegistryMode, (_TO_GLOBAL, _FORCE)
            ),
        ]

    @confluent
    async def config(self, request: Request) -> ConfigOut:
        subject, table = subject_of(request), self._schemas.by(caller_of(request)).table
        own = table.own_settings(subject)
        if own is None and subject != GLOBAL and not flag(request, "defaultToGlobal"):
            message = f"Subject '{subject}' does not have subject-level compatibility configured"
            raise NoSubjectConfig(message, field="subject")
        return ConfigOut(table.level(subject), None if own is None else own.normalize)

    @confluent
    async def set_config(self, request: Request) -> ConfigSetOut:
        async with self._bodies.read(request) as body:
            given = decode(body, ConfigIn)
        held = await self._schemas.by(caller_of(request)).set_settings(subject_of(request), settings_in(given))
        return ConfigSetOut(held.compatibility, held.normalize)

    @confluent
    async def delete_config(self, request: Request) -> ConfigOut:
        return ConfigOut(await self._schemas.by(caller_of(request)).delete_settings(subject_of(request)))

    @confluent
    async def mode(self, request: Request) -> RegistryMode:
        subject, table = subject_of(request), self._schemas.by(caller_of(request)).table
        own = table.own_mode(subject)
        if own is None and subject != GLOBAL and not flag(request, "defaultToGlobal"):
            message = f"Subject '{subject}' does not have subject-level mode configured"
            raise NoSubjectMode(message, field="subject")
        return RegistryMode(table.mode(subject))

    @confluent
    async def set_mode(self, request: Request) -> RegistryMode:
        async with self._bodies.read(request) as body:
            given = decode(body, RegistryMode)
        mode = await self._schemas.by(caller_of(request)).set_mode(
            subject_of(request), check_mode(given.mode), flag(request, "force")
        )
        return RegistryMode(mode)

    @confluent
    async def delete_mode(self, request: Request) -> RegistryMode:
        return RegistryMode(await self._schemas.by(caller_of(request)).delete_mode(subject_of(request)))


def _settings_routes(
    what: str, show: Any, change: Any, delete: Any, body: Any, reply: Any, params: tuple[Param, ...]
) -> list[RestOperation]:
    found: list[RestOperation] = []
    for path, whose in ((f"/{what}", "the registry's"), (f"/{what}/{{subject}}", "a subject's")):
        found += [
            registry_operation(
                "GET", path, show, f"Show {whose} {what}", reply, params=params[:1] if "{" in path else ()
            ),
            registry_operation(
                "PUT",
                path,
                change,
                f"Set {whose} {what}",
                ConfigSetOut if reply is ConfigOut else reply,
                body,
                params[1:],
            ),
            registry_operation("DELETE", path, delete, f"Take {whose} {what} back to the default", reply),
        ]
    return found
