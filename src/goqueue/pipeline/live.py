"""Progress on a terminal: the step under way moves in place and leaves a line when it is over. Elsewhere, lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from goqueue.pipeline import running
from goqueue.pipeline.progress import Clock, ProgressStep, Watched, lines


class _Told(ProgressColumn):
    """How far the step is, asked anew for every picture: time goes on where nothing is reported."""

    def __init__(self, now: Clock) -> None:
        super().__init__()
        self._now = now

    def render(self, task: Task) -> Text:
        step: ProgressStep | None = task.fields["step"]
        return Text("starting" if step is None else step.told(self._now()))


class Bar:
    """The bar of the step under way. Without a total it pulses."""

    def __init__(self, name: str, bar: Progress) -> None:
        self._name, self._bar = name, bar
        self._line = bar.add_task(name, total=None, step=None)

    def update(self, step: ProgressStep, now: float) -> None:
        self._bar.update(self._line, completed=step.done or 0, total=step.total, step=step)

    def finish(self, step: ProgressStep, now: float) -> None:
        self._bar.console.print(f"[green]✓[/green] [bold]{self._name}[/bold]  ", end="")
        self._bar.console.print(step.told(now), markup=False, highlight=False)


def bar(console: Console, now: Clock = time.monotonic) -> Progress:
    """Drawn anew eight times a second; nothing of it stays."""
    columns = (SpinnerColumn(), TextColumn("[bold]{task.description}"), BarColumn(24), _Told(now))
    return Progress(*columns, console=console, transient=True, refresh_per_second=8)


@contextmanager
def live(name: str, console: Console) -> Iterator[Watched]:
    """Shown on the console while the block lasts."""
    with bar(console) as shown:
        watched = Watched(Bar(name, shown))
        yield watched
        watched.close()


@contextmanager
def watched(name: str, out: IO[str] | None = None) -> Iterator[running.Progress]:
    """Live on a terminal, lines anywhere else."""
    out = sys.stderr if out is None else out
    if out.isatty():
        with live(name, Console(file=out)) as shown:
            yield shown
        return
    shown = lines(name, out)
    yield shown
    shown.close()
