"""What is wrong with a pipeline's file, with the line where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from goqueue.pipeline.link.errors import PipelineError

_HEADER: Final = re.compile(r"^\s*\[+\s*([A-Za-z0-9_-]+)")
_LIST: Final = re.compile(r"^\s*\[\[")
_KEY: Final = re.compile(r"^\s*([A-Za-z0-9_-]+)\s*(?:=|\.)")
_TRIPLE: Final = re.compile(r'"""|\'\'\'')

Where = tuple[str, int, str]


class PipelineFileError(PipelineError):
    """One line for each mistake: `orders.toml:12: ...`."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class Mistake(msgspec.Struct, frozen=True):
    """`where` is a section, its number among those of its kind, and a key; `below` are lines further down in a text."""

    message: str
    where: Where = ("", 0, "")
    below: int = 0


class Lines:
    """Where every section and key of a file stands."""

    def __init__(self, text: str) -> None:
        self._found: Mapping[Where, int] = dict(_places(text))

    def line(self, where: Where) -> int:
        """The key's line, or the section's, or the first of the file."""
        section, number, _ = where
        return self._found.get(where) or self._found.get((section, number, "")) or 1


def _places(text: str) -> Iterator[tuple[Where, int]]:
    counts: dict[str, int] = {}
    section, number, open_quote = "", 0, ""
    for line, content in enumerate(text.splitlines(), 1):
        if open_quote:
            open_quote = "" if open_quote in content else open_quote
            continue
        header = _HEADER.match(content)
        if header:
            section = header[1]
            number = counts.get(section, -1) + 1 if _LIST.match(content) else 0
            counts[section] = number
            yield (section, number, ""), line
        elif key := _KEY.match(content):
            yield (section, number, key[1]), line
        quotes = _TRIPLE.findall(content)
        open_quote = quotes[0] if len(quotes) % 2 else ""


def refusal(file: str, lines: Lines, found: Sequence[Mistake]) -> PipelineFileError:
    placed = sorted({(lines.line(one.where) + one.below, one.message) for one in found})
    return PipelineFileError("\n".join(f"{file}:{line}: {message}" for line, message in placed))
