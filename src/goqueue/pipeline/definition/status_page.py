"""What `goqueue pipeline serve` shows over HTTP: Prometheus' text, JSON, and one plain page. It takes no orders."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from goqueue.pipeline.definition.serving import PipelineStatus

_STATES: Final = ("running", "waiting", "refused", "paused")
_HELP: Final = {
    "rows": "Rows read since the pipeline started.",
    "batches": "Batches since the pipeline started.",
    "rows_per_second": "Rows a second in the last batches.",
    "lag_rows": "Offsets that the last batch left unread.",
    "quarantined_rows": "Rows that broke a rule, since the pipeline started.",
    "table_files": "Files of its tables when they were last looked after.",
    "late_rows": "Rows that came after their watermark, since the pipeline started.",
    "state_rows": "Rows kept between batches.",
    "state_bytes": "Memory of what is kept between batches.",
}
_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;"
    "padding:0 1rem}table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.35rem .8rem .35rem 0;"
    "border-bottom:1px solid #8884}td.n{text-align:right;font-variant-numeric:tabular-nums}"
)
_COLUMNS: Final = {
    "rows": "Rows",
    "batches": "Batches",
    "rows_per_second": "Rows/s",
    "lag_rows": "Lag",
    "late_rows": "Late rows",
    "quarantined_rows": "Quarantined",
    "state_rows": "Kept rows",
}
_HEADS: Final = ("Pipeline", "State", *_COLUMNS.values(), "Restarts", "Last error")
_HEAD: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Pipelines</title>'
    '<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5">'
    f"<style>{_STYLE}</style><h1>Pipelines</h1><table><tr>{''.join(f'<th>{name}' for name in _HEADS)}</tr>"
)

Ask = Callable[[], Sequence[PipelineStatus]]


def metrics_text(status: Sequence[PipelineStatus]) -> bytes:
    registry = CollectorRegistry()
    state = Gauge(
        "goqueue_pipeline_state", "1 for the state that a pipeline is in.", ("pipeline", "state"), registry=registry
    )
    restarts = Gauge("goqueue_pipeline_restarts", "Restarts after failures.", ("pipeline",), registry=registry)
    numbers = {
        name: Gauge(f"goqueue_pipeline_served_{name}", told, ("pipeline",), registry=registry)
        for name, told in _HELP.items()
    }
    for one in status:
        for name in _STATES:
            state.labels(one.name, name).set(one.state == name)
        restarts.labels(one.name).set(one.restarts)
        for name, value in one.numbers.items():
            numbers[name].labels(one.name).set(value)
    return generate_latest(registry)


def page(status: Sequence[PipelineStatus]) -> bytes:
    return f"{_HEAD}{''.join(map(_row, status))}</table></html>".encode()


def _row(one: PipelineStatus) -> str:
    numbers = [one.numbers.get(name, 0) for name in _COLUMNS]
    cells = "".join(f'<td class="n">{number:,.0f}' for number in [*numbers, one.restarts])
    return f"<tr><td>{html.escape(one.name)}<td>{one.state}{cells}<td>{html.escape(one.error)}</tr>"


def _elsewhere() -> bytes:
    return b"There are /, /metrics and /status here.\n"


def show(host: str, port: int, ask: Ask) -> ThreadingHTTPServer:
    """Answers in threads of its own until `shutdown`."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            status = ask()
            answers: dict[str, tuple[str, Callable[[], bytes]]] = {
                "/": ("text/html; charset=utf-8", lambda: page(status)),
                "/metrics": ("text/plain; version=0.0.4; charset=utf-8", lambda: metrics_text(status)),
                "/status": ("application/json", lambda: msgspec.json.encode(status)),
            }
            kind, body = answers.get(self.path, ("text/plain", _elsewhere))
            data: bytes = body()
            self.send_response(200 if self.path in answers else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: object) -> None:
            return

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, name="pipeline-status", daemon=True).start()
    return server
