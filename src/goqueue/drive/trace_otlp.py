"""Events to an OpenTelemetry collector: OTLP over HTTP, as JSON. Jaeger, Tempo and the like take it as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from goqueue.base.settings import TraceSettings
from goqueue.core.traces.span import Span, spelled_out
from goqueue.drive.otlp_http import SCOPE, OtlpConnection, attributes, resource_of

_PATH: Final = "/v1/traces"
_KINDS: Final = {"publish": 4, "consume": 5}  # producer, consumer; all others are internal
_ERROR: Final = 2


class OtlpSender:
    """To one collector."""

    def __init__(self, settings: TraceSettings, node_id: str) -> None:
        self._connection = OtlpConnection(settings.otlp_endpoint, settings.otlp_headers, _PATH)
        self._resource = resource_of(node_id)

    def send(self, spans: Sequence[Span]) -> None:
        self._connection.post(encode(spans, self._resource), len(spans))


def encode(spans: Sequence[Span], resource: dict[str, Any]) -> bytes:
    """An `ExportTraceServiceRequest`."""
    scope = {
        "scope": SCOPE,
        "spans": [_span(one) for span in spans for one in spelled_out(span)],
    }
    return msgspec.json.encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]})


def _span(span: Span) -> dict[str, Any]:
    told: dict[str, str | int] = {
        "messaging.system": "goqueue",
        "messaging.destination.name": span.topic,
        "messaging.destination.partition.id": str(span.partition),
    }
    if span.offset >= 0:
        told["goqueue.offset"] = span.offset
    if span.group:
        told["messaging.consumer.group.name"] = span.group
    if span.key:
        told["goqueue.key"] = span.key
    told |= {f"goqueue.{name}": value for name, value in span.more.items()}
    shown: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _KINDS.get(span.name.partition(".")[0], 1),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": attributes(told),
        "status": {"code": _ERROR, "message": str(span.more.get("reason", ""))} if span.is_failure else {},
    }
    if span.parent_id:
        shown["parentSpanId"] = span.parent_id
    return shown
