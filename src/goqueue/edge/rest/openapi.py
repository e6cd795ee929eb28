"""Describes the routes as OpenAPI 3.1 and as a page, both made from the table that serves them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from string import Template
from typing import Any

import msgspec

from goqueue import __version__
from goqueue.api.messages import ProblemOut
from goqueue.edge.rest.examples import description_of, example_of
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
    description = description_of(one)
    described: dict[str, Any] = {
        "operationId": getattr(one.handler, "__name__", "") + re.sub(r"\W+", "_", one.path),
        "summary": one.summary,
        **({"description": description} if description else {}),
        "tags": [one.tag],
        "parameters": path_params + query_params,
        "responses": {str(one.status): _reply(one, schemas), "default": _error(one, schemas)},
    }
    if one.body is not None:
        content = {"schema": schemas[repr(one.body)], "example": example_of(one)}
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


_PAGE = """<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>REST · GoQueue</title>
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <link rel="icon" href="console/icon.svg">
  <link rel="stylesheet" href="console/look.css">
  <link rel="stylesheet" href="console/style.css">
  <link rel="stylesheet" href="console/parts.css">
  <link rel="stylesheet" href="console/docs.css">
  <script type="module" src="console/docs.js"></script>
</head>
<body>
  <header>
    <a class="brand" href="./" aria-label="GoQueue"><img src="console/icon.svg" alt="" width="22" height="22">
      <span>GoQueue</span></a>
    <div class="finder"><input id="filter" type="search" placeholder="Filter routes" aria-label="Filter routes"></div>
    <button id="login" class="plain" type="button">Log in</button>
    <a class="pill" href="openapi.json">openapi.json</a>
  </header>
  <nav id="nav" aria-label="Parts"></nav>
  <main id="main" tabindex="-1">
    <div id="notices" role="status" aria-live="polite"></div>
    <h1>REST routes</h1>
    <p class="muted" id="about">GoQueue $version. Every path also stands under <code>/v1</code>. Errors are
      <code>application/problem+json</code>.</p>
    <div id="room"><ul>$routes</ul></div>
  </main>
</body>
</html>
"""


def page(operations: Sequence[RestOperation]) -> str:
    """A page for people. Its script fills it from the description; without scripts, it lists every route."""
    routes = "".join(
        f"<li><b>{one.method}</b> <code>{escape(one.path)}</code> {escape(one.summary)}</li>" for one in operations
    )
    return Template(_PAGE).substitute(version=escape(__version__), routes=routes)
