"""The pieces that sections are built of: cards, tables, tiles, and what stands where there is nothing yet."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from goqueue.pipeline.report.markup import Inner, Markup, tag

Cell: TypeAlias = "str | int | Markup | Amount"
_EXAMPLE_CHARS: Final = 2_000


class Amount(str):
    """A number with its unit: it stands right, as numbers do."""

    __slots__ = ()


class Section(msgspec.Struct, frozen=True):
    """A part of the page with a name to jump to."""

    anchor: str
    title: str
    lead: str
    inner: tuple[Markup, ...]


class Tile(msgspec.Struct, frozen=True):
    """One number that matters. `mood` is `good`, `bad` or nothing."""

    name: str
    value: str
    note: str = ""
    mood: str = ""


def card(title: str, *inner: Inner, note: str = "", half: bool = False) -> Markup:
    head = tag("h3", title, tag("small", note) if note else None)
    return tag("div", head, *inner, class_="card half" if half else "card")


def tile(one: Tile) -> Markup:
    note = tag("small", one.note) if one.note else None
    return tag("div", tag("span", one.name), tag("b", one.value), note, class_=f"tile {one.mood}".strip())


def table(heads: Sequence[Cell], rows: Sequence[Sequence[Cell]]) -> Markup:
    """Numbers stand right, with all their digits."""
    right = [bool(rows) and all(isinstance(row[place], int | Amount) for row in rows) for place in range(len(heads))]
    top = tag("tr", *(tag("th", _cell(head), class_=_side(right[place])) for place, head in enumerate(heads)))
    body = [tag("tr", *(tag("td", _cell(cell), class_=_side(right[n])) for n, cell in enumerate(row))) for row in rows]
    return tag("div", tag("table", tag("thead", top), tag("tbody", *body)), class_="wide")


def _side(is_number: bool) -> str | None:
    return "num" if is_number else None


def _cell(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else cell


def numbers(heads: Sequence[Cell], rows: Sequence[Sequence[Cell]]) -> Markup:
    """What a plot shows, as a table that is folded away."""
    return tag("details", tag("summary", "Numbers"), table(heads, rows))


def example(value: str) -> Markup:
    """A message's content, folded away and cut where it is long."""
    shown = value[:_EXAMPLE_CHARS]
    cut = f" … ({len(value) - _EXAMPLE_CHARS:,} characters more)" if len(value) > _EXAMPLE_CHARS else ""
    return tag("details", tag("summary", "Example"), tag("pre", shown + cut))


def fine(text: str) -> Markup:
    """It was looked for, and there is none."""
    return tag("p", text, class_="fine")


def missing(what: str, pipeline: str, lake: str, topics: Sequence[str] = ()) -> Markup:
    """It was never looked for: says which pipeline does."""
    named = f" --topics {','.join(topics) or 'TOPIC,…'}" if pipeline != "compact" else ""
    command = f"goqueue pipeline run {pipeline}{named} --lake {shlex.quote(lake)}"
    return tag("p", f"{what} ", tag("code", command), class_="missing")
