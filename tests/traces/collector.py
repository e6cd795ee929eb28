"""An OpenTelemetry collector for tests: takes OTLP over HTTP and decodes it with OpenTelemetry's own messages."""

from __future__ import annotations

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.waiting import wait_until

_IDS = ("traceId", "spanId", "parentSpanId")


class Collector:
    def __init__(self, port: int = 0, status: int = 200, answer: bytes = b"{}") -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.status, self.answer = status, answer
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.paths.append(self.path)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                if collector.status == 200:
                    collector.take(self.path, body)
                self.send_response(collector.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(collector.answer)))
                self.end_headers()
                self.wfile.write(collector.answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/metrics":
            self.metrics.append(decoded_metrics(body))
        else:
            self.requests.append(decoded(body))

    def points(self) -> dict[str, list[Any]]:
        """All points of metrics that came, by name, oldest first."""
        found: dict[str, list[Any]] = {}
        for request in list(self.metrics):
            for one in request.resource_metrics[0].scope_metrics[0].metrics:
                found.setdefault(one.name, []).extend(getattr(one, one.WhichOneof("data")).data_points)
        return found

    def spans(self) -> list[Any]:
        return [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def wait_for(self, count: int) -> list[Any]:
        wait_until(lambda: len(self.spans()) >= count, lambda: f"{len(self.spans())} of {count} events came")
        return self.spans()


def decoded(body: bytes) -> ExportTraceServiceRequest:
    """OTLP's JSON has ids in hexadecimal, Protobuf's own in base64; all else is the same. Unknown fields are errors."""
    told = json.loads(body)
    for resource in told["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in _IDS:
                    if name in span:
                        span[name] = b64encode(bytes.fromhex(span[name])).decode()
    request = ExportTraceServiceRequest()
    ParseDict(told, request)
    return request


def decoded_metrics(body: bytes) -> ExportMetricsServiceRequest:
    told = json.loads(body)
    for one in told["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]:
        for point in one.get("histogram", {}).get("dataPoints", ()):
            for exemplar in point["exemplars"]:
                if "traceId" in exemplar:
                    exemplar["traceId"] = b64encode(bytes.fromhex(exemplar["traceId"])).decode()
    request = ExportMetricsServiceRequest()
    ParseDict(told, request)
    return request


@contextmanager
def collecting(**options: Any) -> Iterator[Collector]:
    collector = Collector(**options)
    try:
        yield collector
    finally:
        collector.close()
