"""Routes of backups: hold the node's files as they are, list them, read them, let them go."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.backups import BackupFilesOut, BackupListOut, BackupOut, BackupReadIn
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode, number
from goqueue.service.backups import Backups
from goqueue.service.front import Front

_BYTES = "application/octet-stream"
_AFTER_MAX = 2**31 - 1


class BackupRoutes:
    def __init__(self, backups: Front[Backups], bodies: Bodies) -> None:
        self._backups = backups
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag, base, one = "backups", "/admin/backups", "/admin/backups/{backup}"
        after = Param("after", "Where in the list to begin; default 0.", "integer")
        return [
            RestOperation("POST", base, self.begin, "Hold the node's files as they are now", tag, BackupOut, 201),
            RestOperation("GET", base, self.list, "Backups under way", tag, BackupListOut),
            RestOperation("GET", f"{one}/files", self.files, "Files of a backup", tag, BackupFilesOut, params=(after,)),
            RestOperation(
                "POST", f"{one}/read", self.read, "Parts of its files", tag, body=BackupReadIn, media_type=_BYTES
            ),
            RestOperation("DELETE", one, self.end, "Let the files of a backup go", tag, status=204),
        ]

    async def begin(self, request: Request) -> Response:
        Query(request)
        return json(await self._backups.by(caller_of(request)).begin(), 201)

    async def list(self, request: Request) -> Response:
        Query(request)
        return json(BackupListOut(self._backups.by(caller_of(request)).list()))

    async def files(self, request: Request) -> Response:
        after = number(Query(request, "after").text("after", "0"), "after", 0, _AFTER_MAX)
        return json(await self._backups.by(caller_of(request)).files(request.path_params["backup"], after))

    async def read(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, BackupReadIn)
        backups = self._backups.by(caller_of(request))
        data = await backups.read(request.path_params["backup"], given.parts, given.digests)
        return Response(data, media_type=_BYTES)

    async def end(self, request: Request) -> Response:
        Query(request)
        await self._backups.by(caller_of(request)).end(request.path_params["backup"])
        return Response(status_code=204)
