"""How a running pipeline looks: one live line a step on a terminal, plain lines anywhere else. Always on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO, Final, Protocol

from goqueue.pipeline import human

_LINE_EVERY_S: Final = 2.0
Clock = Callable[[], float]


class ProgressStep:
    """One step: since when, how far, how fast."""

    def __init__(self, text: str, began: float) -> None:
        self.text = text
        self.began = began
        self.done: int | None = None
        self.total: int | None = None

    def told(self, now: float) -> str:
        """`reading  1,234 of 50,000 rows  8,200/s  1.40 s`."""
        parts = [self.text, self._rows(), self._speed(now), human.span((now - self.began) * 1e6)]
        return "  ".join(part for part in parts if part)

    def _rows(self) -> str:
        if self.done is None:
            return ""
        return f"{self.done:,} rows" if self.total is None else f"{self.done:,} of {self.total:,} rows"

    def _speed(self, now: float) -> str:
        spent = now - self.began
        return human.rate(self.done / spent) if self.done and spent > 0 else ""


class _Shown(Protocol):
    """A place where steps are shown."""

    def update(self, step: ProgressStep, now: float) -> None: ...
    def finish(self, step: ProgressStep, now: float) -> None: ...


class _Lines:
    """A line when a step is over, and every two seconds while it is not."""

    def __init__(self, name: str, out: IO[str]) -> None:
        self._name, self._out, self._last = name, out, float("-inf")

    def update(self, step: ProgressStep, now: float) -> None:
        self._last = max(self._last, step.began)
        if now - self._last >= _LINE_EVERY_S:
            self._last = now
            self._print(f"{step.told(now)} …")

    def finish(self, step: ProgressStep, now: float) -> None:
        self._last = now
        self._print(step.told(now))

    def _print(self, line: str) -> None:
        print(f"{self._name}: {line}", file=self._out, flush=True)


class Watched:
    """Progress that is shown somewhere. A new text ends the step before it."""

    def __init__(self, shown: _Shown, now: Clock = time.monotonic) -> None:
        self._shown, self._now = shown, now
        self._step: ProgressStep | None = None

    def step(self, text: str, done: int | None = None, total: int | None = None) -> None:
        now = self._now()
        if self._step is None or self._step.text != text:
            self.close()
            self._step = ProgressStep(text, now)
        self._step.done = self._step.done if done is None else done
        self._step.total = self._step.total if total is None else total
        self._shown.update(self._step, now)

    def close(self) -> None:
        """The last step is over."""
        if self._step is not None:
            self._shown.finish(self._step, self._now())
            self._step = None


def lines(name: str, out: IO[str], now: Clock = time.monotonic) -> Watched:
    """For logs and pipes."""
    return Watched(_Lines(name, out), now)
