"""Tables for phones: one that is too wide there becomes a list of cards, a row each. What a column is called goes into
its cells, since the head of such a table is not shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape, unescape
from typing import Final

_TABLE: Final = re.compile(r"<table>(.*?)</table>", re.DOTALL)
_HEAD: Final = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW: Final = re.compile(r"<tr>(.*?)</tr>", re.DOTALL)
_CELL: Final = re.compile(r"<td>(.*?)</td>", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_PIECE: Final = re.compile(r"\s|(?<=-)")  # where a browser may begin a new line
_PHONE_PX: Final = 358
_LETTER_PX: Final = 7
_PADDING_PX: Final = 22
_LAST_COLUMN_PX: Final = 14 * 20  # where there are three columns or more, see site.css
_SHORT_LETTERS: Final = 25


def with_cards(text: str) -> str:
    """The page. Tables of figures stay as they are: figures are compared by column."""
    return _TABLE.sub(lambda found: _cards(found[1]) if _is_wide(found[1]) else found[0], text)


def _columns(table: str) -> Sequence[Sequence[str]]:
    rows = [_CELL.findall(row) for row in _ROW.findall(table)]
    return list(zip(*(row for row in rows if row), strict=False))


def _is_wide(table: str) -> bool:
    if "<td style=" in table:
        return False
    columns = _columns(table)
    px = sum(max(map(_widest_px, column)) for column in columns)
    if len(columns) > 2:
        px += max(0, _LAST_COLUMN_PX - max(map(_widest_px, columns[-1])))
    return px > _PHONE_PX or "<br" in table


def _widest_px(cell: str) -> int:
    return max(len(piece) for piece in _PIECE.split(_plain(cell))) * _LETTER_PX + _PADDING_PX


def _cards(table: str) -> str:
    """Columns of a few words are named in each cell; a sentence needs no name."""
    heads, columns = [_plain(head) for head in _HEAD.findall(table)], _columns(table)
    named = {
        place: head
        for place, (head, column) in enumerate(zip(heads, columns, strict=False))
        if place > 0 and len(columns) > 2 and sum(len(_plain(one)) for one in column) < _SHORT_LETTERS * len(column)
    }

    def row(found: re.Match[str]) -> str:
        cells = _CELL.findall(found[1])
        return f"<tr>{''.join(_cell(cell, named.get(place, '')) for place, cell in enumerate(cells))}</tr>"

    head, mark, body = table.partition("</thead>")
    return f"<table data-cards>{head}{mark}{_ROW.sub(row, body)}</table>"


def _cell(cell: str, head: str) -> str:
    return f'<td data-head="{escape(head)}">{cell}</td>' if head and cell.strip() else f"<td>{cell.strip()}</td>"


def _plain(cell: str) -> str:
    return unescape(_TAG.sub(" ", cell) if "<br" in cell else _TAG.sub("", cell))
