"""Bars on stderr, for who watches; nobody else is told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal


def is_watched() -> bool:
    return sys.stderr.isatty()


@contextmanager
def progress_bar(
    label: str, total: int | None, unit: Literal["messages", "bytes"] = "messages"
) -> Iterator[Callable[[int], None]]:
    """Tell it how much is done in all."""
    if not is_watched():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    counted: tuple[ProgressColumn, ...] = (MofNCompleteColumn(), TextColumn("{task.fields[shown]}"))
    if unit == "bytes":
        counted = (DownloadColumn(),)
    columns = (TextColumn(label), BarColumn(), *counted, TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, shown="")

        def show(done: int) -> None:
            rate = bar.tasks[task].speed
            bar.update(task, completed=done, shown="" if rate is None else f"{rate:,.0f}/s")

        yield show
