"""Settings that are written once for all nodes of a set, and differ by the node's number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ID: Final = "{id}"
_SUM: Final = re.compile(r"(\d{1,5})\+\{id\}")
_LAST_NUMBER: Final = re.compile(r"-(\d{1,9})(?:\.|$)")


def number_in_hostname(hostname: str) -> int:
    """2 of `goqueue-2` and of `goqueue-2.goqueue.default.svc`; `ValueError` if there is none."""
    found = _LAST_NUMBER.search(hostname)
    if found is None:
        raise ValueError(f"the host's name {hostname!r} has no number at its end, as goqueue-2 has; give node.id")
    return int(found[1])


def with_number(address: str, number: int) -> str:
    """`{id}` stands for the number, `31090+{id}` for a sum."""
    return _SUM.sub(lambda found: str(int(found[1]) + number), address).replace(ID, str(number))


def rack_in(file: str) -> str:
    """`OSError`, or `ValueError` if it is not the name of a rack."""
    found = Path(file).read_text("utf-8").strip()
    if not re.fullmatch(r"[\x21-\x7e]{0,100}", found):
        raise ValueError(f"{file} does not hold the name of a rack, one word of at most 100 characters")
    return found
