"""All that a page tells, out of a lake."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.pipeline.counters import all_counters
from goqueue.pipeline.report import read_failed, read_flow, read_health, read_speed
from goqueue.pipeline.report.lake_tables import LakeTables
from goqueue.pipeline.report.rows import Facts
from goqueue.pipeline.running import METRICS

FOUND_BY: Final = {
    **dict.fromkeys(("traffic", "lanes", "lags"), "rates"),
    **dict.fromkeys(("stages", "slowest", "failures"), "latency"),
    **dict.fromkeys(("letters", "deaths"), "dlq"),
    **dict.fromkeys(("checked", "breaks", "drifts"), "quality"),
    **dict.fromkeys(("audits", "holes"), "compact"),
}


def read_facts(lake: LakeTables, now_ms: int) -> Facts:
    """Everything there is; None for what was never computed."""
    found = Facts(
        lake=lake.lake,
        made_ms=now_ms,
        traffic=read_flow.traffic(lake),
        lanes=read_flow.lanes(lake),
        lags=read_flow.lags(lake),
        stages=read_speed.stages(lake),
        slowest=read_speed.slowest(lake),
        failures=read_speed.failures(lake),
        letters=read_failed.letters(lake),
        deaths=read_failed.deaths(lake),
        checked=read_failed.checked(lake),
        breaks=read_failed.breaks(lake),
        drifts=read_failed.drifts(lake),
        tables=read_health.tables(lake),
        audits=read_health.audits(lake),
        holes=read_health.holes(lake),
    )
    return _with_nothing_found(found)


def _with_nothing_found(facts: Facts) -> Facts:
    """A pipeline that ran and found nothing leaves no table behind, but it did look."""
    ran = {name for name, one in all_counters(f"{facts.lake}/{METRICS}").items() if one.runs}
    looked: dict[str, list[object]] = {
        part: [] for part, name in FOUND_BY.items() if name in ran and getattr(facts, part) is None
    }
    return msgspec.structs.replace(facts, **looked)
