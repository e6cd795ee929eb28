"""Traces."""

from __future__ import annotations

import msgspec


class SpanOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event. `at_us` is when it was over, counted from the trace's beginning; `took_us` how long it took."""

    name: str
    time: str
    at_us: int
    took_us: int
    topic: str
    partition: int
    span_id: str
    parent_id: str = ""
    offset: int | None = None
    group: str = ""
    attributes: dict[str, str | int] = {}


class TraceOut(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message's life; its status is `completed`, `pending` or `error`. `spans` only if it is asked for alone."""

    trace_id: str
    status: str
    topic: str
    partition: int
    offset: int | None
    key: str
    groups: list[str]
    started: str
    ended: str
    took_us: int
    last: str
    events: int
    spans: list[SpanOut] = []


class TraceListOut(msgspec.Struct, frozen=True):
    traces: list[TraceOut]
