"""What the registry answers, held against Confluent's registry: statuses, numbers, words, forms and media types."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from goqueue.edge.rest.schema_errors import MEDIA_TYPES
from tests.door.kafka.raw import unique

INT, STRING = {"schema": '"int"'}, {"schema": '"string"'}


def ask(http: httpx.Client, method: str, path: str, body: object = None) -> tuple[int, Any]:
    answer = http.request(method, path, json=body)
    return answer.status_code, answer.json()


def test_a_subject_that_is_not_known_is_compatible_with_everything(http: httpx.Client) -> None:
    test = f"/compatibility/subjects/{unique('s')}/versions"
    assert ask(http, "POST", test, INT) == (200, {"is_compatible": True})
    assert ask(http, "POST", f"{test}?verbose=true", INT) == (200, {"is_compatible": True, "messages": []})
    for latest in ("latest", "Latest", "LATEST", "-1"):
        assert ask(http, "POST", f"{test}/{latest}", INT) == (200, {"is_compatible": True})
    assert ask(http, "POST", f"{test}/1", INT) == (404, {"error_code": 40402, "message": "Version 1 not found."})


def test_testing_what_is_no_schema_says_so_if_it_is_asked_to(http: httpx.Client) -> None:
    test = f"/compatibility/subjects/{unique('s')}/versions"
    assert ask(http, "POST", test, {"schema": '"strin"'})[1]["error_code"] == 42201
    status, told = ask(http, "POST", f"{test}?verbose=true", {"schema": '"strin"'})
    assert status == 200 and told["is_compatible"] is False and len(told["messages"]) == 1


def test_errors_have_confluents_words(http: httpx.Client) -> None:
    name, other = unique("s"), unique("s")
    versions = f"/subjects/{name}/versions"
    level = "Invalid compatibility level. Valid values are none, backward, forward, full, "
    level += "backward_transitive, forward_transitive, and full_transitive"
    bad_version = "The specified version 'x' is not a valid version id. "
    bad_version += 'Allowed values are between [1, 2^31-1] and the string "latest"'
    soft = f"Subject '{name}' Version 1 was soft deleted.Set permanent=true to delete permanently"
    hard = f"Subject '{name}' Version 1 was not deleted first before being permanently deleted"
    lacks = f"Subject '{name}' does not have subject-level"
    used = f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={name}2,version=1}}."
    refers = {
        "schema": '{"type":"array","items":"R"}',
        "references": [{"name": "R", "subject": f"{name}2", "version": -1}],
    }
    record = {"schema": '{"type":"record","name":"R","fields":[]}'}
    table: list[tuple[str, str, Any, int, str]] = [
        ("GET", versions, None, 40401, f"Subject '{name}' not found."),
        ("POST", versions, INT, 0, ""),
        ("GET", f"{versions}/7", None, 40402, "Version 7 not found."),
        ("GET", f"{versions}/x", None, 42202, bad_version),
        ("GET", "/schemas/ids/999999", None, 40403, "Schema 999999 not found"),
        ("POST", f"/subjects/{name}", STRING, 40403, "Schema not found"),
        ("GET", f"/config/{name}", None, 40408, f"{lacks} compatibility configured"),
        ("GET", f"/mode/{name}", None, 40409, f"{lacks} mode configured"),
        ("DELETE", f"/config/{name}", None, 40401, f"Subject '{name}' not found."),
        ("PUT", f"/config/{name}", {"compatibility": "x"}, 42203, level),
        ("POST", versions, {**INT, "version": 5}, 42201, "Version is not one more than previous version"),
        ("POST", versions, {**INT, "id": 5}, 42205, f"Subject {name} in context . is not in import mode"),
        ("DELETE", f"{versions}/1?permanent=true", None, 40407, hard),
        ("DELETE", f"{versions}/1", None, 0, ""),
        ("DELETE", f"{versions}/1", None, 40406, soft),
        ("DELETE", f"/subjects/{name}", None, 40404, soft.replace(" Version 1", "")),
        ("POST", f"/subjects/{name}2/versions", record, 0, ""),
        ("POST", f"/subjects/{other}/versions", refers, 0, ""),
        ("DELETE", f"/subjects/{name}2/versions/1", None, 42206, used),
        ("PUT", f"/mode/{other}", {"mode": "READONLY"}, 0, ""),
        ("POST", f"/subjects/{other}/versions", INT, 42205, f"Subject {other} in context . is in read-only mode"),
        ("PUT", f"/mode/{other}", {"mode": "IMPORT"}, 42205, "Cannot import since found existing subjects"),
    ]  # fmt: skip
    for method, path, body, number, told in table:
        status, found = ask(http, method, path, body)
        wanted = (200, found) if not number else (int(str(number)[:3]), {"error_code": number, "message": told})
        assert (status, found) == wanted, (method, path, body)


def test_an_incompatible_schema_is_refused_in_confluents_words(http: httpx.Client) -> None:
    name = unique("s")
    ask(http, "POST", f"/subjects/{name}/versions", INT)
    status, told = ask(http, "POST", f"/subjects/{name}/versions", STRING)
    begins = f'Schema being registered is incompatible with an earlier schema for subject "{name}", details: ['
    assert (status, told["error_code"]) == (409, 409) and told["message"].startswith(begins)
    assert "TYPE_MISMATCH" in told["message"] and "'BACKWARD'" in told["message"]


@pytest.mark.parametrize("name", ["a b", "ä:ö", "com.Shop$Order", "a?b#c%d", "x&y=z", "日本", "q'uo\"te", ":.:plain"])
def test_a_subject_may_have_any_printable_character(http: httpx.Client, name: str) -> None:
    plain = f"{name}{unique('s')}"
    quoted, shown = quote(plain, safe=""), plain.removeprefix(":.:")
    assert ask(http, "POST", f"/subjects/{quoted}/versions", INT)[1]["subject"] == shown
    assert shown in ask(http, "GET", "/subjects")[1]
    assert ask(http, "GET", f"/subjects/{quoted}/versions/LATEST")[1]["version"] == 1
    assert ask(http, "PUT", f"/config/{quoted}", {"compatibility": "NONE"})[0] == 200
    assert ask(http, "DELETE", f"/subjects/{quoted}") == (200, [1])


@pytest.mark.parametrize("name", ["a\x01", ":.other:a", "__GLOBAL", "x" * 1_001])
def test_other_names_are_not(http: httpx.Client, name: str) -> None:
    status, told = ask(http, "POST", f"/subjects/{quote(name, safe='')}/versions", INT)
    assert (status, told["error_code"]) == (422, 42208)
    assert told["message"].startswith("The specified subject '") and told["message"].endswith("' is not a valid.")


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("*/*", MEDIA_TYPES[0]),
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        (", ".join(f"{name}; q=0.{weight}" for name, weight in zip(MEDIA_TYPES, "987", strict=True)), MEDIA_TYPES[0]),
        ("application/vnd.schemaregistry.v1+json;q=0.1, application/json", "application/json"),
        ("text/html", MEDIA_TYPES[0]),
    ],
)
def test_the_answer_has_the_media_type_that_is_accepted(http: httpx.Client, accept: str, wanted: str) -> None:
    for path, status in (("/subjects", 200), (f"/subjects/{unique('s')}/versions", 404)):
        answer = http.get(path, headers={"Accept": accept})
        assert (answer.status_code, answer.headers["content-type"]) == (status, wanted)


def test_a_json_schema_that_names_no_draft_is_of_draft_7(http: httpx.Client) -> None:
    name = unique("s")
    old = {"schemaType": "JSON", "schema": json.dumps({"items": [{"type": "integer"}], "additionalItems": False})}
    assert ask(http, "POST", f"/subjects/{name}/versions", old)[0] == 200
    again = {"schemaType": "JSON", "schema": json.dumps({"prefixItems": [{"type": "integer"}], "items": True})}
    assert ask(http, "POST", f"/compatibility/subjects/{name}/versions", again) == (200, {"is_compatible": True})
    newer = {"schemaType": "JSON", "schema": json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema"})}
    assert ask(http, "POST", f"/subjects/{unique('s')}/versions", newer)[0] == 200


def test_avro_is_given_back_as_avro_prints_it(http: httpx.Client) -> None:
    name = unique("s")
    texts = [
        '{"fields": [{"type": {"type": "int"}, "name": "a"}], "name": "shop.R", "type": "record"}',
        '{"type":"record","name":"R","namespace":"shop","fields":[{"name":"a","type":"int"}]}',
    ]
    ids = {ask(http, "POST", f"/subjects/{name}/versions", {"schema": text})[1]["id"] for text in texts}
    assert len(ids) == 1
    assert ask(http, "GET", f"/subjects/{name}/versions/1")[1]["schema"] == texts[1]
    assert http.get(f"/subjects/{name}/versions/1/schema").text == texts[1]


def test_normalized_schemas_are_one(http: httpx.Client) -> None:
    name = unique("s")
    texts = [
        '{"type":"record","name":"R","namespace":"shop","fields":[{"name":"a","type":"int","y":1,"x":2}]}',
        '{"type":"record","name":"R","namespace":"shop","fields":[{"name":"a","type":"int","x":2,"y":1}]}',
    ]
    ask(http, "PUT", f"/config/{name}", {"compatibility": "NONE"})
    plain = [ask(http, "POST", f"/subjects/{name}/versions", {"schema": text})[1]["version"] for text in texts]
    assert plain == [1, 2]
    normal = [
        ask(http, "POST", f"/subjects/{name}/versions?normalize=true", {"schema": text})[1]["version"] for text in texts
    ]
    assert normal == [3, 3]
    assert ask(http, "POST", f"/subjects/{name}?normalize=true", {"schema": texts[1]})[1]["version"] == 3
    assert ask(http, "PUT", f"/config/{name}", {"normalize": True})[1] == {"compatibility": "NONE", "normalize": True}
    assert ask(http, "POST", f"/subjects/{name}/versions", {"schema": texts[0]})[1]["version"] == 3


def test_a_reference_to_the_latest_version_keeps_its_number(http: httpx.Client) -> None:
    inner, outer = unique("s"), unique("s")
    ask(http, "POST", f"/subjects/{inner}/versions", {"schema": '{"type":"enum","name":"E","symbols":["A"]}'})
    body = {"schema": '{"type":"array","items":"E"}', "references": [{"name": "E", "subject": inner, "version": -1}]}
    assert ask(http, "POST", f"/subjects/{outer}/versions", body)[0] == 200
    wider = {"schema": '{"type":"enum","name":"E","symbols":["A","B"]}'}
    assert ask(http, "POST", f"/subjects/{inner}/versions", wider)[0] == 200
    kept = ask(http, "GET", f"/subjects/{outer}/versions/1")[1]["references"]
    assert kept == [{"name": "E", "subject": inner, "version": 1}]
    assert ask(http, "GET", f"/subjects/{inner}/versions/1/referencedby")[1]
    nobody = {**body, "references": [{"name": "E", "subject": unique("s"), "version": -1}]}
    assert ask(http, "POST", f"/subjects/{outer}/versions", nobody)[1]["error_code"] == 42201


def test_deleted_versions_can_be_listed_with_a_minus(http: httpx.Client) -> None:
    name = unique("s")
    for schema in (INT, {"schema": '"long"'}):
        ask(http, "POST", f"/subjects/{name}/versions", schema)
    ask(http, "DELETE", f"/subjects/{name}/versions/1")
    assert ask(http, "GET", f"/subjects/{name}/versions?deletedAsNegative=true") == (200, [-1, 2])


def test_what_other_routes_answer(http: httpx.Client) -> None:
    made = ask(http, "POST", f"/subjects/{unique('s')}/versions", INT)[1]
    assert ask(http, "GET", f"/schemas/guids/{made['guid']}/ids") == (200, [{"context": ".", "id": made["id"]}])
    assert set(ask(http, "GET", "/v1/metadata/version")[1]) == {"version", "commitId"}
    proto = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message A { int32 a = 1; }'}
    made = ask(http, "POST", f"/subjects/{unique('s')}/versions", proto)[1]
    assert http.get(f"/schemas/ids/{made['id']}/schema").text == proto["schema"]
