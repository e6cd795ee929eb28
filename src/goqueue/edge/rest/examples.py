"""What a route is for, and a body that it takes: told by its own types, so that neither can be out of date.

A body's example has what is required; of the rest, what `_WORTH` names. A test reads every one of them by its type.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from goqueue.edge.rest.operations import RestOperation

# What people would write there, by the name of the field.
_SAMPLES: Final[dict[str, Any]] = {
    "acks": "all",
    "client_id": "till-1",
    "compatibility": "FULL",
    "config": {"retention.ms": 86_400_000},
    "epoch": 0,
    "generation": 1,
    "group": "billing",
    "key": "user-1",
    "limits": {"producer_byte_rate": 1_000_000},
    "member_id": "till-1",
    "messages": [{"key": "user-1", "value": "hello"}],
    "mode": "READWRITE",
    "name": "orders",
    "num_partitions": 3,
    "offset": 0,
    "owner": "ada",
    "partition": 0,
    "partitions": 6,
    "password": "a long password",
    "principal": "User:ada",
    "producer_id": 1,
    "receipt": "orders:0:7:1:nonce",
    "schema": '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}',
    "throttle": 50_000_000,
    "timeout": "30s",
    "to": "earliest",
    "topic": "orders",
    "topics": ["orders"],
    "transactional_id": "orders-writer",
    "user": "ada",
    "value": "hello",
    "writer": "part-0",
}
_WORTH: Final = frozenset({"num_partitions", "config", "receipt", "key", "schema", "compatibility", "user", "group"})
_DEPTH_MAX: Final = 4


def description_of(one: RestOperation) -> str:
    """What the types of its body and of its answer say about themselves."""
    found: list[str] = []
    for title, kind in (("Body", one.body), ("Answer", one.reply)):
        text = vars(kind).get("__doc__") if isinstance(kind, type) else None  # its own, not that of its base
        if text and kind.__module__.startswith("goqueue"):
            found.append(f"{title}: {' '.join(text.split())}")
    return "\n\n".join(found)


def example_of(one: RestOperation) -> Any:
    """A body that the route's type takes."""
    return _example(msgspec.inspect.type_info(one.body), 0)


def _example(kind: msgspec.inspect.Type, depth: int) -> Any:
    match kind:
        case msgspec.inspect.StructType():
            return {
                field.encode_name: _field(field, depth)
                for field in kind.fields
                if field.required or (field.encode_name in _WORTH and not depth)
            }
        case msgspec.inspect.UnionType():
            return _example(kind.types[0], depth)
        case msgspec.inspect.ListType() | msgspec.inspect.CollectionType():
            return [_example(kind.item_type, depth + 1)] if depth < _DEPTH_MAX else []
        case msgspec.inspect.LiteralType():
            return kind.values[0]
        case msgspec.inspect.EnumType():
            return next(iter(kind.cls)).value
        case msgspec.inspect.StrType():
            return "text"
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return kind.ge if kind.ge is not None else 1
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.DictType():
            return {}
        case _:
            return None


def _field(field: msgspec.inspect.Field, depth: int) -> Any:
    """The sample of its name, if its type takes it."""
    if field.encode_name in _SAMPLES:
        sample = _SAMPLES[field.encode_name]
        if _takes(field.type, sample):
            return sample
    return _example(field.type, depth + 1)


def _takes(kind: msgspec.inspect.Type, sample: Any) -> bool:
    kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    wanted = {
        str: msgspec.inspect.StrType,
        int: msgspec.inspect.IntType,
        list: msgspec.inspect.ListType,
        dict: msgspec.inspect.DictType,
    }[type(sample)]
    literals = [value for one in kinds if isinstance(one, msgspec.inspect.LiteralType) for value in one.values]
    lists = [one for one in kinds if isinstance(one, wanted)]
    if isinstance(sample, list) and lists:
        return all(_takes_element(lists[0], one) for one in sample)
    return sample in literals or bool(lists)


def _takes_element(kind: Any, sample: Any) -> bool:
    inner = kind.item_type
    if isinstance(sample, dict):
        return isinstance(inner, msgspec.inspect.StructType) and inner.cls.__name__ == "MessageIn"
    return isinstance(inner, msgspec.inspect.StrType)
