"""Routes of users and API keys."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.credentials import (
    KeyIn,
    KeyListOut,
    KeyOut,
    KeyRotationIn,
    NewKeyOut,
    UserChangeIn,
    UserIn,
    UserListOut,
    UserOut,
)
from goqueue.base.errors import InvalidField
from goqueue.core.cluster.records import KeyRecord, UserRecord
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode
from goqueue.service.credentials import Credentials, NewKey
from goqueue.service.front import Front


class CredentialRoutes:
    def __init__(self, credentials: Front[Credentials], bodies: Bodies) -> None:
        self._credentials = credentials
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag, user, key = "credentials", "/admin/users/{user}", "/admin/keys/{key}"
        owner = Param("owner", "Only this user's.")
        return [
            RestOperation("GET", "/admin/users", self.users, "List users", tag, UserListOut),
            RestOperation("POST", "/admin/users", self.add, "Add a user", tag, UserOut, 201, UserIn),
            RestOperation("GET", user, self.user, "Show a user", tag, UserOut),
            RestOperation("PATCH", user, self.change, "Change a user", tag, UserOut, 200, UserChangeIn),
            RestOperation("DELETE", user, self.delete, "Delete a user and its keys", tag, None, 204),
            RestOperation("GET", "/admin/keys", self.keys, "List API keys", tag, KeyListOut, params=(owner,)),
            RestOperation("POST", "/admin/keys", self.create, "Make an API key", tag, NewKeyOut, 201, KeyIn),
            RestOperation("POST", f"{key}/rotate", self.rotate, "Replace a key", tag, NewKeyOut, 201, KeyRotationIn),
            RestOperation("DELETE", key, self.revoke, "Revoke an API key", tag, None, 204),
        ]

    # --- users ---------------------------------------------------------------------------------------------

    async def users(self, request: Request) -> Response:
        Query(request)
        return json(UserListOut([_user(one) for one in self._credentials.by(caller_of(request)).users()]))

    async def user(self, request: Request) -> Response:
        Query(request)
        return json(_user(self._credentials.by(caller_of(request)).user(request.path_params["user"])))

    async def add(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, UserIn)
        credentials = self._credentials.by(caller_of(request))
        return json(_user(await credentials.add_user(given.name, given.password, given.tenant)), 201)

    async def change(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, UserChangeIn)
        name, caller = request.path_params["user"], caller_of(request)
        found: UserRecord | None = None
        if given.password is not None:
            found = await self._credentials.by(caller).set_password(name, given.password)
        if given.disabled is not None:
            found = await self._credentials.by(caller).set_disabled(name, given.disabled)
        return json(_user(found or self._credentials.by(caller).user(name)))

    async def delete(self, request: Request) -> Response:
        Query(request)
        await self._credentials.by(caller_of(request)).delete_user(request.path_params["user"])
        return Response(status_code=204)

    # --- keys ----------------------------------------------------------------------------------------------

    async def keys(self, request: Request) -> Response:
        owner, caller = Query(request, "owner").text("owner", "") or None, caller_of(request)
        asked = self._credentials.by(caller)
        return json(KeyListOut([_key(one, asked.last_used_ms(one.id)) for one in asked.keys(owner)]))

    async def create(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body, KeyIn)
        lives_ms = None if given.lives_ms is None else _positive(given.lives_ms, "lives_ms")
        caller = caller_of(request)
        made = await self._credentials.by(caller).create_key(given.owner, lives_ms, given.signs, given.note)
        return _new(made)

    async def rotate(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body or b"{}", KeyRotationIn)
        caller, overlap_ms = caller_of(request), _positive(given.overlap_ms, "overlap_ms", 0)
        return _new(await self._credentials.by(caller).rotate_key(request.path_params["key"], overlap_ms))

    async def revoke(self, request: Request) -> Response:
        Query(request)
        await self._credentials.by(caller_of(request)).revoke_key(request.path_params["key"])
        return Response(status_code=204)


def _new(made: NewKey) -> Response:
    answer = json(NewKeyOut(_key(made.key, None), made.secret, f"{made.key.id}.{made.secret}"), 201)
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _key(one: KeyRecord, used_ms: int | None) -> KeyOut:
    return KeyOut(one.id, one.owner, one.created_ms, one.expires_ms, used_ms, one.signs, one.note)


def _user(one: UserRecord) -> UserOut:
    return UserOut(one.name, sorted(one.scram), one.disabled, one.created_ms, one.tenant)


def _positive(given: int, field: str, low: int = 1) -> int:
    if not low <= given <= 100 * 366 * 24 * 3_600_000:
        raise InvalidField(f"{field} is a number of milliseconds, from {low} on.", field=field)
    return given
