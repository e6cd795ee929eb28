"""The OpenAPI document tells the truth about the registry: real answers are held against it, one of every route."""

from __future__ import annotations

import re
from typing import Any

import httpx
import jsonschema
import pytest

from tests.door.kafka.raw import unique

AVRO = {"schema": '{"type":"record","name":"R","fields":[]}', "metadata": {"properties": {"owner": "shop"}}}
PROTO = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message A { int32 a = 1; }'}


class Described:
    """The document; every answer that it is shown must be in it, and every route of the registry must be shown."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self._document = http.get("/openapi.json").json()
        self.routes = {
            (method, path)
            for path, methods in self._document["paths"].items()
            for method, one in methods.items()
            if one["tags"] == ["schemas"]
        }
        self.seen: set[tuple[str, str]] = set()

    def ask(self, method: str, path: str, body: Any = None, accept: str = "*/*") -> Any:
        answer = self._http.request(method, path, json=body, headers={"Accept": accept})
        route = self._route(method.lower(), path.partition("?")[0])
        responses = self._document["paths"][route[1]][route[0]]["responses"]
        described = responses.get(str(answer.status_code), responses["default"])
        assert (str(answer.status_code) in responses) == (answer.status_code < 300), (method, path, answer.text)
        content = described["content"][answer.headers["content-type"].partition(";")[0]]
        schema = {**content["schema"], "components": self._document["components"]}
        if answer.status_code < 300:
            self.seen.add(route)
        told = answer.json()
        jsonschema.Draft202012Validator(_closed(schema)).validate(told)
        if body is not None:
            self._check_body(route, body)
        return told

    def _route(self, method: str, path: str) -> tuple[str, str]:
        fitting = [
            route
            for route in self.routes
            if route[0] == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", route[1]), path)
        ]
        assert fitting, (method, path)
        return min(fitting, key=lambda route: route[1].count("{"))

    def _check_body(self, route: tuple[str, str], body: Any) -> None:
        content = self._document["paths"][route[1]][route[0]]["requestBody"]["content"]
        assert "application/vnd.schemaregistry.v1+json" in content and "application/json" in content
        schema = {**content["application/json"]["schema"], "components": self._document["components"]}
        jsonschema.Draft202012Validator(schema).validate(body)


def _closed(value: Any) -> Any:
    """Objects have no members that the document does not name: else a forgotten one would not be noticed."""
    if isinstance(value, list):
        return [_closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {name: _closed(one) for name, one in value.items()}
    if made.get("type") == "object" and "properties" in made and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


def test_every_answer_of_the_registry_is_as_the_document_says(http: httpx.Client) -> None:
    described, name, other = Described(http), unique("s"), unique("s")
    ask = described.ask
    versions = f"/subjects/{name}/versions"
    made = ask("POST", versions, AVRO)
    refers = {"schema": '{"type":"array","items":"R"}', "references": [{"name": "R", "subject": name, "version": 1}]}
    ask("POST", f"/subjects/{other}/versions", refers)
    proto = ask("POST", f"/subjects/{other}-p/versions", PROTO)
    for accept in ("application/json", "application/vnd.schemaregistry+json"):
        ask("GET", f"{versions}/latest", accept=accept)
    for path in (
        "/subjects?deleted=true",
        versions,
        f"{versions}/1",
        f"{versions}/1/schema",
        f"{versions}/1/referencedby",
        f"/subjects/{name}/metadata?key=owner&value=shop",
        f"/subjects/{other}/versions/1",
        "/schemas",
        "/schemas/types",
        "/schemas/stats",
        f"/schemas/ids/{made['id']}?fetchMaxId=true",
        f"/schemas/ids/{proto['id']}?format=serialized",
        f"/schemas/ids/{made['id']}/schema",
        f"/schemas/ids/{made['id']}/subjects",
        f"/schemas/ids/{made['id']}/versions",
        f"/schemas/guids/{made['guid']}",
        f"/schemas/guids/{made['guid']}/ids",
        "/contexts",
        "/metadata/version",
        "/config",
        "/mode",
        f"/config/{name}?defaultToGlobal=true",
        f"/mode/{name}?defaultToGlobal=true",
    ):
        ask("GET", path)
    ask("POST", f"/subjects/{name}", AVRO)
    for path in ("versions", "versions/1", "versions?verbose=true"):
        ask("POST", f"/compatibility/subjects/{name}/{path}", {"schema": '"int"'})
    for whose in ("", f"/{name}"):
        ask("PUT", f"/config{whose}", {"compatibility": "FULL", "normalize": False})
        ask("PUT", f"/mode{whose}", {"mode": "READWRITE"})
        ask("GET", f"/config{whose}")
        ask("DELETE", f"/mode{whose}")
        ask("DELETE", f"/config{whose}")
    for path in (f"/subjects/{other}/versions/1", f"/subjects/{other}-p"):
        ask("DELETE", path)
    assert described.seen == described.routes - {("post", "/schemas/decode")}  # that one is REST's own


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/subjects/{}/versions", None),
        ("GET", "/subjects/{}/versions/x", None),
        ("GET", "/schemas/ids/999999", None),
        ("GET", "/config/{}", None),
        ("DELETE", "/mode/{}", None),
        ("POST", "/subjects/{}/versions", {"schema": '"strin"'}),
        ("POST", "/subjects/{}/versions", {"schema": '"int"', "id": 7}),
        ("PUT", "/config/{}", {"compatibility": "SIDEWAYS"}),
    ],
)
def test_errors_are_as_the_document_says(http: httpx.Client, method: str, path: str, body: Any) -> None:
    told = Described(http).ask(method, path.format(unique("s")), body)
    assert set(told) == {"error_code", "message"}
