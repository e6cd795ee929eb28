"""`python -m tools.kafka_codec.adopt DIRECTORY [API ...]`: take over the definitions of Kafka's own message files.

Kafka keeps a file for each request and response; here one file an API has what the generator needs and nothing else.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from tools.kafka_codec.model import APIS, DEFINITIONS, snake, usual_default

Fields = list[dict[str, Any]]

# Where a request and its response have different structs of one name: that of the response is called otherwise.
_RENAMED = {"AlterClientQuotasResponse": {"EntryData": "EntryResult"}}


def adopted(directory: Path, api: str) -> str:
    """The text of the API's file in `definitions/`."""
    request, response = (_source(directory / f"{api}{kind}.json") for kind in ("Request", "Response"))
    for key in ("apiKey", "validVersions", "flexibleVersions"):
        if request[key] != response[key]:
            raise ValueError(f"{api}: request and response differ in {key}")
    head: dict[str, Any] = {"name": api, "key": request["apiKey"], "versions": request["validVersions"]}
    if request["flexibleVersions"] != "none":
        head["flexible"] = request["flexibleVersions"]
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    parts = [f' "{kind}": {_text(_structs(source))}' for kind, source in (("request", request), ("response", response))]
    return "\n".join(["{", *lines, ",\n".join(parts), "}", ""])


def _source(path: Path) -> dict[str, Any]:
    text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    for theirs, ours in _RENAMED.get(path.stem, {}).items():
        text = text.replace(f'"[]{theirs}"', f'"[]{ours}"')
    found: dict[str, Any] = json.loads(text)
    return found


def _text(structs: dict[str, Fields]) -> str:
    """One line a field, so that a change is seen where it is."""
    parts = []
    for name, fields in structs.items():
        lines = ",\n".join(f"   {json.dumps(field)}" for field in fields)
        parts.append(f'  "{name}": [\n{lines}\n  ]' if fields else f'  "{name}": []')
    return "{\n" + ",\n".join(parts) + "\n }"


def _structs(source: dict[str, Any]) -> dict[str, Fields]:
    """Children before parents; the message itself is last."""
    structs: dict[str, Fields] = {}
    common = {each["name"]: each["fields"] for each in source.get("commonStructs", ())}
    _add(source["name"], source["fields"], common, structs)
    return structs


def _add(name: str, fields: Fields, common: dict[str, Fields], structs: dict[str, Fields]) -> None:
    for each in fields:
        kind = each["type"].removeprefix("[]")
        if kind[0].isupper() and kind not in structs:
            _add(kind, each.get("fields") or common[kind], common, structs)
    made = [_field(each) for each in fields]
    if structs.setdefault(name, made) != made:
        raise ValueError(f"two structs are named {name}")


def _field(source: dict[str, Any]) -> dict[str, Any]:
    if source["type"] == "[]uuid" or "flexibleVersions" in source:
        raise ValueError(f"{source['name']} needs something the generator does not know")
    made = {"name": snake(source["name"]), "type": source["type"], "versions": source["versions"]}
    for ours, theirs in (("nullable", "nullableVersions"), ("tag", "tag"), ("tagged", "taggedVersions")):
        if source.get(theirs, "none") != "none":
            made[ours] = source[theirs]
    array, kind = source["type"].startswith("[]"), source["type"].removeprefix("[]")
    default = _default(kind, array, source.get("default"))
    return made if default == usual_default(kind, array) else made | {"default": default}


def _default(kind: str, array: bool, given: Any) -> Any:
    if given == "null":
        return None
    usual = usual_default(kind, array)
    if given is None or array:
        return usual
    if isinstance(usual, bool):
        return given in (True, "true")
    if isinstance(usual, int):
        return int(str(given or 0), 0)
    return type(usual)(given) if isinstance(usual, str | float) else usual


if __name__ == "__main__":
    for api in sys.argv[2:] or APIS:
        (DEFINITIONS / f"{snake(api)}.json").write_text(adopted(Path(sys.argv[1]), api))
