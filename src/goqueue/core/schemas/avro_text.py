"""Avro schemas as text: one form for all that differ only in writing, and a normal form that goes further.

The first is what Avro's own libraries print, in their order of attributes; Confluent's registry keeps and gives back
that. The normal form writes every name in full and sorts the attributes that Avro does not know.
"""

from __future__ import annotations

import json
from typing import Any, Final

_NAMED: Final = ("record", "error", "enum", "fixed")
_KNOWN: Final = frozenset(
    {"type", "name", "namespace", "doc", "fields", "items", "values", "size", "symbols", "aliases"}
)
_KNOWN_OF_FIELD: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})


def canonical_avro(value: Any, referred: frozenset[str]) -> str:
    """As Avro prints it. `referred` are the full names of types that references define."""
    return _dumped(_Writer(referred, is_normal=False).written(value, ""))


def normal_avro(value: Any, referred: frozenset[str]) -> str:
    return _dumped(_Writer(referred, is_normal=True).written(value, ""))


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class _Writer:
    """The value was parsed before, so everything has its right form."""

    def __init__(self, referred: frozenset[str], is_normal: bool) -> None:
        self._defined = set(referred)
        self._is_normal = is_normal

    def written(self, value: Any, space: str) -> Any:
        if isinstance(value, str):
            return self._name(value, space)
        if isinstance(value, list):
            return [self.written(one, space) for one in value]
        kind = value["type"]
        if kind in _NAMED:
            return self._named(value, space)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            return {"type": kind, key: self.written(value[key], space), **self._others(value, _KNOWN)}
        others = self._others(value, _KNOWN)
        inner = self.written(kind, space)
        return {"type": inner, **others} if others and isinstance(inner, str) else inner

    def _name(self, name: str, space: str) -> str:
        full = name if "." in name or f"{space}.{name}" not in self._defined else f"{space}.{name}"
        if not self._is_normal and space and full == f"{space}.{full.rpartition('.')[2]}":
            return full.rpartition(".")[2]
        return full

    def _named(self, value: dict[str, Any], outer: str) -> dict[str, Any]:
        given = str(value["name"])
        space = given.rpartition(".")[0] if "." in given else str(value.get("namespace", outer) or "")
        short = given.rpartition(".")[2]
        full = f"{space}.{short}" if space else short
        self._defined.add(full)
        made: dict[str, Any] = {"type": value["type"], "name": short}
        if self._is_normal:
            made = {"name": full, "type": value["type"]}
        elif space != outer:
            made["namespace"] = space
        if "doc" in value and not self._is_normal:
            made["doc"] = value["doc"]
        made |= self._contents(value, space)
        if "doc" in value and self._is_normal:
            made["doc"] = value["doc"]
        made |= self._others(value, _KNOWN | {"default"} if value["type"] == "enum" else _KNOWN)
        if value.get("aliases"):
            made["aliases"] = [self._alias(one, space) for one in value["aliases"]]
        return made

    def _contents(self, value: dict[str, Any], space: str) -> dict[str, Any]:
        if value["type"] == "enum":
            default = {"default": value["default"]} if value.get("default") is not None else {}
            return {"symbols": value["symbols"], **default}
        if value["type"] == "fixed":
            return {"size": value["size"]}
        return {"fields": [self._field(one, space) for one in value["fields"]]}

    def _field(self, field: dict[str, Any], space: str) -> dict[str, Any]:
        made: dict[str, Any] = {"name": field["name"], "type": self.written(field["type"], space)}
        made |= {name: field[name] for name in ("doc", "default") if name in field}
        if str(field.get("order", "ascending")).lower() != "ascending":
            made["order"] = str(field["order"]).lower()
        if field.get("aliases"):
            made["aliases"] = field["aliases"]
        return made | self._others(field, _KNOWN_OF_FIELD)

    def _alias(self, alias: str, space: str) -> str:
        if self._is_normal:
            return alias if "." in alias or not space else f"{space}.{alias}"
        return alias.removeprefix(f"{space}.") if space and alias.rpartition(".")[0] == space else alias

    def _others(self, value: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
        found = [(name, one) for name, one in value.items() if name not in known]
        return dict(sorted(found) if self._is_normal else found)
