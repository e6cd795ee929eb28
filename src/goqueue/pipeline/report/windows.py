"""Windows of time put together, so that a month fits on a page as an hour does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeVar

from goqueue.pipeline.report.lines import Series

WINDOWS_MAX: Final = 120
SERIES_MAX: Final = 7


class Window(Protocol):
    """A stretch of time with something in it."""

    @property
    def start_ms(self) -> int: ...
    @property
    def length_ms(self) -> int: ...


W = TypeVar("W", bound=Window)


def span_of(rows: Iterable[Window]) -> tuple[int, int]:
    """From the first window's start to the last one's end. There has to be one."""
    ends = [(one.start_ms, one.start_ms + one.length_ms) for one in rows]
    return min(start for start, _ in ends), max(end for _, end in ends)


def length_for(rows: list[W]) -> int:
    """The windows' own length, or as many times that as it takes to have few."""
    low, high = span_of(rows)
    own = max(1, min(one.length_ms for one in rows))
    return own * max(1, -(-(high - low) // (own * WINDOWS_MAX)))


def summed(
    rows: list[W], name: Callable[[W], str], amount: Callable[[W], float], length_ms: int
) -> dict[str, dict[int, float]]:
    """Amounts by name and longer window."""
    return _gathered(rows, name, amount, length_ms, lambda a, b: a + b)


def highest(
    rows: list[W], name: Callable[[W], str], amount: Callable[[W], float], length_ms: int
) -> dict[str, dict[int, float]]:
    """Of each longer window the highest amount of those in it, for what cannot be added."""
    return _gathered(rows, name, amount, length_ms, max)


def _gathered(
    rows: list[W],
    name: Callable[[W], str],
    amount: Callable[[W], float],
    length_ms: int,
    both: Callable[[float, float], float],
) -> dict[str, dict[int, float]]:
    low, _ = span_of(rows)
    found: dict[str, dict[int, float]] = {}
    for one in rows:
        start = low + (one.start_ms - low) // length_ms * length_ms
        windows = found.setdefault(name(one), {})
        windows[start] = both(windows.get(start, 0.0), amount(one))
    return found


def filled(found: dict[str, dict[int, float]], span: tuple[int, int], length_ms: int) -> list[Series]:
    """Series over the whole span, 0 where there was nothing; those with the most first."""
    starts = range(span[0], span[1], length_ms)
    by_weight = sorted(found.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return [Series(name, tuple((at, windows.get(at, 0.0)) for at in starts)) for name, windows in by_weight]


def scaled(series: Iterable[Series], factor: float) -> list[Series]:
    """The same in another unit."""
    return [Series(one.name, tuple((at, value * factor) for at, value in one.points)) for one in series]
