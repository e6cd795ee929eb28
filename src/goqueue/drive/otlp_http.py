"""A collector of OpenTelemetry: OTLP over HTTP, as JSON. Jaeger, Tempo, Prometheus and the like take it as it is."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from goqueue import __version__
from goqueue.base.decoders import from_json
from goqueue.drive.exporter import ExportRefused, TryAgain

_TIMEOUT_S: Final = 10.0
_RETRYABLE: Final = frozenset({429, 502, 503, 504})
_ANSWER_BYTES_MAX: Final = 64 * 1024
SCOPE: Final = {"name": "goqueue", "version": __version__}


class OtlpConnection:
    """One connection, made again when it breaks. `path` is used where the endpoint names none."""

    def __init__(self, endpoint: str, headers: str, path: str) -> None:
        self.host = urlsplit(endpoint).netloc.rpartition("@")[2]
        self._url = urlsplit(endpoint)
        self._path = self._url.path if self._url.path not in ("", "/") else path
        self._headers = {"Content-Type": "application/json", "User-Agent": f"goqueue/{__version__}"}
        self._headers |= _pairs(headers)
        self._connection: http.client.HTTPConnection | None = None

    def post(self, body: bytes, count: int) -> None:
        """So many spans or points; raises `TryAgain` or `ExportRefused` if not all were taken."""
        try:
            status, after, answer = self._post(body)
        except (OSError, http.client.HTTPException) as error:
            self._close()
            raise TryAgain(f"{self.host}: {error or type(error).__name__}") from None
        if status in _RETRYABLE:
            raise TryAgain(f"{self.host} answers {status}", float(after) if after.isdecimal() else None)
        if not 200 <= status < 300:
            raise ExportRefused(f"{self.host} answers {status}: {answer[:200].decode(errors='replace')}")
        if rejected := _rejected(answer):
            raise ExportRefused(f"{self.host} took only some of them", min(rejected, count))

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


def _pairs(text: str) -> dict[str, str]:
    """`name=value,name=value`, as the settings were checked to be."""
    parts = (part.partition("=") for part in text.split(",") if part.strip())
    return {name.strip(): value.strip() for name, _, value in parts}


def attributes(pairs: Mapping[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in pairs.items()
    ]


def resource_of(instance: str) -> dict[str, Any]:
    """The node, as whom it speaks to a collector."""
    told: dict[str, str | int] = {"service.name": "goqueue", "service.version": __version__}
    return {"attributes": attributes(told | {"service.instance.id": instance})}


class _Partial(msgspec.Struct, frozen=True, rename="camel"):
    rejected_spans: int | str = 0
    rejected_data_points: int | str = 0


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _Partial = _Partial()


def _rejected(answer: bytes) -> int:
    """How many of them the collector says that it did not take; an answer in another form says nothing."""
    try:
        partial = from_json(answer or b"{}", _Answer).partial_success
        return int(partial.rejected_spans) + int(partial.rejected_data_points)
    except (msgspec.DecodeError, ValueError):
        return 0
