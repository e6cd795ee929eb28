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
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;"
    "padding:0 1rem}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid #8884}"
    "th{vertical-align:bottom}.n{text-align:right;font-variant-numeric:tabular-nums}td.error{overflow-wrap:anywhere}"
    ".waiting,.refused{color:light-dark(#b2182b,#ff6b6b);font-weight:600}"
    # On a phone a pipeline is a list of its numbers, with their names.
    "@media(max-width:56rem){tr.heads{display:none}table,tbody,tr,td{display:block}"
    "tr{border-bottom:1px solid #8884;padding:.7rem 0}td{border:0;padding:.05rem 0}td:first-child{font-weight:600}"
    "td.n{display:flex;justify-content:space-between}td.n::before{content:attr(data-head);opacity:.75}}"
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
_NUMBERS: Final = (*_COLUMNS.values(), "Restarts")
_HEADS: Final = "<th>Pipeline<th>State" + "".join(f'<th class="n">{name}' for name in _NUMBERS) + "<th>Last error"
_HEAD: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Pipelines</title>'
    '<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5">'
    f'<style>{_STYLE}</style><h1>Pipelines</h1><table><tr class="heads">{_HEADS}</tr>'
)
_NONE: Final = "<tr><td>There is no pipeline in this folder.</tr>"

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
    return f"{_HEAD}{''.join(map(_row, status)) or _NONE}</table></html>".encode()


def _row(one: PipelineStatus) -> str:
    """Of what does not run there are no numbers."""
    numbers = [one.numbers.get(name) for name in _COLUMNS]
    texts = ["-" if number is None else f"{number:,.0f}" for number in (*numbers, one.restarts)]
    cells = "".join(f'<td class="n" data-head="{name}">{text}' for name, text in zip(_NUMBERS, texts, strict=True))
    state = one.state if one.state in ("running", "paused") else f'<b class="{one.state}">{one.state}</b>'
    return f'<tr><td>{html.escape(one.name)}<td>{state}{cells}<td class="error">{html.escape(one.error)}</tr>'


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
            path = self.path.partition("?")[0]
            kind, body = answers.get(path, ("text/plain", _elsewhere))
            data: bytes = body()
            self.send_response(200 if path in answers else 404)
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
