"""How fast: percentiles of every stage of messages' lives, and the slowest lives one by one."""

from __future__ import annotations

from typing import Final

from goqueue.pipeline import human
from goqueue.pipeline.report.markup import Markup, tag
from goqueue.pipeline.report.parts import Amount, Cell, Section, card, fine, missing, table
from goqueue.pipeline.report.rows import Facts, Failure, StageRow, TraceRow
from goqueue.pipeline.report.strips import amount_bar, duration_axis, duration_range, duration_scale, waterfall

_TRACES_MAX: Final = 6
_STAGES_MAX: Final = 40
_FAILURES_MAX: Final = 20
_LEAD: Final = (
    "From traces: what was traced stands for the rest. "
    "The bars go from p50 over p90 (the notch) to p99, the lines on to the longest."
)


def speed(facts: Facts) -> Section:
    if facts.stages is None:
        inner = missing("Nobody looked at traces yet. Run", "latency", facts.lake)
        return Section("speed", "How fast", _LEAD, (card("Latency", inner),))
    if not facts.stages:
        inner = fine(
            "No message was traced. A topic's setting trace=on, or the node's traces.sample_rate, changes that."
        )
        return Section("speed", "How fast", _LEAD, (card("Latency", inner),))
    cards = [_stages(facts.stages), *_slowest(facts.slowest or []), *_failures(facts.failures or [])]
    return Section("speed", "How fast", _LEAD, tuple(cards))


def _stages(rows: list[StageRow]) -> Markup:
    shown = rows[:_STAGES_MAX]
    scale, ticks = duration_scale(shown)
    heads: list[Cell] = ["Stage", "Topic", "Events", "p50", "p90", "p99", "Longest", duration_axis(scale, ticks)]
    cells: list[list[Cell]] = [[*_stage(one), duration_range(one, scale, ticks)] for one in shown]
    note = f"the first {_STAGES_MAX} of {len(rows)}" if len(rows) > _STAGES_MAX else ""
    return card("Time in each stage", table(heads, cells), note=note)


def _stage(one: StageRow) -> list[Cell]:
    spans = (one.p50_us, one.p90_us, one.p99_us, one.max_us)
    return [one.name, one.topic, one.count, *(Amount(human.span(value)) for value in spans)]


def _slowest(rows: list[TraceRow]) -> list[Markup]:
    if not rows:
        return []
    by_time = sorted(rows, key=lambda one: (-one.took_us, one.trace_id))[:_TRACES_MAX]
    return [card("Slowest traces", tag("div", *map(_trace, by_time), class_="falls"), note=f"{len(by_time)} of them")]


def _trace(one: TraceRow) -> Markup:
    place = f"{one.topic}/{one.partition}" + ("" if one.offset is None else f"/{one.offset}")
    mood = {"completed": "good", "error": "bad"}.get(one.status, "")
    head = tag("p", tag("b", human.span(one.took_us)), " ", place, " ", tag("span", one.status, class_=f"mood {mood}"))
    return tag("div", head, tag("code", one.trace_id), waterfall(one), class_="trace")


def _failures(rows: list[Failure]) -> list[Markup]:
    if not rows:
        return []
    by_count = sorted(rows, key=lambda one: (-one.count, one.name, one.topic, one.reason))[:_FAILURES_MAX]
    most = by_count[0].count
    cells: list[list[Cell]] = [
        [one.name, one.topic, one.reason or "-", one.count, amount_bar(one.count, most, "bad")] for one in by_count
    ]
    return [card("Failures in traces", table(["Event", "Topic", "Reason", "Traces", ""], cells))]
