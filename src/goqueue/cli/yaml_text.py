"""Plain data as YAML, for eyes and for tools that read it. Whatever could be taken for something else is quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

import msgspec

# A text that no reader of YAML 1.1 or 1.2 takes for anything but a text.
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def to_yaml(value: object) -> str:
    """Of anything that JSON can have."""
    return "\n".join(_lines(msgspec.to_builtins(value, str_keys=True)))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, held in value.items():
            yield from _member(f"{_text(str(name))}:", held)
    elif isinstance(value, list | tuple) and value:
        for held in value:
            inner = list(_lines(held))
            yield f"- {inner[0]}"
            yield from (f"  {line}" for line in inner[1:])
    else:
        yield _scalar(value)


def _member(head: str, held: object) -> Iterator[str]:
    if isinstance(held, dict | list | tuple) and held:
        yield head
        yield from (f"  {line}" for line in _lines(held))
    else:
        yield f"{head} {_scalar(held)}"


def _scalar(value: object) -> str:
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())
