"""What flowed: messages, bytes, keys and lanes over time, and how far groups were behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from goqueue.pipeline import human
from goqueue.pipeline.report.frame import BYTES, KEYS, MESSAGES, RATE, Unit, colour, legend
from goqueue.pipeline.report.lines import Series, Stack, lines, stacked
from goqueue.pipeline.report.markup import Markup
from goqueue.pipeline.report.parts import Amount, Cell, Section, card, fine, missing, numbers, table
from goqueue.pipeline.report.rows import Facts, Lag, Lane, Traffic
from goqueue.pipeline.report.windows import SERIES_MAX, filled, highest, length_for, scaled, span_of, summed

LANES: Final = ("critical", "high", "normal", "low", "background")
_LANE_MARKS: Final = {name: f"l{place}" for place, name in enumerate(LANES)}
_HALF: Final = 430.0
_NO_MARKS: Final[Mapping[str, str]] = {}


def flow(facts: Facts) -> Section:
    lead = "Messages by the time that their producers gave them."
    if facts.traffic is None:
        return Section("flow", "What flowed", lead, (card("Traffic", missing(_NO_RATES, "rates", facts.lake)),))
    if not facts.traffic:
        return Section("flow", "What flowed", lead, (card("Traffic", fine("No message was there to count.")),))
    cards = [_rate(facts.traffic), *_lanes(facts.lanes or []), _bytes(facts.traffic), _keys(facts.traffic)]
    return Section("flow", "What flowed", lead, (*cards, _topics(facts.traffic)))


_NO_RATES: Final = "Nobody counted yet. Run"


def _rate(rows: list[Traffic]) -> Markup:
    return _per_second("Messages a second", rows, lambda one: one.messages, RATE, 880)


def _bytes(rows: list[Traffic]) -> Markup:
    return _per_second("Bytes a second", rows, lambda one: one.bytes, BYTES, _HALF)


def _per_second(
    title: str, rows: list[Traffic], amount: Callable[[Traffic], float], unit: Unit, width: float
) -> Markup:
    length = length_for(rows)
    found = scaled(filled(summed(rows, lambda one: one.topic, amount, length), span_of(rows), length), 1000 / length)
    return _lines_card(title, found, unit, width, f"windows of {human.span(length * 1000)}", _topic_marks(rows))


def _keys(rows: list[Traffic]) -> Markup:
    length = length_for(rows)
    found = filled(highest(rows, lambda one: one.topic, lambda one: one.keys, length), span_of(rows), length)
    own = min(one.length_ms for one in rows)
    note = f"in windows of {human.span(own * 1000)}" + (", the most of each stretch" if length > own else "")
    return _lines_card("Different keys", found, KEYS, _HALF, note, _topic_marks(rows))


def _topic_marks(rows: list[Traffic]) -> dict[str, str]:
    """A topic has one colour in all plots, as long as there are colours enough; else they go by each plot's order."""
    messages: Counter[str] = Counter()
    for one in rows:
        messages[one.topic] += one.messages
    names = sorted(messages, key=lambda name: (-messages[name], name))
    return {name: colour(place) for place, name in enumerate(names)} if len(names) <= SERIES_MAX else {}


def _lines_card(
    title: str, series: list[Series], unit: Unit, width: float, note: str, marks: Mapping[str, str] = _NO_MARKS
) -> Markup:
    shown = series[:SERIES_MAX]
    chosen = [marks.get(one.name, colour(place)) for place, one in enumerate(shown)]
    more = f"; {len(series) - len(shown)} with less are only in the table" if len(series) > len(shown) else ""
    told = [(mark, one.name, f"at most {unit.show(one.top)}") for mark, one in zip(chosen, shown, strict=True)]
    plot = lines(f"{title} over time", shown, chosen, unit, width)
    return card(title, legend(told), plot, _series_table(series, unit), note=note + more, half=width == _HALF)


