"""Routes of tenants."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.tenants import TenantIn, TenantListOut, TenantOut, UsageOut
from goqueue.base.commands import Caller
from goqueue.core.cluster.records import TenantRecord
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode
from goqueue.service.front import Front
from goqueue.service.tenants import Tenants


class TenantRoutes:
    def __init__(self, tenants: Front[Tenants], bodies: Bodies) -> None:
        self._tenants = tenants
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag, tenant = "tenants", "/admin/tenants/{tenant}"
        return [
            RestOperation("GET", "/usage", self.usage, "What your tenant has", tag, UsageOut),
            RestOperation("GET", "/admin/tenants", self.list, "List tenants and what they have", tag, TenantListOut),
            RestOperation("POST", "/admin/tenants", self.create, "Create a tenant", tag, TenantOut, 201, TenantIn),
            RestOperation("GET", tenant, self.show, "Show a tenant and what it has", tag, TenantOut),
            RestOperation("DELETE", tenant, self.delete, "Delete a tenant that has nothing", tag, None, 204),
        ]

    async def usage(self, request: Request) -> Response:
        Query(request)
        caller = caller_of(request)
        has = await self._tenants.by(caller).own_usage(caller.tenant)
        held = has.topics, has.partitions, has.messages, has.size_bytes, has.groups
        return json(UsageOut(*held, has.transactional_ids, has.subjects, has.limits))

    async def list(self, request: Request) -> Response:
        Query(request)
        caller = caller_of(request)
        return json(TenantListOut([await self._shown(caller, one) for one in self._tenants.by(caller).list()]))

    async def create(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, TenantIn)
        caller = caller_of(request)
        return json(await self._shown(caller, await self._tenants.by(caller).create(given.name)), 201)

    async def show(self, request: Request) -> Response:
        Query(request)
        caller = caller_of(request)
        return json(await self._shown(caller, self._tenants.by(caller).show(request.path_params["tenant"])))

    async def delete(self, request: Request) -> Response:
        Query(request)
        await self._tenants.by(caller_of(request)).delete(request.path_params["tenant"])
        return Response(status_code=204)

    async def _shown(self, caller: Caller, one: TenantRecord) -> TenantOut:
        has = await self._tenants.by(caller).usage(one.name)
        return TenantOut(
            one.name,
            one.created_ms,
            has.topics,
            has.partitions,
            has.messages,
            has.size_bytes,
            has.groups,
            has.transactional_ids,
            has.subjects,
            has.users,
            has.limits,
        )
