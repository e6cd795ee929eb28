"""Arguments are checked before anything is sent: a wrong one is `invalid-field` with its name and what it may be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, get_args

from goqueue.base.choices import listed
from goqueue.client.errors import GoQueueClientError, WrongType, invalid


def choice(value: object, choices: Any, field: str) -> None:
    """One of the words of a `Literal`."""
    words = get_args(choices)
    if not any(value == word for word in words):
        raise invalid(_sentence(field, listed(words), value), field)


def whole_number(value: object, field: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(field, "a whole number", value)


def number(value: object, field: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(field, "a number", value)


def seconds(value: object, field: str) -> None:
    """A length of time by the clock, as clients wait; infinity is one."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise _wrong(field, "a number of seconds, 0 or more", value)


def flag(value: object, field: str) -> None:
    if not isinstance(value, bool):
        raise _wrong(field, "True or False", value)


def text(value: object, field: str) -> None:
    if not isinstance(value, str):
        raise _wrong(field, "text", value)


def content(value: object, field: str) -> None:
    """What a key, a value or a header's value may be."""
    if not isinstance(value, str | bytes | bytearray | memoryview | None):
        raise _wrong(field, "text, bytes or None", value)


def span(value: object, field: str) -> None:
    if not isinstance(value, int | str | timedelta) or isinstance(value, bool):
        raise _wrong(field, 'milliseconds, text like "10s" or a timedelta', value)


def moment(value: object, field: str) -> None:
    if not isinstance(value, int | str | datetime) or isinstance(value, bool):
        raise _wrong(field, "milliseconds since 1970, text like 2026-01-31T12:00:00Z or a datetime", value)


def priority(value: object, field: str) -> None:
    """The broker knows the names; here only what can be none."""
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise _wrong(field, "critical, high, normal, low, background or 0 to 4", value)


def setting(value: object, field: str) -> None:
    """A topic's setting; None takes it back to its default."""
    if not isinstance(value, str | int | float | None) or isinstance(value, bool):
        raise _wrong(field, "text, a number or None", value)


def mapping(value: object, field: str) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(field, "a mapping", value)


def instance(value: object, kind: type, field: str) -> None:
    if not isinstance(value, kind):
        raise _wrong(field, f"a {kind.__name__}", value)


def _wrong(field: str, allowed: str, value: object) -> GoQueueClientError:
    return WrongType(_sentence(field, allowed, value), field)


def _sentence(field: str, allowed: str, value: object) -> str:
    return f"{field} is {allowed}, not {repr(value)[:100]}."
