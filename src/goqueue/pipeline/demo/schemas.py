"""What the shop registers: orders in two versions, payments in one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from goqueue.client import Client
from goqueue.client.schemas import NewSchema, register_schema

_TEXT: Final = {"type": "string"}
_ITEM: Final = {
    "type": "object",
    "properties": {
        "sku": _TEXT,
        "count": {"type": "integer", "minimum": 1},
        "cents": {"type": "integer", "minimum": 0},
    },
    "required": ["sku", "count", "cents"],
    "additionalProperties": False,
}
_ADDRESS: Final = {
    "type": "object",
    "properties": {"city": _TEXT, "street": _TEXT},
    "required": ["city", "street"],
    "additionalProperties": False,
}
_ORDER: Final = {
    "order": _TEXT,
    "customer": _TEXT,
    "items": {"type": "array", "items": _ITEM, "minItems": 1},
    "total": {"type": "integer", "minimum": 0},
    "currency": {"enum": ["EUR", "GBP", "USD"]},
    "address": _ADDRESS,
    "depot": {"type": "integer", "minimum": 1},
}
_PAYMENT: Final = {
    "payment": _TEXT,
    "order": _TEXT,
    "cents": {"type": "integer", "minimum": 1},
    "method": {"enum": ["card", "invoice", "transfer"]},
    "bank": _TEXT,
}


def _closed(properties: dict[str, Any], required: list[str]) -> str:
    """Closed, so that a new field is a new version."""
    told = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return json.dumps(told)


VERSIONS: Final = {
    ("orders", 1): _closed(_ORDER, list(_ORDER)),
    ("orders", 2): _closed(_ORDER | {"channel": _TEXT, "coupon": _TEXT}, list(_ORDER)),
    ("payments", 1): _closed(_PAYMENT, ["payment", "order", "cents", "method"]),
}


FIRST: Final = (("orders", 1), ("payments", 1))
SECOND: Final = (("orders", 2),)


def register(client: Client, some: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The registry's ids of these topics and versions."""
    found: dict[tuple[str, int], int] = {}
    for topic, version in some:
        told = client.perform(register_schema(f"{topic}-value", NewSchema(VERSIONS[topic, version], "JSON")))
        assert told.id is not None
        found[topic, version] = told.id
    return found
