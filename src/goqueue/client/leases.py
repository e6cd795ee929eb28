"""Messages under a lease, as consumers hand them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import asdict

from goqueue.client.errors import bad_reply
from goqueue.client.messages import Message, Span, decode_message, received_members

if TYPE_CHECKING:
    from goqueue.client.async_consumer import AsyncConsumer
    from goqueue.client.consumer import Consumer


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


# --- JSON ---------------------------------------------------------------------------------------------


class _Lease(msgspec.Struct):
    receipt: str
    attempt: int
    failures: int
    leased_until: int


_decoder = msgspec.json.Decoder(_Lease)


def decode_leased(data: msgspec.Raw) -> Leased:
    """A message under a lease as the broker sends it; `bad-reply` if it is not one."""
    try:
        lease = _decoder.decode(data)
    except ValueError as error:
        raise bad_reply(error) from None
    return Leased(**asdict(decode_message(data)), **asdict(lease))


def encode_leased(message: Leased) -> bytes:
    """The message as the broker sent it, receipt and all."""
    lease = _Lease(message.receipt, message.attempt, message.failures, message.leased_until)
    return msgspec.json.encode({**received_members(message), **asdict(lease)})
