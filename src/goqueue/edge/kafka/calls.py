"""One request on its way through the door: who asks, in which version, and what answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from typing import Any, Protocol, TypeAlias

import msgspec

from goqueue.base.commands import Caller, anonymous
from goqueue.edge.doors import KAFKA
from goqueue.edge.kafka.refusals import Refusals
from goqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from goqueue.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


class ConnectionEnd:
    """What has to be done when a connection ends, by a name. One thing in each pass of the loop: a connection can have
    thousands of them, and others do not wait for all."""

    __slots__ = ("_duties",)

    def __init__(self) -> None:
        self._duties: dict[Hashable, Callable[[], None]] = {}

    def then(self, name: Hashable, duty: Callable[[], None]) -> None:
        self._duties[name] = duty

    def forget(self, name: Hashable) -> None:
        self._duties.pop(name, None)

    def over(self) -> None:
        if self._duties:
            name = next(iter(self._duties))
            duty = self._duties.pop(name)
            asyncio.get_running_loop().call_soon(self.over)
            duty()


class PeerLogin(Protocol):
    """How a connection shows who it is."""

    def may(self, frame: memoryview) -> bool: ...

    def handshake(self, version: int, request: SaslHandshakeRequest) -> SaslHandshakeResponse: ...

    async def authenticate(self, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse: ...

    def leave(self) -> None: ...


class KafkaPeer:
    """The other end of a connection: where it is, and who it is as far as it has shown."""

    __slots__ = ("_mute_ms", "caller", "host", "listener", "login", "refusals")

    def __init__(self, host: str, login: Callable[[KafkaPeer], PeerLogin] | None = None, listener: str = KAFKA) -> None:
        """Without a `login` it need not show anything. `listener` is the one that it came by."""
        self.host = host
        self.listener = listener
        self.refusals = Refusals()
        self.caller = anonymous("kafka", host)
        self._mute_ms = 0
        self.login = None if login is None else login(self)

    def mute(self, wait_ms: int) -> None:
        """Its next request is not begun before so long: it is over a quota."""
        self._mute_ms = max(self._mute_ms, wait_ms)

    def take_mute(self) -> int:
        """How long, once."""
        wait_ms, self._mute_ms = self._mute_ms, 0
        return wait_ms

    def become(self, principal: str, tenant: str = "") -> None:
        """It has shown who it is."""
        self.caller = Caller(principal, "kafka", self.host, tenant)


class KafkaCall(msgspec.Struct, frozen=True):
    """What a handler is told besides the request itself."""

    version: int
    client_id: str
    peer: KafkaPeer
    local_address: tuple[str, int]
    end: ConnectionEnd

    @property
    def client_host(self) -> str:
        return self.peer.host

    @property
    def caller(self) -> Caller:
        return self.peer.caller


class Exclusive:
    """An answer to wait for before the connection's next request is begun, so that order holds."""

    def __init__(self, answer: Coroutine[Any, Any, Any]) -> None:
        self._answer = answer

    def __await__(self) -> Generator[Any, None, Any]:
        return self._answer.__await__()


# A handler answers at once, later, or (None) not at all.
Answer: TypeAlias = Any | Awaitable[Any] | None
Handler: TypeAlias = Callable[[KafkaCall, Any], Answer]