def _series_table(series: list[Series], unit: Unit) -> Markup:
    amounts = [dict(one.points) for one in series]
    times = sorted({at for one in amounts for at in one})
    cells = [[human.moment(at), *(Amount(unit.show(one[at]) if at in one else "") for one in amounts)] for at in times]
    return numbers(["Time (UTC)", *(one.name for one in series)], cells)


def _lanes(rows: list[Lane]) -> list[Markup]:
    if not rows:
        return []
    length, whole = length_for(rows), span_of(rows)
    found = summed(rows, lambda one: one.lane, lambda one: one.messages, length)
    parts = sorted(filled(found, whole, length), key=lambda one: _place(one.name))
    stack = Stack(length, tuple(parts), tuple(_LANE_MARKS.get(one.name, "l2") for one in parts))
    totals = {one.name: sum(value for _, value in one.points) for one in parts}
    marks = [(mark, name, human.count(totals[name])) for mark, name in zip(stack.marks, totals, strict=True)]
    note = f"windows of {human.span(length * 1000)}"
    plot = stacked("Messages by priority over time", stack, MESSAGES)
    return [card("Messages by priority", legend(marks), plot, _series_table(parts, MESSAGES), note=note)]


def _place(lane: str) -> int:
    return LANES.index(lane) if lane in LANES else len(LANES)


def _topics(rows: list[Traffic]) -> Markup:
    heads = ["Topic", "Messages", "Bytes", "Mean size", "Mean rate", "Highest rate"]
    low, high = span_of(rows)
    cells: list[list[Cell]] = []
    for name in sorted({one.topic for one in rows}):
        mine = [one for one in rows if one.topic == name]
        messages, size = sum(one.messages for one in mine), sum(one.bytes for one in mine)
        peak = max(one.messages * 1000 / one.length_ms for one in mine)
        mean = human.size(size / messages) if messages else "-"
        rate = human.rate(messages * 1000 / (high - low))
        cells.append([name, messages, *map(Amount, (human.size(size), mean, rate, human.rate(peak)))])
    return card("Topics", table(heads, cells), note=f"over {human.span((high - low) * 1000)}")


def lag(facts: Facts) -> Section:
    """How far groups were behind, each time somebody looked."""
    lead = "Messages that each group still had before it, each time the pipeline rates looked."
    if facts.lags is None:
        inner = missing("Nobody looked at groups yet. Run", "rates", facts.lake)
        return Section("lag", "Who is behind", lead, (card("Lag", inner),))
    if not facts.lags:
        return Section("lag", "Who is behind", lead, (card("Lag", fine("No group reads these topics.")),))
    series = _lag_series(facts.lags)
    plot = _lines_card("Lag by group", series, MESSAGES, 880, f"{len(series)} groups and topics")
    return Section("lag", "Who is behind", lead, (plot, card("Now", _lag_table(facts.lags))))


def _lag_series(rows: list[Lag]) -> list[Series]:
    found: dict[str, dict[int, float]] = {}
    for one in rows:
        points = found.setdefault(f"{one.group} · {one.topic}", {})
        points[one.at_ms] = points.get(one.at_ms, 0.0) + one.messages
    series = [Series(name, tuple(sorted(points.items()))) for name, points in found.items()]
    return sorted(series, key=lambda one: (-one.top, one.name))


def _lag_table(rows: list[Lag]) -> Markup:
    last: dict[tuple[str, str], Lag] = {}
    most: dict[tuple[str, str], int] = {}
    for one in sorted(rows, key=lambda one: one.at_ms):
        last[one.group, one.topic] = one
        most[one.group, one.topic] = max(most.get((one.group, one.topic), 0), one.messages)
    heads = ["Group", "Topic", "Behind", "At most", "Looked at (UTC)"]
    cells: list[list[Cell]] = [
        [group, topic, one.messages, most[group, topic], human.moment(one.at_ms)]
        for (group, topic), one in sorted(last.items())
    ]
    return table(heads, cells)
