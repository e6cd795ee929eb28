"""SASL: how a Kafka client shows who it is, once for its connection, and again when its session is over (KIP-368)."""

from __future__ import annotations

import asyncio
import math
import time
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from scramp import ScramException, ScramMechanism

from goqueue.base.commands import Caller
from goqueue.base.errors import CredentialsRefused, GoQueueError, Throttled
from goqueue.base.limits import LOGIN_SECONDS, NAME_CHARS_MAX, SCRAM_BYTES_MAX, TOKEN_CHARS_MAX
from goqueue.edge.kafka.calls import ConnectionEnd, Exclusive, KafkaCall, KafkaPeer
from goqueue.edge.kafka.connection import Answered, KafkaConnection, Later, Serve
from goqueue.service.api_keys import refused
from goqueue.service.authentication import Authentication
from goqueue.service.principals import Principal
from goqueue.service.scram import SCRAM
from goqueue.service.sessions import SignedIn
from goqueue.wire.codes import (
    ILLEGAL_SASL_STATE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
    UNSUPPORTED_VERSION,
)
from goqueue.wire.errors import WireError
from goqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from goqueue.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

HANDSHAKE: Final = 17
AUTHENTICATE: Final = 36
_BEFORE: Final = frozenset({HANDSHAKE, 18, AUTHENTICATE})  # what may be asked by somebody unknown
_LINGER_S: Final = 0.5
_FAILED_S: Final = 0.1  # until a wrong answer is told, as in Kafka


class KafkaLogin:
    """Of one connection: where it is in showing who it is."""

    def __init__(self, who: Authentication, peer: KafkaPeer, connection: KafkaConnection) -> None:
        self._who = who
        self._peer = peer
        self._connection = connection
        self._until_s = -math.inf  # by the monotonic clock; it is in while that is to come
        self._is_refused = False
        self._mechanism = ""
        self._scram: ScramLogin | None = None
        self._session: SignedIn | None = None
        self._is_certified = False  # and has asked for nothing yet
        self._deadline = asyncio.get_running_loop().call_later(LOGIN_SECONDS, self._too_late)

    def _too_late(self) -> None:
        if self._session is None:
            self._connection.drop("login")

    def may(self, frame: memoryview) -> bool:
        """Whether this request may be looked at."""
        if self._until_s > time.monotonic():
            if self._is_certified:
                self._is_certified = _is_before(frame)
            return True
        return not self._is_refused and _is_before(frame)

    # --- as Kafka's clients ask ------------------------------------------------------------------------------

    def handshake(self, version: int, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        offered = self._who.settings.mechanism_names
        if version < 1:  # what follows would come without a header
            return SaslHandshakeResponse(error_code=UNSUPPORTED_VERSION, mechanisms=offered)
        if request.mechanism not in offered:
            return SaslHandshakeResponse(error_code=UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        self._mechanism, self._scram = request.mechanism, None
        return SaslHandshakeResponse(mechanisms=offered)

    async def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        if not self._mechanism:
            message = "SaslAuthenticate comes behind a SaslHandshake."
            return SaslAuthenticateResponse(error_code=ILLEGAL_SASL_STATE, error_message=message)
        try:
            if self._mechanism in SCRAM:
                return self._step(bytes(request.auth_bytes))
            lifetime_ms = self._in(await self._shown(bytes(request.auth_bytes)))
        except CredentialsRefused:
            return await self._fail()
        except GoQueueError as error:
            raise WireError(error.message) from None  # it may try again
        return SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)

    async def _shown(self, data: bytes) -> Principal:
        if self._mechanism == "OAUTHBEARER":
            return self._token(data)
        try:
            authorized, name, password = data.decode().split("\0")
        except ValueError:
            raise refused() from None
        if authorized not in ("", name):
            raise refused()
        return await self._who.passwords.check(name, password, self._peer.host)

    def _token(self, data: bytes) -> Principal:
        """RFC 7628."""
        parts = data[: 2 * TOKEN_CHARS_MAX].decode("utf-8", "replace").split("\x01")
        token = next((one[len("auth=Bearer ") :] for one in parts if one.lower().startswith("auth=bearer ")), "")
        if self._who.tokens is None or not token:
            raise refused()
        return self._who.tokens.check(token)

    def _step(self, data: bytes) -> SaslAuthenticateResponse:
        """The first message begins, the second ends."""
        if self._scram is None:
            self._scram = ScramLogin(self._who, self._mechanism, self._peer.host)
            return SaslAuthenticateResponse(auth_bytes=self._scram.first(data))
        scram, self._scram = self._scram, None
        answer = scram.final(data)
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=self._in(scram.identity()))

    async def _fail(self) -> SaslAuthenticateResponse:
        """The answer goes out, and then, as some clients do not read what comes with an end, the connection ends."""
        mechanism, self._mechanism, self._scram = self._mechanism, "", None
        self._is_refused, self._until_s = True, -math.inf
        await asyncio.sleep(_FAILED_S)
        asyncio.get_running_loop().call_later(_LINGER_S, self._connection.finish)
        message = (
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        )
        return SaslAuthenticateResponse(error_code=SASL_AUTHENTICATION_FAILED, error_message=message)

    # --- in --------------------------------------------------------------------------------------------------

    def _in(self, identity: Principal) -> int:
        """How long that holds, in milliseconds; 0 is for ever. Who is in stays who it is, but for somebody whose
        certificate was for the encryption alone."""
        if self._session is not None:
            if self._session.identity.principal != identity.principal and not self._is_certified:
                raise refused()
            self._session.end()
        self._is_certified = False
        lifetime_ms = self._lifetime_ms(identity)
        self.come_in(identity, lifetime_ms)
        self._mechanism = ""
        return lifetime_ms

    def certified(self, identity: Principal) -> None:
        """Its certificate says who it is, unless the first thing that it does is to log in as another."""
        with suppress(Throttled):  # then it is not in, and has to log in
            self.come_in(identity)
            self._is_certified = True

    def come_in(self, identity: Principal, lifetime_ms: int = 0) -> None:
        """`Throttled` if its tenant has as many connections as it may."""
        placed = self._who.principals.placed(identity)
        if not self._who.principals.holds(placed):
            raise refused()
        self._who.sessions.check_room(Caller(placed.principal, "kafka", self._peer.host, placed.tenant))
        self._deadline.cancel()
        self._until_s = time.monotonic() + lifetime_ms / 1000 if lifetime_ms else math.inf
        self._peer.become(placed.principal, placed.tenant)
        self._connection.let_in()
        self._session = self._who.sessions.begin(placed, lambda: self._connection.drop("credentials"))

    def _lifetime_ms(self, identity: Principal) -> int:
        ends = [self._who.settings.session_ms] if self._who.settings.session_ms else []
        if identity.expires_ms is not None:
            ends.append(max(1, identity.expires_ms - self._who.principals.now_ms()))
        return min(ends, default=0)

    def leave(self) -> None:
        """The connection is over."""
        self._deadline.cancel()
        if self._session is not None:
            self._session.end()


