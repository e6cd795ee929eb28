"""A path into JSON, like `$.order.items[0].id`, and what is to stand there: `$.order.id=42`, or that it is there."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from goqueue.base.errors import InvalidField
from goqueue.base.limits import JSON_PATH_CHARS_MAX, JSON_PATH_STEPS_MAX

_STEP: Final = re.compile(r"""\.([^.\[\]=\s]+)|\[(\d{1,9})\]|\["([^"]*)"\]|\[(\*)\]""")
_EVERY: Final = object()


class JsonPath:
    """`matches` tells of a value that was read from JSON. A step `[*]` is any element of a list."""

    def __init__(self, text: str, field: str = "path") -> None:
        if len(text) > JSON_PATH_CHARS_MAX or not text.startswith("$"):
            raise InvalidField(f"A path begins with $ and has at most {JSON_PATH_CHARS_MAX} characters.", field=field)
        self._steps: list[str | int | object] = []
        at = 1
        while at < len(text) and text[at] != "=":
            step = _STEP.match(text, at)
            if step is None:
                raise InvalidField(f"{text[at : at + 40]!r} is no step of a path: .name, [0], [*].", field=field)
            name, number, quoted, every = step.groups()
            self._steps.append(_EVERY if every else int(number) if number else name if name is not None else quoted)
            at = step.end()
        if len(self._steps) > JSON_PATH_STEPS_MAX:
            raise InvalidField(f"A path has at most {JSON_PATH_STEPS_MAX} steps.", field=field)
        self._wanted = text[at + 1 :] if at < len(text) else None

    def matches(self, value: Any) -> bool:
        found = [value]
        for step in self._steps:
            found = [inner for one in found for inner in _inside(one, step)]
        if self._wanted is None:
            return bool(found)
        return any(self._is_wanted(one) for one in found)

    def _is_wanted(self, value: Any) -> bool:
        """As text, or as JSON writes it."""
        return value == self._wanted if isinstance(value, str) else msgspec.json.encode(value).decode() == self._wanted


def _inside(value: Any, step: str | int | object) -> list[Any]:
    if step is _EVERY:
        return value if isinstance(value, list) else []
    if isinstance(step, str):
        return [value[step]] if isinstance(value, dict) and step in value else []
    assert isinstance(step, int)
    return [value[step]] if isinstance(value, list) and step < len(value) else []
