"""Traces as Python users have them, and the requests for them. Perform a call with either client's `perform`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from goqueue.api.traces import SpanOut as TraceEvent
from goqueue.api.traces import TraceListOut
from goqueue.api.traces import TraceOut as Trace
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall
from goqueue.client.errors import invalid

__all__ = ["Trace", "TraceEvent", "search_traces", "trace", "traces"]


def _read_many(status: int, body: bytes) -> list[Trace]:
    return from_json(body, TraceListOut).traces


def traces(limit: int = 100) -> RestCall[list[Trace]]:
    """The newest."""
    return RestCall("GET", "/traces", _read_many, {"limit": str(limit)})


def trace(trace_id: str) -> RestCall[Trace]:
    """One with all its events."""
    if re.fullmatch(r"[0-9a-fA-F]{32}", trace_id) is None:
        raise invalid("A trace's id is 32 hexadecimal digits.", "id")
    return RestCall("GET", f"/traces/{trace_id}", lambda status, body: from_json(body, Trace))


def search_traces(wanted: Mapping[str, str | int | None], limit: int = 100) -> RestCall[list[Trace]]:
    """Those that fit all that is given: topic, partition, group, key, status, from, to."""
    query = {name: str(value) for name, value in wanted.items() if value is not None}
    return RestCall("GET", "/traces/search", _read_many, {**query, "limit": str(limit)})
