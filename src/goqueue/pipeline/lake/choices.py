"""Options of the lake's pipelines, read from the texts that users write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms, parse_time_ms
from goqueue.pipeline.lake.errors import LakeError

_WORDS: Final = {"yes": True, "true": True, "no": False, "false": False}


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    word = options.get(name, "yes" if default else "no").strip().lower()
    if word not in _WORDS:
        raise LakeError(f"The option {name} is yes or no, not {options[name]!r}.")
    return _WORDS[word]


def number(options: Mapping[str, str], name: str, default: int | None, least: int = 1) -> int | None:
    text = options.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < least:
        raise LakeError(f"The option {name} is a whole number from {least} on, not {text!r}.")
    return int(text)


def moment_ms(options: Mapping[str, str], name: str) -> int | None:
    try:
        return parse_time_ms(options[name], name) if name in options else None
    except InvalidField as error:
        raise LakeError(f"The option {name}: {error.message}") from None


def duration_ms(options: Mapping[str, str], name: str, default: str | None = None) -> int | None:
    text = options.get(name, default)
    try:
        return None if text is None else parse_duration_ms(text, name)
    except InvalidField as error:
        raise LakeError(f"The option {name}: {error.message}") from None


def one_of(options: Mapping[str, str], name: str, words: tuple[str, ...]) -> str:
    """The first word if nothing is said."""
    word = options.get(name, words[0]).strip().lower()
    if word not in words:
        raise LakeError(f"The option {name} is {' or '.join(words)}, not {options[name]!r}.")
    return word


def names(options: Mapping[str, str], name: str) -> list[str]:
    return [one.strip() for one in options.get(name, "").split(",") if one.strip()]
