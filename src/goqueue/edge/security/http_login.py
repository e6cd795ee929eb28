"""Who asks over HTTP: an API key or a signed token as `Authorization: Bearer`, a password as `Basic`, a certificate."""

from __future__ import annotations

import asyncio
import binascii
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from starlette.types import Scope

from goqueue.base.commands import Caller
from goqueue.base.errors import CredentialsMissing
from goqueue.base.limits import TOKEN_CHARS_MAX
from goqueue.drive.fair_turns import FairTurns
from goqueue.edge.security.certificates import CertificateNames
from goqueue.service.api_keys import PREFIX, refused
from goqueue.service.authentication import Authentication
from goqueue.service.principals import Principal

T = TypeVar("T")

CALLER: Final = "goqueue.caller"  # where a request's scope notes who has shown who it is
CERTIFICATE: Final = "goqueue.certificate"  # and the certificate of its connection


def host_of(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def header_of(scope: Scope, wanted: bytes) -> bytes | None:
    """None if it is not there; of several, it counts as wrong."""
    found = [value for name, value in scope["headers"] if name == wanted]
    if len(found) > 1:
        raise refused()
    return found[0] if found else None


class HttpLogin:
    """Of one door."""

    def __init__(self, door: str, who: Authentication, names: CertificateNames, turns: FairTurns) -> None:
        self.turns = turns
        self._door = door
        self._who = who
        self._names = names

    async def serve(self, scope: Scope, work: Callable[[], Awaitable[T]]) -> T:
        """In the name of whoever asks; broken off when that no longer holds. Raises `Unauthenticated`."""
        return await self.as_one(await self._identity(scope), scope, work)

    async def as_one(self, one: Principal, scope: Scope, work: Callable[[], Awaitable[T]]) -> T:
        placed = self._who.principals.placed(one)
        scope[CALLER] = caller = Caller(placed.principal, self._door, host_of(scope), placed.tenant)
        self._who.sessions.check_room(caller)
        with self._who.sessions.request(placed) as session:
            try:
                return await self.turns.serve(caller, work)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not session.is_cut or task is None or task.uncancel():
                    raise
                raise refused() from None

    async def _identity(self, scope: Scope) -> Principal:
        shown = header_of(scope, b"authorization")
        if shown is None:
            return self.certified(scope)
        kind, _, value = shown.decode("latin-1").partition(" ")
        value = value.strip()
        if len(value) > TOKEN_CHARS_MAX:
            raise refused()
        if kind.lower() == "bearer":
            return self._bearer(value)
        if kind.lower() == "basic":
            return await self._basic(value, host_of(scope))
        raise refused()

    def certified(self, scope: Scope) -> Principal:
        """By its certificate."""
        certificate = scope.get(CERTIFICATE)
        name = self._names.name(certificate) if certificate else ""
        if not name:
            raise CredentialsMissing("Show who you are: an API key as a bearer token, or a user and its password.")
        return self._held(Principal(name))

    def _held(self, one: Principal) -> Principal:
        """What shows a name says nothing of its user, who may be disabled or gone."""
        placed = self._who.principals.placed(one)
        if not self._who.principals.holds(placed):
            raise refused()
        return placed

    def _bearer(self, value: str) -> Principal:
        if value.startswith(PREFIX):
            return self._who.keys.token(value)
        if self._who.tokens is None:
            raise refused()
        return self._held(self._who.tokens.check(value))

    async def _basic(self, value: str, host: str) -> Principal:
        try:
            name, colon, password = b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise refused() from None
        if not colon:
            raise refused()
        return await self._who.passwords.check(name, password, host)
