"""The page: what matters most on top, then the sections, in one file that needs nothing else."""

from __future__ import annotations

from collections import Counter
from importlib import resources

from goqueue.console import look
from goqueue.pipeline import human
from goqueue.pipeline.report.failed import failed
from goqueue.pipeline.report.flow import flow, lag
from goqueue.pipeline.report.health import health
from goqueue.pipeline.report.markup import Markup, join, tag
from goqueue.pipeline.report.parts import Section, Tile, tile
from goqueue.pipeline.report.rows import AuditRow, CheckedRow, DeadLetterRow, Facts, StageRow, Traffic
from goqueue.pipeline.report.speed import speed
from goqueue.pipeline.report.windows import span_of


def page(facts: Facts) -> str:
    """The whole file. The same facts make the same page, byte by byte."""
    sections = [flow(facts), speed(facts), failed(facts), lag(facts), health(facts)]
    main = tag("main", tag("div", *map(tile, tiles(facts)), class_="tiles"), *map(_section, sections))
    body = tag("body", _header(facts, sections), main, _footer(facts))
    return "<!DOCTYPE html>\n" + tag("html", head(f"GoQueue report · {facts.lake}"), "\n", body, lang="en") + "\n"


def head(title: str, more_style: str = "") -> Markup:
    """Of a page that is one file: the style stands in it whole."""
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(look() + resources.files(__package__).joinpath("page.css").read_text() + more_style)),
    )


def _header(facts: Facts, sections: list[Section]) -> Markup:
    links = [tag("a", one.title, href=f"#{one.anchor}") for one in sections]
    when = tag("p", f"{_period(facts)} · lake ", tag("code", facts.lake))
    return tag("header", tag("div", tag("h1", "GoQueue report"), when), tag("nav", *links))


def _period(facts: Facts) -> str:
    if not facts.traffic:
        return f"made {human.moment(facts.made_ms)} UTC"
    low, high = span_of(facts.traffic)
    return f"{human.moment(low)} to {human.moment(high)} UTC"


def _footer(facts: Facts) -> Markup:
    message = f"Made {human.moment(facts.made_ms)} UTC by goqueue pipeline report. Times are in UTC."
    return tag("footer", message)


def _section(one: Section) -> Markup:
    head = tag("h2", one.title)
    return join(
        "\n",
        tag("section", head, tag("p", one.lead, class_="lead"), tag("div", *one.inner, class_="cards"), id=one.anchor),
    )


# --- the numbers on top -------------------------------------------------------------------------------


def tiles(facts: Facts) -> list[Tile]:
    """Six numbers; one that was never computed is a dash."""
    return [
        *_flowed(facts.traffic),
        _latency(facts.stages),
        _died(facts.letters),
        _broke(facts.checked),
        _whole(facts.audits),
    ]


def _flowed(rows: list[Traffic] | None) -> list[Tile]:
    if not rows:
        return [Tile("Messages", "-" if rows is None else "0"), Tile("Highest rate", "-")]
    low, high = span_of(rows)
    by_start: dict[int, float] = {}
    for one in rows:
        by_start[one.start_ms] = by_start.get(one.start_ms, 0.0) + one.messages * 1000 / one.length_ms
    total, size = sum(one.messages for one in rows), sum(one.bytes for one in rows)
    topics = len({one.topic for one in rows})
    return [
        Tile("Messages", f"{total:,}", f"{human.size(size)} in {topics} topics"),
        Tile("Highest rate", human.rate(max(by_start.values())), f"mean {human.rate(total * 1000 / (high - low))}"),
    ]


def _latency(rows: list[StageRow] | None) -> Tile:
    whole = [one for one in rows or [] if one.name == "total"]
    if not whole:
        return Tile("Publish to ack, p99", "-")
    worst = max(whole, key=lambda one: one.p99_us)
    return Tile("Publish to ack, p99", human.span(worst.p99_us), f"{worst.topic}, the slowest topic")


def _died(rows: list[DeadLetterRow] | None) -> Tile:
    if rows is None:
        return Tile("Dead letters", "-")
    by_reason: Counter[str] = Counter()
    for one in rows:
        by_reason[one.reason] += one.count
    note = ", ".join(f"{count:,} of them {reason or 'by hand'}" for reason, count in by_reason.most_common(1))
    return Tile("Dead letters", f"{by_reason.total():,}", note, "bad" if rows else "good")


def _broke(rows: list[CheckedRow] | None) -> Tile:
    if rows is None:
        return Tile("In quarantine", "-")
    bad, checked = sum(one.bad for one in rows), sum(one.rows for one in rows)
    return Tile(
        "In quarantine", f"{bad:,}", f"{human.share(bad, checked)} of {checked:,} rows", "bad" if bad else "good"
    )


def _whole(rows: list[AuditRow] | None) -> Tile:
    if rows is None:
        return Tile("Gaps and overlaps", "-")
    wrong, there = sum(one.wrong for one in rows), sum(one.rows for one in rows)
    return Tile("Gaps and overlaps", f"{wrong:,}", f"{there:,} archived", "bad" if wrong else "good")
