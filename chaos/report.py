"""The report of a run: one HTML file that needs nothing else, in light and dark, legible without colours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from chaos.charts import Band, Segment, fault_rows, leader_rows, small_plot
from chaos.histories import PROGRESS
from chaos.running import Fault, Outcome
from chaos.windows import latencies, rates, window_s
from goqueue.pipeline import human
from goqueue.pipeline.report.markup import Markup, join, tag
from goqueue.pipeline.report.page import head as page_head
from goqueue.pipeline.report.parts import Cell, Tile, card, fine, table, tile

_BROKEN_SHOWN = 60
_STYLE = """
.hold { fill: var(--c1); } .mend { fill: var(--c1); fill-opacity: .28; stroke: var(--c1); stroke-dasharray: 3 2; }
.band { fill: var(--c1); fill-opacity: .13; } .row { fill: var(--ink); font-size: 11.5px; }
.led { stroke: var(--card); stroke-width: 1; } .on { fill: var(--card); font-size: 10.5px; font-weight: 600; }
.nobody { fill: none; stroke: var(--bad); stroke-dasharray: 2 2; }
.found { padding-left: 1.2rem; overflow-wrap: anywhere; }
.dashed { stroke-dasharray: 5 3; } .kept { color: var(--good); } .broken { color: var(--bad); font-weight: 650; }
"""


def write_report(outcome: Outcome, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(outcome), encoding="utf-8")


def page(outcome: Outcome) -> str:
    head = page_head(f"GoQueue chaos · seed {outcome.plan.seed}", _STYLE)
    main = tag("main", tag("div", *map(tile, _tiles(outcome)), class_="tiles"), *_sections(outcome))
    again = outcome.plan.command or f"python -m chaos --seed {outcome.plan.seed}"
    foot = tag("footer", "Times count from the start of the run. The same faults again: ", tag("code", again))
    return "<!DOCTYPE html>\n" + tag("html", head, tag("body", _header(outcome), main, foot), lang="en") + "\n"


def _header(outcome: Outcome) -> Markup:
    about = f"seed {outcome.plan.seed} · three nodes in {outcome.place} · {_span(outcome.ended - outcome.began)}"
    return tag("header", tag("div", tag("h1", "GoQueue chaos"), tag("p", about)))


def _tiles(outcome: Outcome) -> list[Tile]:
    broken = len(outcome.broken)
    promises = sum(len(one) for one in outcome.findings.values())
    acked = sum(op.is_ok for ops in outcome.ops.values() for op in ops)
    refused = sum(not op.is_ok for ops in outcome.ops.values() for op in ops)
    slowest = max((one.whole_at - one.ended for one in outcome.faults), default=0.0)
    kinds = len({one.nemesis for one in outcome.faults})
    return [
        Tile(
            "Promises", "kept" if not broken else f"{broken} broken", f"{promises} checks", "bad" if broken else "good"
        ),
        Tile("Faults", str(len(outcome.faults)), f"of {kinds} kinds" if kinds != 1 else "of one kind"),
        Tile("Acknowledged", f"{acked:,}", f"{refused:,} refused or without an answer"),
        Tile("Longest until all went on", _span(slowest), "after a fault was over"),
    ]


def _sections(outcome: Outcome) -> list[Markup]:
    return [
        _section("Verdicts", "Each promise, held against what clients of each kind saw.", _verdicts(outcome)),
        _section("Faults", "Solid while it lasts; pale until every client made progress again.", *_faults(outcome)),
        _section("Leaders", "Who leads each shard. A dashed frame: nobody.", card("By shard", _leaders(outcome))),
        _section(
            "Clients", "Bands are faults. Latency is p99, dashed p50, of what was acknowledged.", *_clients(outcome)
        ),
        _section("Histories", "What the verdicts rest on.", card("Counts", _counts(outcome))),
    ]


def _section(title: str, lead: str, *inner: Markup) -> Markup:
    return tag("section", tag("h2", title), tag("p", lead, class_="lead"), tag("div", *inner, class_="cards"))


def _verdicts(outcome: Outcome) -> Markup:
    promises = list(dict.fromkeys(promise for one in outcome.findings.values() for promise in one))
    promises.sort(key=lambda one: one == PROGRESS)
    rows: list[list[Cell]] = [[one, *(_verdict(found, one) for found in outcome.findings.values())] for one in promises]
    counted = Counter(outcome.broken)  # a client that cannot go on says the same of each message
    found = [f"{one} ({times} times)" if times > 1 else one for one, times in counted.items()]
    told = tag("ul", *(tag("li", one) for one in found[:_BROKEN_SHOWN]), class_="found") if found else None
    return card("By promise", table(["promise", *outcome.findings], rows), told or fine("Nothing was broken."))


def _verdict(found: dict[str, list[str]], promise: str) -> Cell:
    if promise not in found:
        return "·"
    wrong = len(found[promise])
    return tag("span", f"✗ {wrong} broken" if wrong else "✓ kept", class_="broken" if wrong else "kept")


def _faults(outcome: Outcome) -> list[Markup]:
    rows: dict[str, list[Segment]] = {}
    for one in outcome.faults:
        rows.setdefault(one.nemesis, []).append(
            Segment(_at(outcome, one.began), _at(outcome, one.ended), _at(outcome, one.whole_at), one.message)
        )
    drawn = fault_rows(rows, _length(outcome)) if rows else fine("No fault was asked for.")
    listed: list[list[Cell]] = [_fault_row(outcome, one) for one in outcome.faults]
    left = [tag("p", f"Left out: {name}: {why}") for name, why in outcome.left_out.items()]
    heads = ["at", "nemesis", "what", "lasted", "all went on after"]
    matrix = card("Acknowledged while it lasted", _matrix(outcome), note="by nemesis and workload")
    return [
        card("Timeline", drawn, *left),
        matrix,
        card("One by one", tag("details", tag("summary", "List"), table(heads, listed))),
    ]


def _fault_row(outcome: Outcome, one: Fault) -> list[Cell]:
    return [
        _span(one.began - outcome.began),
        one.nemesis,
        one.message,
        _span(one.ended - one.began),
        _span(one.whole_at - one.ended),
    ]


def _matrix(outcome: Outcome) -> Markup:
    kinds = list(dict.fromkeys(one.nemesis for one in outcome.faults))
    rows: list[list[Cell]] = [[kind, *(_during(outcome, kind, name) for name in outcome.ops)] for kind in kinds]
    return table(["nemesis", *outcome.ops], rows)


def _during(outcome: Outcome, nemesis: str, workload: str) -> int:
    times = [(one.began, one.ended) for one in outcome.faults if one.nemesis == nemesis]
    return sum(op.is_ok and any(a <= op.ended <= b for a, b in times) for op in outcome.ops[workload])


def _leaders(outcome: Outcome) -> Markup:
    rows: dict[int, list[tuple[float, int | None]]] = {}
    for one in outcome.leaders:
        rows.setdefault(one.shard, []).append((_at(outcome, one.at), one.leader))
    return leader_rows(dict(sorted(rows.items())), _length(outcome)) if rows else fine("Nobody was asked.")


def _clients(outcome: Outcome) -> list[Markup]:
    bands = [Band(_at(outcome, one.began), _at(outcome, one.ended), one.message) for one in outcome.faults]
    step = window_s(_length(outcome))
    cards = []
    for name, ops in outcome.ops.items():
        speed = rates(ops, outcome.began, _length(outcome), step)
        p50, p99 = (latencies(ops, outcome.began, step, share) for share in (0.5, 0.99))
        plots = join(
            small_plot(f"acknowledged a second, {name}", [("", speed)], bands, _length(outcome), human.rate),
            small_plot(f"latency, {name}", [("", p99), ("dashed", p50)], bands, _length(outcome), _micros),
        )
        cards.append(card(name, plots, note="acknowledged a second; latency", half=True))
    return cards


def _micros(seconds: float) -> str:
    return human.span(seconds * 1e6) if seconds else "0"


def _counts(outcome: Outcome) -> Markup:
    rows: list[list[Cell]] = [
        [who, what, count] for who, all_ in outcome.counts.items() for what, count in all_.items()
    ]
    return table(["workload", "what", "count"], rows)


def _at(outcome: Outcome, moment: float) -> float:
    return max(0.0, moment - outcome.began)


def _length(outcome: Outcome) -> float:
    return outcome.ended - outcome.began


def _span(seconds: float) -> str:
    return human.span(max(0.0, seconds) * 1e6)
