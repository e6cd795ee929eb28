"""The audit log's lines: nothing is lost, and a flood stays small."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from goqueue.base.limits import AUDIT_KINDS_PER_S, AUDIT_LINES_WAITING_MAX
from goqueue.core.audit_lines import AuditEvent, AuditLines

EVENT = AuditEvent("refused", "alice", "rest", "10.0.0.7", "", ("read topic:orders",), "refused")


def lines(found: object) -> list[dict[str, Any]]:
    assert isinstance(found, list)
    return [json.loads(line) for line in found]


def test_an_event_is_one_line_at_once() -> None:
    made = AuditLines()
    made.add(EVENT, 5_000)
    assert lines(made.take(5_000)) == [
        {
            "time": "1970-01-01T00:00:05.000Z",
            "event": "refused",
            "user": "alice",
            "door": "rest",
            "host": "10.0.0.7",
            "resources": ["read topic:orders"],
            "outcome": "refused",
        }
    ]
    assert made.take(5_100) == []


def test_the_same_within_a_second_is_counted_in_one_more_line() -> None:
    made = AuditLines()
    for ms in range(1000):
        made.add(EVENT, 5_000 + ms)
    assert len(made.take(5_999)) == 1
    [counted] = lines(made.take(6_000))
    assert counted["count"] == 999
    made.add(EVENT, 6_001)
    made.add(EVENT, 6_002)
    assert [line.get("count", 1) for line in lines(made.rest(6_002))] == [1, 1]


def test_too_many_different_events_are_counted_but_every_change_is_told() -> None:
    made = AuditLines()
    for number in range(AUDIT_KINDS_PER_S + 50):
        made.add(replace(EVENT, user=str(number)), 5_000)
    made.add(replace(EVENT, event="change", verb="Topics.delete"), 5_000)
    found = lines(made.rest(5_500))
    assert len(found) == AUDIT_KINDS_PER_S + 2
    assert [line["verb"] for line in found if line["event"] == "change"] == ["Topics.delete"]
    assert found[-1] == {"time": "1970-01-01T00:00:05.500Z", "event": "more", "count": 50}


def test_lines_that_nobody_takes_are_dropped_and_that_is_told() -> None:
    made = AuditLines()
    for number in range(AUDIT_LINES_WAITING_MAX + 7):
        made.add(replace(EVENT, event="change", user=str(number)), 5_000)
    assert len(made.take(5_000)) == AUDIT_LINES_WAITING_MAX
    assert lines(made.take(5_000))[0]["event"] == "dropped"
    assert made.take(5_000) == []


def test_long_names_are_cut_and_nothing_breaks_a_line() -> None:
    made = AuditLines()
    made.add(replace(EVENT, user="a\n" * 1000, resources=("x" * 5000,)), 5_000)
    [raw] = made.take(5_000)
    assert raw.count(b"\n") == 1 and raw.endswith(b"\n") and len(raw) < 2_000
