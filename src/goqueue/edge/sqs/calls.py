"""One request under way: who asks, and how it reached us."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from goqueue.base.commands import Caller, anonymous

Reply: TypeAlias = dict[str, Any] | None  # None: the operation returns nothing


class SqsCall(msgspec.Struct, frozen=True):
    """`base_url` is the one that the client used; `gone` returns when the client has hung up; `trace` is AWS's trace
    header of the request itself."""

    base_url: str
    sender: str
    gone: Callable[[], Awaitable[None]]
    trace: str = ""
    host: str = ""
    known: Caller | None = None  # who has shown who it is
    body_bytes: int = 0

    @property
    def caller(self) -> Caller:
        return self.known or anonymous("sqs", self.host)


Handler: TypeAlias = Callable[[Any, SqsCall], Awaitable[Reply]]
