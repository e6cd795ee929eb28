"""Delayed messages as Python users have them."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.api.delayed import DelayedOut
from goqueue.base.decoders import from_json
from goqueue.client.errors import bad_reply
from goqueue.client.messages import Headers, headers_of_json, to_bytes


class Delayed(msgspec.Struct, frozen=True):
    """A delayed message, looked up and cancelled by topic, partition and `scheduled`.

    Its state is `pending`, `delivered`, `cancelled` or `expired`; its content is there while it waits.
    """

    topic: str
    partition: int
    scheduled: int
    state: str
    deliver_at: str
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    repeat: dict[str, Any] | None = None
    fired: int = 0


def decode_delayed(data: bytes | msgspec.Raw) -> Delayed:
    """A delayed message as the broker sends it; `bad-reply` if it is not one."""
    try:
        return delayed_of(from_json(data, DelayedOut))
    except ValueError as error:
        raise bad_reply(error) from None


def delayed_of(got: DelayedOut) -> Delayed:
    return Delayed(
        got.topic,
        got.partition,
        got.scheduled,
        got.state,
        got.deliver_at,
        to_bytes(got.key, got.key_encoding),
        to_bytes(got.value, got.encoding),
        headers_of_json(got.headers),
        None if got.repeat is None else msgspec.to_builtins(got.repeat),
        got.fired,
    )
