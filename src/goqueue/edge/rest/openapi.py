"""Describes the routes as OpenAPI 3.1 and as a page, both made from the table that serves them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

import msgspec

from goqueue import __version__
from goqueue.api.messages import ProblemOut
from goqueue.edge.rest.operations import RestOperation

_REF = "#/components/schemas/{name}"


def document(operations: Sequence[RestOperation]) -> dict[str, Any]:
    """The OpenAPI document."""
    kinds = [kind for one in operations for kind in (one.body, one.reply, one.error) if kind is not None]
    kinds = list({repr(kind): kind for kind in [*kinds, ProblemOut]}.values())
    described, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    schemas = {repr(kind): schema for kind, schema in zip(kinds, described, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GoQueue",
            "version": __version__,
            "description": "One broker that is both a log and a queue. Every path also stands under /v1.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}, {"url": "/v1"}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(one: RestOperation, schemas: dict[str, Any]) -> dict[str, Any]:
    path_params = [
        {"name": name, "in": "path", "required": True, "schema": {"type": _path_type(name)}}
        for name in re.findall(r"{(\w+)}", one.path)
    ]
    query_params = [
        {"name": param.name, "in": "query", "description": param.doc, "schema": {"type": param.type}}
        for param in one.params
    ]
    described: dict[str, Any] = {
        "operationId": getattr(one.handler, "__name__", "") + re.sub(r"\W+", "_", one.path),
        "summary": one.summary,
        "tags": [one.tag],
        "parameters": path_params + query_params,
        "responses": {str(one.status): _reply(one, schemas), "default": _error(one, schemas)},
    }
    if one.body is not None:
        content = {"schema": schemas[repr(one.body)]}
        media_types = one.media_types or ("application/json",)
        described["requestBody"] = {"required": True, "content": dict.fromkeys(media_types, content)}
    if one.path.endswith(("/messages", "/offsets")) and one.method == "POST":
        described["responses"]["207"] = {**_reply(one, schemas), "description": "Only some were stored"}
    return described


def _path_type(name: str) -> str:
    return "integer" if name in ("partition", "offset", "batch") else "string"


def _reply(one: RestOperation, schemas: dict[str, Any]) -> dict[str, Any]:
    reply: dict[str, Any] = {"description": one.summary}
    if one.status != 204:
        schema = {"type": "string"} if one.reply is None else schemas[repr(one.reply)]
        reply["content"] = {name: {"schema": schema} for name in one.media_types or (one.media_type,)}
    return reply


def _error(one: RestOperation, schemas: dict[str, Any]) -> dict[str, Any]:
    """A route with errors of its own form still gives a problem where the request does not get so far."""
    content: dict[str, Any] = {"application/problem+json": {"schema": schemas[repr(ProblemOut)]}}
    if one.error is not None:
        content |= {name: {"schema": schemas[repr(one.error)]} for name in one.media_types}
    return {"description": "An error", "content": content}


_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1 small{font-weight:400;color:#667} h2{margin-top:2rem;text-transform:capitalize}
details{border:1px solid #d5dae1;border-radius:6px;margin:.4rem 0;padding:.3rem .8rem}
summary{cursor:pointer} code,pre{font:13px/1.45 ui-monospace,monospace}
pre{background:#f4f6f8;padding:.7rem;overflow:auto}
b.get{color:#0a6} b.post{color:#06c} b.patch{color:#a60} b.delete{color:#c33} b{display:inline-block;min-width:4.5rem}
td,th{text-align:left;padding:.15rem .8rem .15rem 0;vertical-align:top}
@media(prefers-color-scheme:dark){
body{color:#dde3ea;background:#14181d} pre{background:#1d232a} details{border-color:#333c46} a{color:#6af}}
"""


def page(operations: Sequence[RestOperation], described: dict[str, Any]) -> str:
    """A page for people: every route, what it takes, what it gives."""
    sections: dict[str, list[str]] = {}
    for one in operations:
        sections.setdefault(one.tag, []).append(_details(one, described))
    body = "".join(f"<h2>{escape(tag)}</h2>{''.join(parts)}" for tag, parts in sections.items())
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>GoQueue REST</title>"
        '<meta name=viewport content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style><h1>GoQueue REST <small>{escape(__version__)}</small></h1>"
        "<p>The machine-readable form is at <a href=openapi.json>openapi.json</a>. Every path also stands under "
        f"<code>/v1</code>.</p>{body}</html>"
    )


def _details(one: RestOperation, described: dict[str, Any]) -> str:
    parts = [f"<b class={one.method.lower()}>{one.method}</b> <code>{escape(one.path)}</code> {escape(one.summary)}"]
    parts = [f"<details><summary>{parts[0]}</summary>"]
    if one.params:
        rows = "".join(
            f"<tr><td><code>{escape(param.name)}</code><td>{param.type}<td>{escape(param.doc)}" for param in one.params
        )
        parts.append(f"<table><tr><th>query<th>type<th>meaning{rows}</table>")
    for title, kind in (("Body", one.body), (f"Answer {one.status}", one.reply)):
        if kind is not None:
            name = getattr(kind, "__name__", "")
            schema = described["components"]["schemas"].get(name) or msgspec.json.schema(kind)
            text = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
            parts.append(f"<p>{title}: <code>{escape(name)}</code></p><pre>{escape(text)}</pre>")
    return "".join(parts) + "</details>"
