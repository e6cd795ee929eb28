"""Whether the lake is whole: its tables and files, and every offset that is missing or doubled."""

from __future__ import annotations

from typing import Final

from goqueue.pipeline import human
from goqueue.pipeline.report.markup import Markup
from goqueue.pipeline.report.parts import Amount, Cell, Section, card, fine, missing, table
from goqueue.pipeline.report.rows import AuditRow, Facts, Hole, Table
from goqueue.pipeline.report.strips import amount_bar

_PARTITIONS_MAX: Final = 60
_HOLES_MAX: Final = 30
_LEAD: Final = "The tables behind this page, and the audit of the archive by topic, partition and offset."


def health(facts: Facts) -> Section:
    return Section("health", "Lake health", _LEAD, (*_tables(facts), *_audits(facts)))


def _tables(facts: Facts) -> list[Markup]:
    if not facts.tables:
        return [card("Tables", missing("The lake has no tables yet. Run", "archive", facts.lake))]
    most = max(one.bytes for one in facts.tables)
    heads = ["Table", "Rows", "Files", "Small files", "Size", "", "Mean file", "Version", "Written (UTC)"]
    cells = [_table(one, most) for one in sorted(facts.tables, key=lambda one: one.name)]
    small = sum(one.small for one in facts.tables)
    note = f"{small:,} small files; `goqueue pipeline run compact` puts them together" if small else ""
    return [card("Tables", table(heads, cells), note=note)]


def _table(one: Table, most: int) -> list[Cell]:
    mean = human.size(one.bytes / one.files) if one.files else "-"
    sizes: list[Cell] = [Amount(human.size(one.bytes)), amount_bar(one.bytes, most), Amount(mean)]
    return [one.name, one.rows, one.files, one.small, *sizes, one.version, human.moment(one.written_ms)]


def _audits(facts: Facts) -> list[Markup]:
    if facts.audits is None:
        return [card("Audit", missing("The archive was not audited yet. Run", "compact", facts.lake))]
    if not facts.audits:
        return [card("Audit", fine("The archive is empty."))]
    return [_verdict(facts.audits), *_holes(facts.holes or [])]


def _verdict(rows: list[AuditRow]) -> Markup:
    wrong = sum(one.wrong for one in rows)
    shown = sorted(rows, key=lambda one: (-one.wrong, one.topic, one.partition))[:_PARTITIONS_MAX]
    heads = ["Topic", "Partition", "First", "Last", "Rows", "Explained", "Expired", "Lost", "Unknown", "Doubled"]
    cells: list[list[Cell]] = [[one.topic, one.partition, *_offsets(one)] for one in shown]
    whole = fine("Every message from the first to the last is there, once.") if not wrong else None
    note = f"{sum(one.lost for one in rows):,} lost, {sum(one.unknown for one in rows):,} unknown, "
    note += f"{sum(one.doubled for one in rows):,} doubled" + _cut(len(rows), _PARTITIONS_MAX)
    return card("Audit", whole, table(heads, cells), note=note)


def _offsets(one: AuditRow) -> tuple[int, ...]:
    return one.first, one.last, one.rows, one.explained, one.expired, one.lost, one.unknown, one.doubled


def _cut(count: int, most: int) -> str:
    return f"; the first {most:,} of {count:,} here" if count > most else ""


def _holes(rows: list[Hole]) -> list[Markup]:
    if not rows:
        return []
    shown = sorted(rows, key=lambda one: (one.topic, one.partition, one.start))[:_HOLES_MAX]
    heads = ["Topic", "Partition", "What", "Verdict", "From offset", "To offset", "Offsets"]
    cells: list[list[Cell]] = [
        [one.topic, one.partition, one.kind, one.verdict, one.start, one.end, one.end - one.start + 1] for one in shown
    ]
    return [card("Gaps and overlaps", table(heads, cells), note=f"{len(rows):,}" + _cut(len(rows), _HOLES_MAX))]
