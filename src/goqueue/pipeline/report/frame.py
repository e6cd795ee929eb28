"""What every plot has: its size, an axis of time below, an axis of amounts at the left, and room between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from goqueue.pipeline import human
from goqueue.pipeline.report.markup import Markup, join, tag
from goqueue.pipeline.report.scale import Scale, even_ticks, time_label, time_step_ms, time_ticks

LEFT: Final = 62.0
RIGHT: Final = 10.0
TOP: Final = 12.0
BOTTOM: Final = 24.0
COLOURS: Final = 8


class Unit(msgspec.Struct, frozen=True):
    """What an axis counts: its name, and how one amount is written."""

    name: str
    show: Callable[[float], str]
    base: int = 10


MESSAGES: Final = Unit("messages", human.count)
RATE: Final = Unit("messages a second", human.rate)
BYTES: Final = Unit("bytes a second", lambda value: f"{human.size(value)}/s", 1024)
KEYS: Final = Unit("different keys", human.count)
LETTERS: Final = Unit("dead letters", human.count)


class Frame(msgspec.Struct, frozen=True):
    """The inside of a plot."""

    width: float
    height: float
    x: Scale
    y: Scale
    ticks: tuple[float, ...]


def frame(low_ms: float, high_ms: float, top: float, unit: Unit, width: float = 880, height: float = 220) -> Frame:
    """Room for times from `low_ms` to `high_ms` and amounts from 0 to `top`."""
    ticks = even_ticks(top, base=unit.base)
    x = Scale(low_ms, high_ms, LEFT, width - RIGHT)
    y = Scale(0, ticks[-1], height - BOTTOM, TOP)
    return Frame(width, height, x, y, tuple(ticks))


def axes(inside: Frame, unit: Unit) -> Markup:
    """Lines of the grid with their amounts, and times below."""
    return join(amounts(inside, unit), _times(inside))


def amounts(inside: Frame, unit: Unit) -> list[Markup]:
    """Lines of the grid, with what each stands for."""
    right = inside.width - RIGHT
    marks: list[Markup] = []
    for value in inside.ticks:
        at = inside.y(value)
        marks.append(tag("line", x1=LEFT, x2=right, y1=at, y2=at, class_="grid" if value else "base"))
        marks.append(tag("text", unit.show(value), x=LEFT - 7, y=at + 4, class_="tick", text_anchor="end"))
    return marks


def _times(inside: Frame) -> list[Markup]:
    wanted = max(3, round(inside.width / 110))
    step = time_step_ms(inside.x.high - inside.x.low, wanted)
    label, foot = time_label(step), inside.height - BOTTOM
    marks: list[Markup] = []
    for value in time_ticks(inside.x.low, inside.x.high, wanted):
        at = inside.x(value)
        marks.append(tag("line", x1=at, x2=at, y1=foot, y2=foot + 4, class_="base"))
        anchor = _anchor(at, inside.width)
        marks.append(tag("text", label(value), x=at, y=foot + 17, class_="tick", text_anchor=anchor))
    return marks


def _anchor(at: float, width: float) -> str:
    """A label at the edge stays inside."""
    return "end" if at > width - RIGHT - 18 else "middle"


def drawing(inside: Frame, label: str, *inner: Markup) -> Markup:
    """The element itself; `label` is what a screen reader says."""
    view = f"0 0 {inside.width:g} {inside.height:g}"
    return tag("svg", *inner, viewBox=view, class_="plot", role="img", aria_label=label)


def hits(inside: Frame, places: Sequence[tuple[float, float, str]]) -> list[Markup]:
    """Strips from one place in pixels to another that light up under the pointer and tell `title`."""
    height = inside.height - BOTTOM - TOP
    strips: list[Markup] = []
    for start, end, title in places:
        wide = max(1.0, end - start)
        strips.append(tag("rect", tag("title", title), x=start, y=TOP, width=wide, height=height, class_="hit"))
    return strips


def colour(place: int) -> str:
    """The class of a series: the eighth and those behind it share the last colour."""
    return f"c{min(place, COLOURS - 1)}"


def legend(names: Sequence[tuple[str, str, str]]) -> Markup:
    """(colour's class, name, amount) of each series."""
    items = [
        tag("li", tag("i", class_=f"dot {mark}"), tag("span", name), tag("b", amount) if amount else None)
        for mark, name, amount in names
    ]
    return tag("ul", *items, class_="legend")
