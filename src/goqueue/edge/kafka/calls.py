"""One request on its way through the door: who asks, in which version, and what answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable
from typing import Any, TypeAlias

import msgspec

from goqueue.base.commands import Caller, anonymous


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


class KafkaPeer:
    """The other end of a connection: where it is, and who it is as far as it has shown."""

    __slots__ = ("caller", "host")

    def __init__(self, host: str) -> None:
        self.host = host
        self.caller = anonymous("kafka", host)

    def become(self, principal: str) -> None:
        """It has shown who it is."""
        self.caller = Caller(principal, "kafka", self.host)


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
