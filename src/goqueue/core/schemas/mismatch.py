"""Why data does not fit its schema, and where in the data."""

from __future__ import annotations

from collections.abc import Sequence

_TOLD_CHARS_MAX = 300


class Mismatch(Exception):
    """`steps` lead from the whole value to the place: names and numbers."""

    def __init__(self, steps: Sequence[str | int], reason: str) -> None:
        super().__init__(reason)
        self.steps = tuple(steps)
        self.reason = reason if len(reason) <= _TOLD_CHARS_MAX else reason[:_TOLD_CHARS_MAX] + "..."

    @property
    def path(self) -> str:
        """`$.items[3].price`; `$` is the whole value."""
        return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps)[:1_000]
