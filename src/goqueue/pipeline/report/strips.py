"""Small drawings that stand in tables and cards: a bar for an amount, a range of percentiles, a waterfall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from goqueue.pipeline import human
from goqueue.pipeline.report.markup import Markup, tag
from goqueue.pipeline.report.rows import EventRow, StageRow, TraceRow
from goqueue.pipeline.report.scale import Scale, log_ticks

_WIDE: Final = 300.0
_ROW: Final = 17.0
_NAMES: Final = 132.0
_SPANS: Final = 62.0
_FALL: Final = 430.0
_EVENTS_MAX: Final = 14


def amount_bar(value: float, most: float, mark: str = "c0") -> Markup:
    """How much of the most."""
    share = 100 * value / most if most else 0.0
    rect = tag("rect", x=0, y=0, width=max(share, 0.5 if value else 0.0), height=8, rx=2, class_=f"bar {mark}")
    return tag("svg", rect, viewBox="0 0 100 8", class_="amount", preserveAspectRatio="none", aria_hidden="true")


def duration_scale(stages: Sequence[StageRow]) -> tuple[Scale, list[float]]:
    """One scale for all stages of a table, by powers of ten of a microsecond."""
    ticks = log_ticks(max(1.0, min(one.p50_us for one in stages)), max(one.max_us for one in stages))
    return Scale(ticks[0], ticks[-1], 8, _WIDE - 8, is_log=True), ticks


def duration_axis(scale: Scale, ticks: Sequence[float]) -> Markup:
    """The head of the column that `duration_range` fills."""
    step = max(1, -(-len(ticks) // 5))
    marks = [
        tag("text", _bare(one), x=scale(one), y=11, class_="tick", text_anchor=_side(scale, one))
        for one in ticks[::step]
    ]
    return tag("svg", *marks, viewBox=f"0 0 {_WIDE:g} 14", class_="range", role="img", aria_label="duration")


def _bare(micros: float) -> str:
    for unit, length in (("s", 1e6), ("ms", 1e3), ("us", 1.0)):
        if micros >= length or unit == "us":
            break
    return f"{micros / length:,.0f} {unit}"


def _side(scale: Scale, value: float) -> str:
    return "start" if value == scale.low else "end" if value == scale.high else "middle"


def duration_range(stage: StageRow, scale: Scale, ticks: Sequence[float]) -> Markup:
    """A thick bar from p50 to p99, a thin line on to the longest, a mark at p90."""
    told = f"{stage.name}: p50 {human.span(stage.p50_us)}, p90 {human.span(stage.p90_us)}"
    told += f", p99 {human.span(stage.p99_us)}, longest {human.span(stage.max_us)}"
    middle, high, far = scale(stage.p50_us), scale(stage.p99_us), scale(stage.max_us)
    grid = [tag("line", x1=scale(one), x2=scale(one), y1=0, y2=18, class_="grid") for one in ticks]
    drawn = [
        tag("line", x1=high, x2=far, y1=9, y2=9, class_="whisker"),
        tag("rect", x=middle, y=5, width=max(2.0, high - middle), height=8, rx=2, class_="bar c0"),
        tag("line", x1=scale(stage.p90_us), x2=scale(stage.p90_us), y1=5, y2=13, class_="notch"),
        tag("circle", cx=far, cy=9, r=2.5, class_="point c1"),
    ]
    return tag("svg", tag("title", told), *grid, *drawn, viewBox=f"0 0 {_WIDE:g} 18", class_="range", role="img")


def waterfall(trace: TraceRow) -> Markup:
    """One row an event: its name, a bar from when it began to when it was over, and when that was."""
    shown = trace.events[:_EVENTS_MAX]
    scale = Scale(0, max(1, *(one.at_us for one in trace.events), trace.took_us), _NAMES, _FALL - _SPANS)
    rows = [_event(one, scale, 4 + place * _ROW) for place, one in enumerate(shown)]
    more = len(trace.events) - len(shown)
    if more:
        rows.append([tag("text", f"and {more} more events", x=0, y=16 + len(shown) * _ROW, class_="tick")])
    height = 8 + _ROW * (len(shown) + bool(more))
    label = f"{len(trace.events)} events in {human.span(trace.took_us)}"
    return tag("svg", *rows, viewBox=f"0 0 {_FALL:g} {height:g}", class_="fall", role="img", aria_label=label)


def _event(one: EventRow, scale: Scale, top: float) -> list[Markup]:
    start, end = scale(one.at_us - one.took_us), scale(one.at_us)
    told = f"{one.name}: over after {human.span(one.at_us)}"
    if one.took_us:
        told += f", took {human.span(one.took_us)}"
    bar = tag(
        "rect", x=start, y=top + 3, width=max(2.0, end - start), height=_ROW - 7, rx=2, class_=f"bar {_mark(one)}"
    )
    return [
        tag("line", x1=_NAMES, x2=_FALL - _SPANS, y1=top + 8, y2=top + 8, class_="grid"),
        tag("text", one.name, x=0, y=top + 12, class_="tick name"),
        tag("g", tag("title", told), bar),
        tag("text", human.span(one.at_us), x=_FALL, y=top + 12, class_="tick", text_anchor="end"),
    ]


_BAD: Final = ("nacked", "rejected", "timeout", "routed", "expired", "aborted", "cancelled")


def _mark(one: EventRow) -> str:
    """Failures look the same wherever they happen; the rest goes by what it belongs to."""
    kind, _, what = one.name.partition(".")
    if what in _BAD:
        return "bad"
    return {"publish": "c0", "consume": "c2", "delay": "c4", "txn": "c5"}.get(kind, "c7")
