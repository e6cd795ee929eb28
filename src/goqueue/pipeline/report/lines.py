"""Amounts over time: a line a series, or bars one on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from goqueue.pipeline import human
from goqueue.pipeline.report.frame import LEFT, RIGHT, Frame, Unit, axes, drawing, frame, hits
from goqueue.pipeline.report.markup import Markup, number, tag


class Series(msgspec.Struct, frozen=True):
    """One line: a name and (time, amount) in order of time."""

    name: str
    points: tuple[tuple[int, float], ...]

    @property
    def top(self) -> float:
        return max((value for _, value in self.points), default=0.0)


class Stack(msgspec.Struct, frozen=True):
    """Bars of one length in time, each made of parts that have a colour and a name."""

    length_ms: int
    parts: tuple[Series, ...]
    marks: tuple[str, ...]


def lines(
    label: str, series: Sequence[Series], marks: Sequence[str], unit: Unit, width: float = 880, height: float = 220
) -> Markup:
    """Each series from its first point to its last, in its colour."""
    times = sorted({at for one in series for at, _ in one.points})
    inside = frame(times[0], times[-1], max(one.top for one in series), unit, width, height)
    drawn = [_line(inside, one, mark) for one, mark in zip(series, marks, strict=True)]
    strips = hits(inside, _strips(inside, times, _titles(series, unit)))
    return drawing(inside, label, axes(inside, unit), *drawn, *strips)


def _line(inside: Frame, series: Series, mark: str) -> Markup:
    places = [(inside.x(at), inside.y(value)) for at, value in series.points]
    if len(places) == 1:
        return tag("circle", cx=places[0][0], cy=places[0][1], r=3, class_=f"point {mark}")
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in places)
    return tag("path", d=path, class_=f"line {mark}")


def _titles(series: Sequence[Series], unit: Unit) -> dict[int, str]:
    """What each moment has to say, the biggest first."""
    told: dict[int, list[tuple[float, str]]] = {}
    for one in series:
        for at, value in one.points:
            told.setdefault(at, []).append((-value, f"{one.name}: {unit.show(value)}"))
    return {
        at: "\n".join([f"{human.moment(at)} UTC", *(line for _, line in sorted(said))]) for at, said in told.items()
    }


def _strips(inside: Frame, times: Sequence[int], titles: Mapping[int, str]) -> list[tuple[float, float, str]]:
    """Each moment has the room halfway to its neighbours."""
    places = [inside.x(at) for at in times]
    edges = [LEFT, *((a + b) / 2 for a, b in pairwise(places)), inside.width - RIGHT]
    return [(edges[n], edges[n + 1], titles[at]) for n, at in enumerate(times)]


def stacked(label: str, stack: Stack, unit: Unit, width: float = 880, height: float = 220) -> Markup:
    """One bar a window, its parts from the bottom up in their order."""
    heights: dict[int, float] = {}
    for part in stack.parts:
        for at, value in part.points:
            heights[at] = heights.get(at, 0.0) + value
    first, last = min(heights), max(heights) + stack.length_ms
    inside = frame(first, last, max(heights.values()), unit, width, height)
    strips = hits(inside, _windows(inside, stack, _titles(stack.parts, unit)))
    return drawing(inside, label, axes(inside, unit), *_bars(inside, stack), *strips)


def _bars(inside: Frame, stack: Stack) -> list[Markup]:
    below: dict[int, float] = {}
    bars: list[Markup] = []
    for part, mark in zip(stack.parts, stack.marks, strict=True):
        for at, value in part.points:
            if value:
                bars.append(_bar(inside, at, stack.length_ms, (below.get(at, 0.0), value), mark))
                below[at] = below.get(at, 0.0) + value
    return bars


def _bar(inside: Frame, at: int, length_ms: int, amount: tuple[float, float], mark: str) -> Markup:
    under, value = amount
    left, right = inside.x(at), inside.x(at + length_ms)
    gap = 1.0 if right - left > 4 else 0.0
    high, low = inside.y(under + value), inside.y(under)
    return tag("rect", x=left, y=high, width=max(0.5, right - left - gap), height=low - high, class_=f"bar {mark}")


def _windows(inside: Frame, stack: Stack, titles: Mapping[int, str]) -> list[tuple[float, float, str]]:
    return [(inside.x(at), inside.x(at + stack.length_ms), title) for at, title in sorted(titles.items())]