def _is_before(frame: memoryview) -> bool:
    return len(frame) > 1 and frame[0] << 8 | frame[1] in _BEFORE


class ScramLogin:
    """One exchange (RFC 5802), by scramp. Of a user that is not there it looks the same until the end."""

    def __init__(self, who: Authentication, mechanism: str, host: str) -> None:
        self._who = who
        self._mechanism = mechanism
        self._host = host
        self._name = ""
        self._server = ScramMechanism(mechanism).make_server(self._verifier)

    def _verifier(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        if len(name) > NAME_CHARS_MAX:
            raise refused()
        self._name = name
        self._who.passwords.check_lockout(name, self._host)
        _, held = self._who.passwords.verifier(name, self._mechanism)
        return b64decode(held.salt), b64decode(held.stored_key), b64decode(held.server_key), held.iterations

    def first(self, data: bytes) -> bytes:
        if len(data) > SCRAM_BYTES_MAX:  # it is looked at by the character
            raise refused()
        return self._run(lambda: (self._server.set_client_first(data.decode()), self._server.get_server_first())[1])

    def final(self, data: bytes) -> bytes:
        """Others may have failed since the first message."""
        self._who.passwords.check_lockout(self._name, self._host)
        if len(data) > SCRAM_BYTES_MAX:
            raise refused()
        return self._run(lambda: self._finish(data.decode()))

    def _finish(self, text: str) -> str:
        """librdkafka up to 2.6 puts its nonce before the whole of ours, which begins with it already. Kafka takes that
        too: what it proves is the text that it sent, with our nonce in it."""
        whole = str(self._server.nonce)
        doubled = whole.removesuffix(str(self._server.s_nonce)) + whole
        if f",r={doubled},p=" in text:
            self._server.nonce = type(self._server.nonce)(doubled)
        self._server.set_client_final(text)
        return str(self._server.get_server_final())

    def _run(self, step: Callable[[], str]) -> bytes:
        try:
            return step().encode()
        except (ScramException, ValueError):
            if self._name:
                self._who.passwords.failed(self._name, self._host)
            raise refused() from None

    def identity(self) -> Principal:
        user = self._who.principals.user(self._name)
        if user is None or self._mechanism not in user.scram:
            raise refused()
        self._who.passwords.succeeded(self._name, self._host)
        return self._who.principals.of_user(user)


# --- the door's side ------------------------------------------------------------------------------------------


class SaslHandler:
    """SaslHandshake and SaslAuthenticate, of connections that have a login and of those that need none."""

    def handshake(self, call: KafkaCall, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        if call.peer.login is None:
            return SaslHandshakeResponse(error_code=UNSUPPORTED_SASL_MECHANISM, mechanisms=[])
        return call.peer.login.handshake(call.version, request)

    def authenticate(self, call: KafkaCall, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse | Exclusive:
        if call.peer.login is None:
            message = "This listener has no authentication; connect with security.protocol=PLAINTEXT."
            return SaslAuthenticateResponse(error_code=ILLEGAL_SASL_STATE, error_message=message)
        return Exclusive(call.peer.login.authenticate(request))


def known_only(serve: Serve) -> Serve:
    """Serves those who have shown who they are; of others, what they need for that."""

    def guarded(frame: memoryview, peer: KafkaPeer, local: tuple[str, int], end: ConnectionEnd) -> Answered | Later:
        if peer.login is not None and not peer.login.may(frame):
            raise WireError("a request of somebody who has not shown who it is, or whose session is over")
        return serve(frame, peer, local, end)

    return guarded
