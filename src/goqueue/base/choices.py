"""The words that a place in a type allows, for errors that name them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import inspect


def choices_at(kind: Any, path: str) -> list[str]:
    """What may stand at a path of JSON like `messages[0].encoding`; empty unless it is one of a few words."""
    steps = re.findall(r"[^.\[\]]+|\[\.*\d*\]", path)
    found = (word for info in _walk(inspect.type_info(kind), steps) for word in _words(info))
    return list(dict.fromkeys(found))


def listed(words: Sequence[str]) -> str:
    """`none, leader or all`."""
    return " or ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _walk(info: inspect.Type, steps: list[str]) -> Iterator[inspect.Type]:
    if isinstance(info, inspect.UnionType):
        for one in info.types:
            yield from _walk(one, steps)
    elif isinstance(info, inspect.Metadata):
        yield from _walk(info.type, steps)
    elif not steps:
        yield info
    elif isinstance(info, inspect.StructType):
        for field in info.fields:
            if field.encode_name == steps[0]:
                yield from _walk(field.type, steps[1:])
    elif isinstance(info, inspect.DictType):
        yield from _walk(info.value_type, steps[1:])
    elif isinstance(info, inspect.ListType | inspect.VarTupleType):
        yield from _walk(info.item_type, steps[1:])


def _words(info: inspect.Type) -> list[str]:
    if isinstance(info, inspect.LiteralType):
        return [str(value) for value in info.values]
    if isinstance(info, inspect.EnumType):
        return [str(one.value) for one in info.cls]
    return []
