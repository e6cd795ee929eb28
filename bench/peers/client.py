"""What the load asks of a broker's client, the same for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

QUEUE = "bench"
GROUP = "workers"

Handle = Any  # what a client acknowledges a message with: a receipt, an id, a tag
Taken = tuple[bytes | str, Handle]  # the body and its handle


class Consumer(Protocol):
    """One consumer with a connection of its own."""

    async def take(self, limit: int, wait_ms: int) -> Sequence[Taken]:
        """Up to `limit` messages; none if there were none in time."""

    async def ack(self, handles: Sequence[Handle]) -> None:
        """Returns when the broker has confirmed, where it does."""

    async def close(self) -> None: ...


class Client(Protocol):
    async def create(self) -> None:
        """The queue, empty."""

    async def publish(self, bodies: Sequence[bytes]) -> None:
        """Returns when all are confirmed."""

    async def consumer(self) -> Consumer: ...

    async def close(self) -> None: ...
