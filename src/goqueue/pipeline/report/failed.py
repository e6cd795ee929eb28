"""What failed: dead letters by reason and cause, rows that broke a rule, and fields that are not what they were."""

from __future__ import annotations

from typing import Final

from goqueue.pipeline import human
from goqueue.pipeline.report.frame import LETTERS, colour, legend
from goqueue.pipeline.report.lines import Stack, stacked
from goqueue.pipeline.report.markup import Markup, tag
from goqueue.pipeline.report.parts import Amount, Cell, Section, card, example, fine, missing, numbers, table
from goqueue.pipeline.report.rows import BreakRow, CheckedRow, DeadLetterRow, Deaths, Drift, Facts
from goqueue.pipeline.report.strips import amount_bar
from goqueue.pipeline.report.windows import filled, length_for, span_of, summed

_LETTERS_MAX: Final = 30
_BREAKS_MAX: Final = 30
_DRIFTS_MAX: Final = 40
_LEAD: Final = "Messages that consumers gave up, and messages that are not what their schema says."


def failed(facts: Facts) -> Section:
    inner = (*_dead(facts), *_quality(facts))
    return Section("failed", "What failed", _LEAD, inner)


def _dead(facts: Facts) -> list[Markup]:
    if facts.letters is None:
        return [card("Dead letters", missing("Nobody looked at dead letters yet. Run", "dlq", facts.lake))]
    if not facts.letters:
        return [card("Dead letters", fine("There are none."))]
    return [*_deaths(facts.deaths or []), _letters(facts.letters)]


def _deaths(rows: list[Deaths]) -> list[Markup]:
    if not rows:
        return []
    length, whole = length_for(rows), span_of(rows)
    parts = filled(summed(rows, lambda one: one.reason, lambda one: one.count, length), whole, length)
    stack = Stack(length, tuple(parts), tuple(colour(place) for place in range(len(parts))))
    totals = [sum(value for _, value in one.points) for one in parts]
    marks = [(mark, one.name, human.count(n)) for mark, one, n in zip(stack.marks, parts, totals, strict=True)]
    cells: list[list[Cell]] = [
        [human.moment(at), *(int(dict(one.points)[at]) for one in parts)] for at in range(whole[0], whole[1], length)
    ]
    told = numbers(["Time (UTC)", *(one.name for one in parts)], cells)
    plot = stacked("Dead letters by reason over time", stack, LETTERS, height=180)
    note = f"by when they died, windows of {human.span(length * 1000)}"
    return [card("Dead letters by reason", legend(marks), plot, told, note=note)]


def _letters(rows: list[DeadLetterRow]) -> Markup:
    by_count = sorted(rows, key=lambda one: (-one.count, one.topic, one.reason, one.fingerprint))[:_LETTERS_MAX]
    most = by_count[0].count
    heads = ["Letters", "", "Topic", "Group", "Reason", "What it says", "Schema", "First (UTC)", "Last (UTC)"]
    cells: list[list[Cell]] = [[one.count, amount_bar(one.count, most, "bad"), *_letter(one)] for one in by_count]
    note = f"{sum(one.count for one in rows):,} in {len(rows):,} kinds" + _cut(len(rows), _LETTERS_MAX)
    return card("Dead letters by cause", table(heads, cells), note=note)


def _letter(one: DeadLetterRow) -> list[Cell]:
    said = tag("div", tag("span", one.error or "-"), tag("code", one.fingerprint), _example(one.example), class_="said")
    times = [tag("time", human.moment(at)) for at in (one.first_ms, one.last_ms)]
    return [one.topic, one.group or "-", one.reason or "-", said, one.schema or "-", *times]


def _example(value: str) -> Markup | None:
    return example(value) if value else None


def _cut(count: int, most: int) -> str:
    return f", the first {most} of them here" if count > most else ""


def _quality(facts: Facts) -> list[Markup]:
    if facts.checked is None:
        return [card("Quality", missing("Nobody checked rows yet. Run", "quality", facts.lake))]
    if not facts.checked:
        return [card("Quality", fine("No row was there to check."))]
    return [_checked(facts.checked), _breaks(facts.breaks or []), _drifts(facts.drifts or [])]


def _checked(rows: list[CheckedRow]) -> Markup:
    heads = ["Topic", "Rows checked", "In quarantine", "Share", ""]
    by_name = sorted(rows, key=lambda one: one.topic)
    cells: list[list[Cell]] = [
        [one.topic, one.rows, one.bad, Amount(human.share(one.bad, one.rows)), amount_bar(one.bad, one.rows, "bad")]
        for one in by_name
    ]
    return card("Rows checked", table(heads, cells))


def _breaks(rows: list[BreakRow]) -> Markup:
    if not rows:
        return card("Broken rules", fine("Every row keeps every rule."))
    by_count = sorted(rows, key=lambda one: (-one.count, one.topic, one.rule))[:_BREAKS_MAX]
    most = by_count[0].count
    cells: list[list[Cell]] = [
        [one.count, amount_bar(one.count, most, "bad"), one.topic, _rule(one)] for one in by_count
    ]
    return card("Broken rules", table(["Rows", "", "Topic", "Rule"], cells), note=_cut(len(rows), _BREAKS_MAX))


def _rule(one: BreakRow) -> Markup:
    return tag("div", tag("span", one.rule), _example(one.example), class_="said")


def _drifts(rows: list[Drift]) -> Markup:
    if not rows:
        return card("Drift", fine("No field changed its kind, its share or its range."))
    shown = sorted(rows, key=lambda one: (one.topic, one.field, one.change))[:_DRIFTS_MAX]
    cells = [[one.topic, tag("code", one.field), one.change, one.before, one.after] for one in shown]
    return card(
        "Drift", table(["Topic", "Field", "Change", "Before", "After"], cells), note=_cut(len(rows), _DRIFTS_MAX)
    )
