"""Events to an OpenTelemetry collector: OTLP over HTTP, as JSON. Jaeger, Tempo and the like take it as it is."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from goqueue import __version__
from goqueue.base.decoders import from_json
from goqueue.base.settings import TraceSettings
from goqueue.core.traces.span import Span, spelled_out
from goqueue.drive.trace_exporter import ExportRefused, TryAgain

_PATH: Final = "/v1/traces"
_TIMEOUT_S: Final = 10.0
_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_KINDS: Final = {"publish": 4, "consume": 5}  # producer, consumer; all others are internal
_ERROR: Final = 2
_ANSWER_BYTES_MAX: Final = 64 * 1024


class OtlpSender:
    """One connection, made again when it breaks."""

    def __init__(self, settings: TraceSettings, node_id: str) -> None:
        self._url = urlsplit(settings.otlp_endpoint)
        self._path = self._url.path if self._url.path not in ("", "/") else _PATH
        self._headers = {"Content-Type": "application/json", "User-Agent": f"goqueue/{__version__}"}
        self._headers |= parse_pairs(settings.otlp_headers)
        self._resource = _attributes(
            {"service.name": "goqueue", "service.version": __version__, "service.instance.id": node_id}
        )
        self._connection: http.client.HTTPConnection | None = None

    def send(self, spans: Sequence[Span]) -> None:
        body = encode(spans, self._resource)
        try:
            status, after, answer = self._post(body)
        except (OSError, http.client.HTTPException) as error:
            self._close()
            raise TryAgain(f"{self._url.netloc}: {error or type(error).__name__}") from None
        if status in _RETRYABLE:
            raise TryAgain(f"{self._url.netloc} answers {status}", float(after) if after.isdecimal() else None)
        if not 200 <= status < 300:
            raise ExportRefused(f"{self._url.netloc} answers {status}: {answer[:200].decode(errors='replace')}")
        if rejected := _rejected(answer):
            raise ExportRefused(f"{self._url.netloc} took only some of them", min(rejected, len(spans)))

    def _post(self, body: bytes) -> tuple[int, str, bytes]:
        """A connection that the other end closed meanwhile is made again, once."""
        fresh = self._connection is None
        try:
            return self._exchange(body)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if fresh:
                raise
            self._close()
            return self._exchange(body)

    def _exchange(self, body: bytes) -> tuple[int, str, bytes]:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self._url.hostname or "", self._url.port, timeout=_TIMEOUT_S)
        self._connection.request("POST", self._path, body, self._headers)
        answer = self._connection.getresponse()
        told = answer.read(_ANSWER_BYTES_MAX)
        if not answer.isclosed():
            self._close()
        return answer.status, answer.headers.get("Retry-After", ""), told

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def parse_pairs(text: str) -> dict[str, str]:
    """`name=value,name=value`; `ValueError` if it is something else."""
    pairs: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{part!r} is not a header; write name=value")
        pairs[name.strip()] = value.strip()
    return pairs


def encode(spans: Sequence[Span], resource: list[dict[str, Any]]) -> bytes:
    """An `ExportTraceServiceRequest`."""
    scope = {
        "scope": {"name": "goqueue", "version": __version__},
        "spans": [_span(one) for span in spans for one in spelled_out(span)],
    }
    return msgspec.json.encode({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope]}]})


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
        "attributes": _attributes(told),
        "status": {"code": _ERROR, "message": str(span.more.get("reason", ""))} if span.is_failure else {},
    }
    if span.parent_id:
        shown["parentSpanId"] = span.parent_id
    return shown


def _attributes(pairs: dict[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in pairs.items()
    ]


class _Partial(msgspec.Struct, frozen=True, rename="camel"):
    rejected_spans: int | str = 0


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _Partial = _Partial()


def _rejected(answer: bytes) -> int:
    """How many of them the collector says that it did not take; an answer in another form says nothing."""
    try:
        return int(from_json(answer, _Answer).partial_success.rejected_spans) if answer else 0
    except (msgspec.DecodeError, ValueError):
        return 0
