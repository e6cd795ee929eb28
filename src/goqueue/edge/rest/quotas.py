"""Routes of quotas."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.quotas import QuotaIn, QuotaListOut, QuotaOut
from goqueue.base.quotas import Quota, QuotaEntity
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode
from goqueue.service.front import Front
from goqueue.service.quotas import Quotas

_WHOSE: Final = (
    Param("user", "Of this user; empty means each user."),
    Param("client_id", "Of this client id; empty means each client id."),
    Param("tenant", "Of this tenant; empty means each tenant."),
)


class QuotaRoutes:
    def __init__(self, quotas: Front[Quotas], bodies: Bodies) -> None:
        self._quotas = quotas
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag, path = "security", "/admin/quotas"
        return [
            RestOperation("GET", path, self.list, "List quotas", tag, QuotaListOut),
            RestOperation("POST", path, self.alter, "Set limits", tag, QuotaOut, 200, QuotaIn),
            RestOperation("DELETE", path, self.delete, "Take all limits away", tag, None, 204, params=_WHOSE),
        ]

    async def list(self, request: Request) -> Response:
        Query(request)
        return json(QuotaListOut([_out(one) for one in self._quotas.by(caller_of(request)).list()]))

    async def alter(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, QuotaIn)
        entity = QuotaEntity(given.user, given.client_id, given.tenant)
        return json(_out(await self._quotas.by(caller_of(request)).alter(entity, given.limits)))

    async def delete(self, request: Request) -> Response:
        query = Query(request, *(one.name for one in _WHOSE))
        entity = QuotaEntity(*(query.text(one.name, "") if query.has(one.name) else None for one in _WHOSE))
        held = next((one.limits for one in self._quotas.by(caller_of(request)).list() if one.entity == entity), {})
        await self._quotas.by(caller_of(request)).alter(entity, dict.fromkeys(held))
        return Response(status_code=204)


def _out(quota: Quota) -> QuotaOut:
    return QuotaOut(quota.entity.user, quota.entity.client_id, quota.limits, quota.entity.tenant)
