"""The five priority lanes: their names, numbers and the record header that carries them."""

from __future__ import annotations

from typing import Final

from goqueue.base.commands import Headers
from goqueue.base.errors import InvalidField

HEADER: Final = "goqueue-priority"
NAMES: Final = ("critical", "high", "normal", "low", "background")
NORMAL: Final = 2
_DIGITS: Final = tuple(str(number) for number in range(len(NAMES)))


def parse_priority(value: str | int, field: str = "priority") -> int:
    """The lane's number, from its name or number; 0 (critical) is a lane like any other."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(NAMES):
        return value
    if isinstance(value, str):
        if value in NAMES:
            return NAMES.index(value)
        if value in _DIGITS:
            return int(value)
    raise InvalidField(f"{value!r} is not a priority; use {', '.join(NAMES)} or 0 to 4.", field=field)


def lane_of(value: bytes | None) -> int | None:
    """The lane that a priority header names; None if it names none."""
    try:
        return None if value is None else parse_priority(value.decode("ascii"))
    except (InvalidField, UnicodeDecodeError):
        return None


def priority_of(headers: Headers) -> int:
    """The lane a record's headers name; absent or unreadable means normal."""
    for name, value in headers:
        if name == HEADER:
            lane = lane_of(value)
            return NORMAL if lane is None else lane
    return NORMAL
