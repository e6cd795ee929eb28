"""One call under way: who asks, how long it may take, and what it is part of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec
from google.protobuf.message import Message

from goqueue.base.commands import Caller, Headers
from goqueue.base.trace_context import TRACEPARENT, TRACESTATE, join_tracestate, parse_traceparent, within

_MARGIN_MS: Final = 50  # an answer is made and sent before the caller's time is over


class GrpcCall(msgspec.Struct, frozen=True):
    """`left_s` is how much of the caller's deadline is left; None without one."""

    caller: Caller
    metadata: list[tuple[str, str | bytes]] = []
    left_s: float | None = None
    wait_ms_max: int = 30_000
    certificate: dict[str, Any] | None = None  # of the connection, as `ssl` tells it

    def wait_ms(self, asked: int) -> int:
        """How long to wait for something: as asked, as the node allows, and within the deadline."""
        bounds = [max(0, asked), self.wait_ms_max]
        if self.left_s is not None:
            bounds.append(max(0, int(self.left_s * 1000) - _MARGIN_MS))
        return min(bounds)

    def traced(self) -> Callable[[Headers], Headers] | None:
        """Puts messages that say nothing about a trace into the call's; None if it has none."""
        contexts = [value for name, value in self.metadata if name == TRACEPARENT and isinstance(value, str)]
        context = parse_traceparent(contexts[0].encode()) if len(contexts) == 1 else None
        if context is None:
            return None
        found, state = context, join_tracestate([str(value) for name, value in self.metadata if name == TRACESTATE])
        return lambda headers: within(headers, found, state)


Kind: TypeAlias = Literal["unary", "requests", "answers", "both"]  # which side is a stream
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Requests: TypeAlias = AsyncIterator[Any]


class GrpcMethod(msgspec.Struct, frozen=True):
    """One method of the service. Its handler gets what its kind has: a request or requests, the call, and `send`.

    What changes something goes on if the caller goes away; with `is_wait` it is broken off.
    """

    name: str
    request: type[Message]
    handler: Callable[..., Awaitable[Any]]
    kind: Kind = "unary"
    is_wait: bool = False
    is_public: bool = False  # everybody may ask
