"""Messages under a lease, as consumers hand them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from goqueue.api.messages import DeliveredOut
from goqueue.client.messages import Message, Span, message_fields, received_members

if TYPE_CHECKING:
    from goqueue.client.async_consumer import AsyncConsumer
    from goqueue.client.consumer import Consumer


B = TypeVar("B", bound="Leased")


class Leased(Message, frozen=True, kw_only=True):
    """A message that is one consumer's until `leased_until`, milliseconds since 1970 by the broker's clock.

    `attempt` counts how often it was handed out, this time included; `failures` how often it failed before.
    """

    receipt: str
    attempt: int
    failures: int
    leased_until: int


class LeasedMessage(Leased, frozen=True, kw_only=True):
    """What a `Consumer` hands out. Every answer raises `GoQueueClientError` if the broker refuses it."""

    consumer: Consumer

    def ack(self) -> None:
        """Done with it."""
        self.consumer.ack(self)

    def nack(self, *, delay: Span | None = None, reason: str = "") -> None:
        """Failed: it comes again after a back-off, or after `delay`."""
        self.consumer.nack(self, delay=delay, reason=reason)

    def reject(self, *, reason: str = "") -> None:
        """To the dead letters, now."""
        self.consumer.reject(self, reason=reason)

    def extend(self, timeout: Span) -> None:
        """The lease ends so long from now; 0 gives the message back, which is no failure."""
        self.consumer.extend(self, timeout=timeout)


class AsyncLeasedMessage(Leased, frozen=True, kw_only=True):
    """What an `AsyncConsumer` hands out. Every answer raises `GoQueueClientError` if the broker refuses it."""

    consumer: AsyncConsumer

    async def ack(self) -> None:
        """Done with it."""
        await self.consumer.ack(self)

    async def nack(self, *, delay: Span | None = None, reason: str = "") -> None:
        """Failed: it comes again after a back-off, or after `delay`."""
        await self.consumer.nack(self, delay=delay, reason=reason)

    async def reject(self, *, reason: str = "") -> None:
        """To the dead letters, now."""
        await self.consumer.reject(self, reason=reason)

    async def extend(self, timeout: Span) -> None:
        """The lease ends so long from now; 0 gives the message back, which is no failure."""
        await self.consumer.extend(self, timeout=timeout)


def bound(kind: Callable[..., B], message: Leased, consumer: object) -> B:
    """The message with its consumer. Field by field, since it is done for every message."""
    return kind(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.value,
        message.headers,
        message.priority,
        receipt=message.receipt,
        attempt=message.attempt,
        failures=message.failures,
        leased_until=message.leased_until,
        consumer=consumer,
    )


# --- JSON ---------------------------------------------------------------------------------------------


_LEASE: Final = ("receipt", "attempt", "failures", "leased_until")


def leased_of(got: DeliveredOut) -> Leased:
    """The message that the JSON stands for; `ValueError` if its base64 is none."""
    return Leased(**message_fields(got), **{name: getattr(got, name) for name in _LEASE})


def encode_leased(message: Leased) -> bytes:
    """The message as the broker sent it, receipt and all."""
    lease = {name: getattr(message, name) for name in _LEASE}
    return msgspec.json.encode({**received_members(message), **lease})
