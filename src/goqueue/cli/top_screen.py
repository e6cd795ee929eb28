"""The screen of `goqueue top`: what keys do to it, and how it looks. No terminal and no clock in here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.cli.top_rows import VIEWS, TopRow, TopView
from goqueue.cli.top_sample import TopSample

if TYPE_CHECKING:
    from rich.console import RenderableType

_FILTER_CHARS_MAX: Final = 100
_HELP: Final = "q end   ←→ page   ↑↓ line   s sort   r reverse   / filter   p pause"


class TopScreen(msgspec.Struct):
    """One person's choices. `is_over` when they want to leave."""

    view: int = 0
    sort: int = VIEWS[0].sort
    ascending: bool = False
    selected: int = 0
    wanted: str = ""
    is_typing: bool = False
    is_paused: bool = False
    is_over: bool = False
    rows: list[TopRow] = []

    def press(self, key: str) -> None:
        """`key` is a character, or `up`, `down`, `left`, `right`, `enter`, `escape`, `backspace`, `tab`."""
        if self.is_typing:
            self._type(key)
            return
        if key in ("q", "Q"):
            self.is_over = True
        elif key in ("right", "tab", "left"):
            self._turn(-1 if key == "left" else 1)
        elif key in ("down", "j", "up", "k"):
            self._move(1 if key in ("down", "j") else -1)
        elif key == "s":
            self.sort = (self.sort + 1) % len(self.page.columns)
        elif key == "r":
            self.ascending = not self.ascending
        elif key == "p":
            self.is_paused = not self.is_paused
        elif key == "/":
            self.is_typing = True
        elif key == "escape":
            self.wanted = ""
        elif key.isdecimal() and 1 <= int(key) <= len(VIEWS):
            self._turn(int(key) - 1 - self.view)

    @property
    def page(self) -> TopView:
        return VIEWS[self.view]

    def _type(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.is_typing = False
            self.wanted = "" if key == "escape" else self.wanted
        elif key == "backspace":
            self.wanted = self.wanted[:-1]
        elif len(key) == 1 and key.isprintable() and len(self.wanted) < _FILTER_CHARS_MAX:
            self.wanted += key
        self.selected = 0

    def _turn(self, by: int) -> None:
        self.view = (self.view + by) % len(VIEWS)
        self.sort, self.ascending, self.selected = self.page.sort, False, 0

    def _move(self, by: int) -> None:
        self.selected = max(0, min(len(self.rows) - 1, self.selected + by))

    def take(self, now: TopSample, before: TopSample) -> None:
        """Computes the rows anew: filtered by the texts in them, and sorted. Topics of the broker's own are left out
        unless the filter begins as their names do."""
        rows = self.page.rows(now, before)
        wanted = self.wanted.lower()
        fitting = [row for row in rows if any(isinstance(cell, str) and wanted in cell.lower() for cell in row)]
        if not wanted.startswith("_"):
            fitting = [row for row in fitting if not str(row[0]).startswith("__")]
        fitting.sort(key=lambda row: [str(cell) for cell in row])
        fitting.sort(key=lambda row: row[self.sort], reverse=not self.ascending)
        self.rows = fitting
        self.selected = max(0, min(self.selected, len(fitting) - 1))

    # --- how it looks -------------------------------------------------------------------------------------

    def draw(self, head: str, height: int) -> RenderableType:
        """At most `height` lines, around the selected one."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        room = max(1, height - 8)  # what stands above and below the rows
        first = max(0, min(self.selected - room // 2, len(self.rows) - room))
        table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, header_style="bold")
        for place, column in enumerate(self.page.columns):
            arrow = ("▲" if self.ascending else "▼") if place == self.sort else ""
            table.add_column(
                Text(f"{column.title}{arrow}"),
                justify="left" if column.show is None else "right",
                no_wrap=True,
                overflow="ellipsis",
            )
        for place, row in enumerate(self.rows[first : first + room], first):
            table.add_row(*map(Text, self._cells(row)), style="reverse" if place == self.selected else "")
        return Group(Text(head, style="bold", no_wrap=True, overflow="ellipsis"), self._tabs(), table, self._foot())

    def _cells(self, row: TopRow) -> list[str]:
        cells = []
        for column, cell in zip(self.page.columns, row, strict=True):
            if isinstance(cell, str):
                cells.append("".join(one if one.isprintable() else "?" for one in cell))
            else:
                cells.append(str(cell) if column.show is None else column.show(cell))
        return cells

    def _tabs(self) -> RenderableType:
        from rich.text import Text

        line = Text(no_wrap=True)
        for place, view in enumerate(VIEWS):
            line.append(f" {place + 1} {view.title} ", style="reverse" if place == self.view else "dim")
        return line

    def _foot(self) -> RenderableType:
        from rich.text import Text

        if self.is_typing:
            return Text(f"/{self.wanted}█   Enter keeps it, Esc clears it", no_wrap=True)
        place = f"{self.selected + 1 if self.rows else 0} of {len(self.rows):,}"
        chosen = f"filter {self.wanted!r} (Esc clears it)" if self.wanted else ""
        told = ["PAUSED" if self.is_paused else "", place, chosen, _HELP]
        return Text("   ".join(one for one in told if one), style="dim", no_wrap=True, overflow="ellipsis")
