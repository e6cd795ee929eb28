"""Events on their way: one by one, or those of many messages in short, spelled out where somebody needs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from goqueue.core.traces.span import Span

encode_lines: Final = msgspec.json.Encoder().encode_lines


class Many(Protocol):
    """Events of many messages."""

    @property
    def count(self) -> int: ...

    def spans(self) -> list[Span]: ...

    def lines(self) -> bytes:
        """The same as `encode_lines` of the spans."""
        ...


Entry: TypeAlias = Span | Many


def count_of(entry: Entry) -> int:
    return 1 if isinstance(entry, Span) else entry.count


def spelled_out(entries: Iterable[Entry]) -> list[Span]:
    found: list[Span] = []
    for one in entries:
        if isinstance(one, Span):
            found.append(one)
        else:
            found += one.spans()
    return found


def lines_of(entries: Sequence[Entry]) -> bytes:
    """One JSON object a line, one line an event."""
    return b"".join(encode_lines([one]) if isinstance(one, Span) else one.lines() for one in entries)
