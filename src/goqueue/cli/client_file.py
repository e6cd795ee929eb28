"""A file of lines NAME=VALUE that says how a client logs in, as Kafka's own tools have them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from goqueue.cli.failures import Misused

_BYTES_MAX: Final = 64 * 1024


def named_values(file: str, known: Collection[str]) -> Iterator[tuple[str, str]]:
    """In the order of the file. `Misused` for one that cannot be read, or that has other names."""
    try:
        with Path(file).open("rb") as opened:
            lines = opened.read(_BYTES_MAX).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Misused(f"{file} cannot be read ({what}).") from None
    for line in (one.strip() for one in lines):
        if not line or line.startswith(("#", "!")):
            continue
        name, mark, value = (part.strip() for part in line.partition("="))
        if not mark or name not in known:
            names = ", ".join(sorted(known))
            raise Misused(f"{file} says {name[:60]!r}, which is not known here; lines are NAME=VALUE, with {names}.")
        yield name, value
