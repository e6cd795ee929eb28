"""The query protocol's requests: a flat form, `Entry.1.Name=x`, folded into what JSON requests carry.

Lists are numbered from 1 (a lone element may go without its number); maps are lists of name and value.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

from goqueue.edge.sqs.errors import SqsError

_FIELDS_MAX: Final = 5_000
_DEPTH_MAX: Final = 8

_LISTS: Final = {
    "AttributeName": "AttributeNames",
    "MessageAttributeName": "MessageAttributeNames",
    "MessageSystemAttributeName": "MessageSystemAttributeNames",
    "SendMessageBatchRequestEntry": "Entries",
    "DeleteMessageBatchRequestEntry": "Entries",
    "ChangeMessageVisibilityBatchRequestEntry": "Entries",
    "AWSAccountId": "AWSAccountIds",
    "ActionName": "Actions",
    "Entries": "Entries",
    "TagKey": "TagKeys",
}
_MAPS: Final = {
    "Attribute": ("Attributes", "Name"),
    "MessageAttribute": ("MessageAttributes", "Name"),
    "MessageSystemAttribute": ("MessageSystemAttributes", "Name"),
    "Tag": ("Tags", "Key"),
}
_PLURALS: Final = {plural: name for name, plural in _LISTS.items() if plural != "Entries"} | {
    plural: name for name, (plural, _) in _MAPS.items()
}


def parse_form(text: str) -> dict[str, Any]:
    """A form as JSON would say it, `Action` and `Version` included; all leaves are text."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise SqsError("MalformedInput", "The form cannot be read.") from None
    tree: dict[str, Any] = {}
    for name, value in pairs:
        _put(tree, name.split("."), value)
    return _folded(tree)


def _put(tree: dict[str, Any], path: list[str], value: str) -> None:
    if len(path) > _DEPTH_MAX:
        raise SqsError("MalformedInput", f"The parameter {'.'.join(path)[:200]} is too deep.")
    level: Any = tree
    for part in path[:-1]:
        level = level.setdefault(part, {}) if isinstance(level, dict) else None
    if not isinstance(level, dict) or isinstance(level.get(path[-1]), dict):
        raise SqsError("MalformedInput", f"The parameter {'.'.join(path)[:200]} contradicts another.")
    level[path[-1]] = value


def _folded(tree: dict[str, Any]) -> dict[str, Any]:
    """Numbered lists and maps of this level become lists and dicts; single values stay."""
    folded: dict[str, Any] = {}
    for given, value in tree.items():
        name = _PLURALS.get(given, given)
        if name in _LISTS:
            folded[_LISTS[name]] = [_one(element) for element in _numbered(value)]
        elif name in _MAPS:
            plural, key = _MAPS[name]
            folded[plural] = dict(_pair(entry, name, key) for entry in _numbered(value))
        else:
            folded[name] = _one(value)
    if "Tags" in folded:
        folded["tags"] = folded["Tags"]  # CreateQueue writes it small
    return folded


def _one(value: Any) -> Any:
    return _folded(value) if isinstance(value, dict) else value


def _numbered(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        return [value] if value else []  # that is how clients write an empty list
    numbers = [number for number in value if number.isdecimal() and len(number) < 6]
    if not numbers:
        return [value]
    return [value[number] for number in sorted(numbers, key=int)]


def _pair(entry: Any, name: str, key: str) -> tuple[str, Any]:
    if not isinstance(entry, dict) or not isinstance(entry.get(key), str) or "Value" not in entry:
        raise SqsError("MissingParameter", f"Each {name} needs a {key} and a Value.")
    return entry[key], _one(entry["Value"])
