"""The report's drawings: faults in rows, leaders in rows, and small plots with the faults behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from chaos.windows import Points
from goqueue.pipeline.report.frame import BOTTOM, TOP, Frame, Unit, amounts, drawing, frame
from goqueue.pipeline.report.markup import Markup, number, tag
from goqueue.pipeline.report.scale import Scale

_WIDE: Final = 880.0
_ROW: Final = 19.0
_NAMES: Final = 104.0
_ENDS: Final = 12.0
_NODE_COLOURS: Final = ("c2", "c4", "c3", "c5", "c0")
_LABEL_PX: Final = 16.0  # a segment that is narrower has no number on it


class Segment(NamedTuple):
    """A fault: seconds from the start."""

    began: float
    ended: float
    whole_at: float
    message: str


class Band(NamedTuple):
    began: float
    ended: float
    message: str


def fault_rows(rows: Mapping[str, Sequence[Segment]], length_s: float) -> Markup:
    """A row for each nemesis."""
    x = Scale(0, length_s, _NAMES, _WIDE - _ENDS)
    marks: list[Markup] = []
    for place, (name, segments) in enumerate(rows.items()):
        top = 4 + place * _ROW
        marks += [_name(name, top), _line_below(top)]
        for one in segments:
            bars = _bar(x, one.began, one.ended, top, "hold"), _bar(x, one.ended, one.whole_at, top, "mend")
            marks.append(tag("g", tag("title", f"{one.message}; whole after {one.whole_at - one.ended:.1f} s"), *bars))
    return _rows("faults over time", marks, len(rows), length_s)


def leader_rows(rows: Mapping[int, Sequence[tuple[float, int | None]]], length_s: float) -> Markup:
    """A row for each shard; the node's number stands in its segment."""
    x = Scale(0, length_s, _NAMES, _WIDE - _ENDS)
    marks: list[Markup] = []
    for place, (shard, changes) in enumerate(rows.items()):
        top = 4 + place * _ROW
        marks.append(_name(f"shard {shard}", top))
        ends = [at for at, _ in changes[1:]] + [length_s]
        for (began, leader), ended in zip(changes, ends, strict=True):
            marks.append(_led(x, began, ended, top, leader))
    return _rows("leaders of shards over time", marks, len(rows), length_s)


def _led(x: Scale, began: float, ended: float, top: float, leader: int | None) -> Markup:
    if leader is None:
        return tag("g", tag("title", f"nobody for {ended - began:.1f} s"), _bar(x, began, ended, top, "nobody"))
    colour = _NODE_COLOURS[leader % len(_NODE_COLOURS)]
    bar = _bar(x, began, ended, top, f"bar led {colour}")
    middle = (x(began) + x(ended)) / 2
    is_wide = x(ended) - x(began) > _LABEL_PX
    label = tag("text", str(leader), x=middle, y=top + 12, class_="on", text_anchor="middle") if is_wide else None
    return tag("g", tag("title", f"node {leader} for {ended - began:.1f} s"), bar, label)


def _name(name: str, top: float) -> Markup:
    return tag("text", name, x=_NAMES - 8, y=top + 12, class_="row", text_anchor="end")


def _line_below(top: float) -> Markup:
    return tag("line", x1=_NAMES, x2=_WIDE - _ENDS, y1=top + 8, y2=top + 8, class_="grid")


def _bar(x: Scale, began: float, ended: float, top: float, mark: str) -> Markup:
    return tag("rect", x=x(began), y=top + 1, width=max(1.0, x(ended) - x(began)), height=_ROW - 5, class_=mark)


def _rows(label: str, marks: Sequence[Markup], count: int, length_s: float) -> Markup:
    foot = 4 + count * _ROW
    x = Scale(0, length_s, _NAMES, _WIDE - _ENDS)
    times: list[Markup] = []
    step = _time_step(length_s)
    for place in range(int(length_s / step) + 1):
        at = x(place * step)
        times.append(tag("line", x1=at, x2=at, y1=foot, y2=foot + 4, class_="base"))
        times.append(tag("text", clock(place * step), x=at, y=foot + 16, class_="tick", text_anchor="middle"))
    return tag(
        "svg", *marks, *times, viewBox=f"0 0 {_WIDE:g} {foot + 22:g}", class_="plot", role="img", aria_label=label
    )


def _time_step(length_s: float) -> float:
    return next((step for step in (5, 10, 15, 30, 60, 120, 300, 600) if length_s / step <= 12), 1200)


def clock(seconds: float) -> str:
    """`1:05`: minutes and seconds from the start."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def small_plot(
    label: str,
    lines: Sequence[tuple[str, Points]],
    bands: Sequence[Band],
    length_s: float,
    show: Callable[[float], str],
) -> Markup:
    """Lines, each with a class of its own, over bands where something was wrong."""
    top = max((value for _, points in lines for _, value in points), default=1.0) or 1.0
    unit = Unit(label, show)
    inside = frame(0, length_s * 1000, top, unit, 430, 130)
    height = inside.height - BOTTOM - TOP
    drawn = [
        tag(
            "rect",
            tag("title", one.message),
            x=inside.x(one.began * 1000),
            y=TOP,
            class_="band",
            height=height,
            width=max(1.0, inside.x(one.ended * 1000) - inside.x(one.began * 1000)),
        )
        for one in bands
    ]
    for mark, points in lines:
        path = "M" + "L".join(f"{number(inside.x(at * 1000))} {number(inside.y(value))}" for at, value in points)
        if points:
            drawn.append(tag("path", d=path, class_=f"line c2 {mark}".strip()))
    return drawing(inside, label, *_axes(inside, unit, length_s), *drawn)


def _axes(inside: Frame, unit: Unit, length_s: float) -> list[Markup]:
    """As all plots have them, with minutes from the start below."""
    marks, foot, step = amounts(inside, unit), inside.height - BOTTOM, _time_step(2.5 * length_s)
    for place in range(int(length_s / step) + 1):
        at = inside.x(place * step * 1000)
        marks.append(tag("line", x1=at, x2=at, y1=foot, y2=foot + 4, class_="base"))
        marks.append(tag("text", clock(place * step), x=at, y=foot + 17, class_="tick", text_anchor="middle"))
    return marks
