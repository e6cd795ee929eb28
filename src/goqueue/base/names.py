"""Names users choose. Validated before any of them can become a path."""

from __future__ import annotations

import re

from goqueue.base.errors import InvalidName
from goqueue.base.limits import NAME_CHARS_MAX

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_name(name: str) -> bool:
    """Whether a topic, a group or the like can be called this."""
    return len(name) <= NAME_CHARS_MAX and name not in (".", "..") and _LEGAL.fullmatch(name) is not None


def check_name(name: str, kind: str = "topic", field: str = "name") -> str:
    """Returns the name, or raises `InvalidName` saying what is wrong with it."""
    if not name:
        raise InvalidName(f"The {kind} name is empty; use 1 to {NAME_CHARS_MAX} characters.", field=field)
    if len(name) > NAME_CHARS_MAX:
        raise InvalidName(f"The {kind} name has {len(name)} characters; use at most {NAME_CHARS_MAX}.", field=field)
    if name in (".", ".."):
        raise InvalidName(f"A {kind} cannot be called {name!r}.", field=field)
    if not _LEGAL.fullmatch(name):
        raise InvalidName(
            f"The {kind} name {name!r} has characters outside a-z, A-Z, 0-9, '.', '_' and '-'.", field=field
        )
    return name


def unified(name: str) -> str:
    """The name as Kafka's metrics write it; topics must differ in this."""
    return name.replace(".", "_")
