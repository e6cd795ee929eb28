"""Traces as Python users have them, and the requests for them. Perform a call with either client's `perform`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from goqueue.client.calls import RestCall
from goqueue.client.errors import invalid


class TraceEvent(msgspec.Struct, frozen=True):
    """One event: when it was over, counted in microseconds from the trace's beginning, and how long it took."""

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


class Trace(msgspec.Struct, frozen=True):
    """One message's life; `spans` only where one trace was asked for."""

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
    spans: list[TraceEvent] = []


class _Traces(msgspec.Struct):
    traces: list[Trace]


def _read_many(status: int, body: bytes) -> list[Trace]:
    return msgspec.json.decode(body, type=_Traces).traces


def traces(limit: int = 100) -> RestCall[list[Trace]]:
    """The newest."""
    return RestCall("GET", "/traces", _read_many, {"limit": str(limit)})


def trace(trace_id: str) -> RestCall[Trace]:
    """One with all its events."""
    if re.fullmatch(r"[0-9a-fA-F]{32}", trace_id) is None:
        raise invalid("A trace's id is 32 hexadecimal digits.", "id")
    return RestCall("GET", f"/traces/{trace_id}", lambda status, body: msgspec.json.decode(body, type=Trace))


def search_traces(wanted: Mapping[str, str | int | None], limit: int = 100) -> RestCall[list[Trace]]:
    """Those that fit all that is given: topic, partition, group, key, status, from, to."""
    query = {name: str(value) for name, value in wanted.items() if value is not None}
    return RestCall("GET", "/traces/search", _read_many, {**query, "limit": str(limit)})
