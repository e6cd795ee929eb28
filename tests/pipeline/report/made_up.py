"""Rows to test pages with, every number its own so that none can stand for another."""

from __future__ import annotations

import math
import random

from goqueue.pipeline.report.rows import (
    AuditRow,
    BreakRow,
    CheckedRow,
    DeadLetterRow,
    Deaths,
    Drift,
    EventRow,
    Facts,
    Failure,
    Hole,
    Lag,
    Lane,
    StageRow,
    Table,
    TraceRow,
    Traffic,
)

START_MS = 1_767_268_800_000  # 2026-01-01 12:00 UTC
MINUTE_MS = 60_000
TOPICS = ("orders", "payments", "clicks")
LANES = ("critical", "high", "normal", "low", "background")


def traffic(minutes: int = 60, seed: int = 7) -> list[Traffic]:
    chance = random.Random(seed)
    rows = []
    for minute in range(minutes):
        for place, topic in enumerate(TOPICS):
            wave = 1 + 0.5 * math.sin(minute / 9 + place)
            messages = round((120 + 400 * place) * wave) + chance.randrange(60)
            size = messages * (180 + 70 * place) + chance.randrange(99)
            start = START_MS + minute * MINUTE_MS
            rows.append(Traffic(topic, start, MINUTE_MS, messages, size, chance.randrange(20, messages)))
    return rows


def lanes(minutes: int = 60, seed: int = 8) -> list[Lane]:
    chance = random.Random(seed)
    weights = (10, 60, 700, 120, 60)
    return [
        Lane(lane, topic, START_MS + minute * MINUTE_MS, MINUTE_MS, weight + chance.randrange(40))
        for minute in range(minutes)
        for topic in TOPICS
        for lane, weight in zip(LANES, weights, strict=True)
    ]


def lags(looks: int = 20) -> list[Lag]:
    groups = (("packing", "orders", 2_000), ("billing", "payments", 500), ("trends", "clicks", 9_000))
    return [
        Lag(group, topic, START_MS + look * 180_000, max(0, round(most * math.sin(look / 7)) + look))
        for look in range(looks)
        for group, topic, most in groups
    ]


def stages() -> list[StageRow]:
    return [
        StageRow("publish.persist", "orders", 12_001, 181.0, 402.0, 1_912.0, 13_007.0),
        StageRow("publish.deliver", "orders", 11_953, 21_503.0, 88_111.0, 410_333.0, 2_101_444.0),
        StageRow("lease.ack", "orders", 11_777, 3_217.0, 9_871.0, 41_222.0, 98_765.0),
        StageRow("total", "orders", 11_701, 27_301.0, 96_333.0, 503_777.0, 3_456_789.0),
        StageRow("publish.persist", "payments", 8_003, 191.0, 433.0, 2_077.0, 9_191.0),
        StageRow("delay.wait", "payments", 311, 2_004_111.0, 4_801_222.0, 5_003_333.0, 5_021_444.0),
    ]


def traces() -> list[TraceRow]:
    names = ("publish.received", "publish.validated", "publish.partitioned", "publish.persisted", "consume.fetched")
    found = []
    for number in range(7):
        events = [EventRow(name, 100 + 40 * place) for place, name in enumerate(names)]
        at = 5_000 * (number + 1)
        for attempt in range(number % 4):
            events += [EventRow("consume.nacked", at, 4_000), EventRow("consume.fetched", at + 200_000 * (attempt + 1))]
            at += 200_000 * (attempt + 1)
        events.append(EventRow("dlq.routed" if number == 3 else "consume.acked", at + 9_000, 9_000))
        status = "error" if number == 3 else "completed"
        found.append(TraceRow(f"{number:032x}", "orders", number % 2, 100 + number, status, at + 9_000, tuple(events)))
    return found


def facts() -> Facts:
    """Everything is there, and a message tries to be part of the page."""
    hostile = '{"note": "<script>alert(1)</script> & \\u0000 ]]>"}'
    return Facts(
        lake="/data/lake",
        made_ms=START_MS + 61 * MINUTE_MS,
        traffic=traffic(),
        lanes=lanes(),
        lags=lags(),
        stages=stages(),
        slowest=traces(),
        failures=[
            Failure("consume.nacked", "orders", "the address is incomplete", 341),
            Failure("visibility.timeout", "payments", "", 27),
        ],
        letters=[
            DeadLetterRow(
                "orders",
                "packing",
                "MAX_FAILURES",
                "9f3c01aa",
                212,
                START_MS,
                START_MS + 3_333_000,
                "2",
                "no stock of item #",
                hostile,
            ),
            DeadLetterRow(
                "orders",
                "packing",
                "REJECTED",
                "77ab20c4",
                41,
                START_MS + 111_000,
                START_MS + 2_222_000,
                "1",
                "the address is incomplete",
                '{"order": 17}',
            ),
            DeadLetterRow(
                "payments",
                "billing",
                "LEASE_EXPIRED",
                "e01d44f0",
                13,
                START_MS + 5_000,
                START_MS + 1_777_000,
                "",
                "",
                "",
            ),
        ],
        deaths=[
            Deaths(reason, START_MS + minute * MINUTE_MS, MINUTE_MS, (minute * step) % 7)
            for minute in range(60)
            for reason, step in (("MAX_FAILURES", 3), ("REJECTED", 5), ("LEASE_EXPIRED", 11))
        ],
        checked=[CheckedRow("orders", 12_345, 99), CheckedRow("payments", 8_765, 0)],
        breaks=[
            BreakRow("orders", "schema: $.total is less than the minimum of 0", 61, '{"total": -4}'),
            BreakRow("orders", "rule: currency in EUR, USD", 38, '{"currency": "XXX"}'),
        ],
        drifts=[
            Drift("orders", "coupon", "field appeared", "0 %", "41.7 %"),
            Drift("orders", "total", "type changed", "integer", "number"),
        ],
        tables=[
            Table("messages", 51_234, 44, 9_876_543, 39, 17, START_MS),
            Table("studies/rates", 1_801, 3, 234_567, 3, 2, START_MS + 5_000),
        ],
        audits=[
            AuditRow("orders", 0, 0, 6_172, 6_171, 2, 0, 0, 0, 0),
            AuditRow("payments", 1, 5, 4_387, 4_380, 6, 7, 3, 9, 1),
        ],
        holes=[Hole("payments", 1, "gap", "lost", 77, 79), Hole("payments", 1, "overlap", "doubled", 101, 101)],
    )
