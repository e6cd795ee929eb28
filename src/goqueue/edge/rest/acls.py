"""Routes of access control's rules."""

from __future__ import annotations

import enum
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.acls import AclDeletedOut, AclExplainOut, AclListOut, AclsIn
from goqueue.base.access import (
    USER,
    AclFilter,
    AclOperation,
    AclPattern,
    AclPermission,
    ResourceKind,
    parse_operation,
    parse_resource,
)
from goqueue.base.errors import InvalidField
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode
from goqueue.service.acls import Acls
from goqueue.service.front import Front

E = TypeVar("E", bound=enum.Enum)
_FILTER: Final = (
    Param("principal", "Only rules of this principal, `User:NAME`."),
    Param("host", "Only rules for this host."),
    Param("operation", "Only rules about this operation."),
    Param("permission", "`allow` or `deny`."),
    Param("kind", "Only rules about this kind of thing."),
    Param("name", "Only rules that name things just so."),
    Param("pattern", "`literal` or `prefixed`."),
    Param("matching", "With a name: all rules that hold for a thing of that name.", "boolean"),
)
_EXPLAIN: Final = (
    Param("user", "Who would ask."),
    Param("operation", "What for."),
    Param("resource", "Which thing, `KIND:NAME`."),
    Param("host", "From which address."),
)


class AclRoutes:
    def __init__(self, acls: Front[Acls], bodies: Bodies) -> None:
        self._acls = acls
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag, path = "security", "/admin/acls"
        return [
            RestOperation("GET", path, self.list, "List rules", tag, AclListOut, params=_FILTER),
            RestOperation("POST", path, self.add, "Add rules", tag, AclListOut, 201, AclsIn),
            RestOperation("DELETE", path, self.delete, "Delete rules", tag, AclDeletedOut, params=_FILTER),
            RestOperation(
                "GET", f"{path}/explain", self.explain, "Which rule decides", tag, AclExplainOut, params=_EXPLAIN
            ),
        ]

    async def list(self, request: Request) -> Response:
        acls = self._acls.by(caller_of(request))
        return json(AclListOut(acls.list(_filter(request)), acls.is_on))

    async def add(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, AclsIn)
        acls = self._acls.by(caller_of(request))
        await acls.add(given.rules)
        return json(AclListOut(given.rules, self._is_on(request)), 201)

    def _is_on(self, request: Request) -> bool:
        return self._acls.by(caller_of(request)).is_on

    async def delete(self, request: Request) -> Response:
        wanted = _filter(request)
        if wanted == AclFilter():
            raise InvalidField("Say which rules: delete by principal, kind, name or the like.", field="principal")
        return json(AclDeletedOut(list(await self._acls.by(caller_of(request)).delete(wanted))))

    async def explain(self, request: Request) -> Response:
        query = Query(request, *(one.name for one in _EXPLAIN))
        user = query.text("user", "").removeprefix(USER)
        if not user:
            raise InvalidField("Say whose rights are asked about.", field="user")
        asked = parse_operation(query.text("operation", "")), parse_resource(query.text("resource", ""))
        ruling = self._acls.by(caller_of(request)).explain(user, query.text("host", ""), *asked)
        return json(AclExplainOut(ruling.is_allowed, ruling.reason, ruling.rule, self._is_on(request)))


def _filter(request: Request) -> AclFilter:
    query = Query(request, *(one.name for one in _FILTER))
    return AclFilter(
        _word(query, "kind", ResourceKind),
        query.text("name", "") or None,
        _word(query, "pattern", AclPattern),
        query.flag("matching") if query.has("matching") else False,
        query.text("principal", "") or None,
        query.text("host", "") or None,
        _word(query, "operation", AclOperation),
        _word(query, "permission", AclPermission),
    )


def _word(query: Query, name: str, words: type[E]) -> E | None:
    given = query.text(name, "")
    if not given:
        return None
    try:
        return words(given.lower().replace("-", "_"))
    except ValueError:
        known = ", ".join(str(one.value) for one in words)
        raise InvalidField(f"{given[:40]!r} is not one of {known}.", field=name) from None
