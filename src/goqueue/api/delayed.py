"""Delayed messages."""

from __future__ import annotations

import msgspec

from goqueue.api.messages import Encoding, HeaderValue, RepeatIn


class DelayedOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """A delayed message; key, value and headers only while it waits."""

    topic: str
    partition: int
    scheduled: int
    state: str
    deliver_at: str = msgspec.field(name="deliverAt")
    key: str | None = None
    value: str | None = None
    headers: dict[str, HeaderValue] = {}
    encoding: Encoding = "text"
    key_encoding: Encoding = "text"
    accepted: int | None = None
    ttl: int | None = None
    repeat: RepeatIn | None = None
    fired: int = 0
    ended: int | None = None


class DelayedListOut(msgspec.Struct, frozen=True):
    delayed: list[DelayedOut]
    pending: int


class DelayStatsOut(msgspec.Struct, frozen=True):
    pending: int
    near: int
    scheduled: int
    delivered: int
    cancelled: int
    expired: int
    next_due: str | None
    late_ms_p50: float | None
    late_ms_p99: float | None
    late_ms_max: float | None
