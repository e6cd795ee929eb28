"""JSON that strangers send: bounded in depth before it is parsed, exact in its numbers, one text for equal values."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from goqueue.base.limits import NUMBER_DIGITS_MAX, SCHEMA_DEPTH_MAX
from goqueue.core.schemas.errors import InvalidSchema

# A string that never ends goes to the end of the text: looking for its end again and again would take for ever.
_MARKS: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)


def load_json(text: str) -> Any:
    """The value; `InvalidSchema` if it is not JSON or nested too deep."""
    depth = 0
    for mark in _MARKS.finditer(text):
        first = mark[0]
        if first in "[{":
            depth += 1
            if depth > SCHEMA_DEPTH_MAX:
                raise InvalidSchema(f"The schema is nested more than {SCHEMA_DEPTH_MAX} deep.", field="schema")
        elif first in "]}":
            depth -= 1
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite, parse_int=_short)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"The schema is not JSON: {error}.", field="schema") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _short(text: str) -> int:
    if len(text) > NUMBER_DIGITS_MAX:
        raise ValueError(f"a number of more than {NUMBER_DIGITS_MAX} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
