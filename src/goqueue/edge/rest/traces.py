"""Routes of traces: the newest, one, those that fit, numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, get_args

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.traces import SpanOut, TraceListOut, TraceOut
from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_time_ms
from goqueue.core.traces.span import Span, Status, TraceFilter, TraceSummary
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Query
from goqueue.service.front import Front
from goqueue.service.traces import Traces, TraceStats

_LIMIT_MAX: Final = 1_000
_PARTITION_MAX: Final = 2**31 - 1
_LIMIT: Final = Param("limit", "At most this many, 1 to 1,000; default 100.", "integer")
_SEARCH: Final = (
    Param("topic", "Traces with an event in this topic."),
    Param("partition", "With an event in this partition (of that topic).", "integer"),
    Param("group", "That this group had something to do with."),
    Param("key", "Of messages with this key."),
    Param("status", "`completed`, `pending` or `error`: how the message stands."),
    Param("from", "With an event at or after this time."),
    Param("to", "With an event before this time."),
    _LIMIT,
)


class TraceRoutes:
    def __init__(self, traces: Front[Traces]) -> None:
        self._traces = traces

    def operations(self) -> list[RestOperation]:
        tag = "traces"
        return [
            RestOperation("GET", "/traces", self.list, "List the newest traces", tag, TraceListOut, params=(_LIMIT,)),
            RestOperation("GET", "/traces/search", self.search, "Search traces", tag, TraceListOut, params=_SEARCH),
            RestOperation("GET", "/traces/stats", self.stats, "Traces in numbers", tag, TraceStats),
            RestOperation("GET", "/traces/{id}", self.show, "Show a trace, event by event", tag, TraceOut),
        ]

    async def list(self, request: Request) -> Response:
        limit = Query(request, "limit").number("limit", 100, 1, _LIMIT_MAX)
        return json(TraceListOut([_trace(one) for one in await self._traces.by(caller_of(request)).newest(limit)]))

    async def show(self, request: Request) -> Response:
        Query(request)
        return json(
            _trace(await self._traces.by(caller_of(request)).show(request.path_params["id"].lower()), with_spans=True)
        )

    async def search(self, request: Request) -> Response:
        query = Query(request, *(one.name for one in _SEARCH))
        found = await self._traces.by(caller_of(request)).search(
            _filter(query), query.number("limit", 100, 1, _LIMIT_MAX)
        )
        return json(TraceListOut([_trace(one) for one in found]))

    async def stats(self, request: Request) -> Response:
        Query(request)
        return json(await self._traces.by(caller_of(request)).stats())


def _filter(query: Query) -> TraceFilter:
    return TraceFilter(
        query.text("topic", "") or None,
        query.number("partition", 0, 0, _PARTITION_MAX) if query.has("partition") else None,
        query.text("group", "") or None,
        query.text("key", "") or None,
        _status(query.text("status", "")),
        parse_time_ms(query.text("from", ""), "from") if query.has("from") else None,
        parse_time_ms(query.text("to", ""), "to") if query.has("to") else None,
    )


def _status(text: str) -> Status | None:
    found: Status | None = next((one for one in get_args(Status) if one == text), None)
    if text and found is None:
        raise InvalidField("status is completed, pending or error.", field="status")
    return found


def _trace(trace: TraceSummary, with_spans: bool = False) -> TraceOut:
    began, ended = trace.started_ns, trace.ended_ns
    return TraceOut(
        trace.trace_id,
        trace.status,
        trace.first.topic,
        trace.first.partition,
        trace.offset if trace.offset >= 0 else None,
        trace.key,
        trace.groups,
        _time(began),
        _time(ended),
        (ended - began) // 1000,
        trace.spans[-1].name,
        len(trace.spans),
        [_span(one, began) for one in trace.spans] if with_spans else [],
    )


def _span(span: Span, began_ns: int) -> SpanOut:
    return SpanOut(
        span.name,
        _time(span.end_ns),
        (span.end_ns - began_ns) // 1000,
        (span.end_ns - max(span.start_ns, began_ns)) // 1000,
        span.topic,
        span.partition,
        span.span_id,
        span.parent_id,
        span.offset if span.offset >= 0 else None,
        span.group,
        span.more,
    )


def _time(nanos: int) -> str:
    moment = datetime.fromtimestamp(nanos // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanos // 1000 % 1_000_000:06d}Z"
