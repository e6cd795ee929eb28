"""What is told of a served pipeline, and when: once for a change, and nothing while it lasts."""

from __future__ import annotations

from goqueue.pipeline.definition.alerts import AlertRules
from goqueue.pipeline.definition.serving import PipelineStatus
from goqueue.pipeline.definition.words import Alerts

ASKED = Alerts("alerts", lag_rows=100)


def told(rules: AlertRules, state: str, error: str = "", lag: float = 0) -> list[str]:
    status = PipelineStatus("shop", state, error, 0, {"lag_rows": lag})
    return [one.alert for one in rules.look(status, ASKED, 7)]


def test_a_failure_is_told_once_and_so_is_its_end() -> None:
    rules = AlertRules()
    assert told(rules, "running") == []
    assert told(rules, "waiting", "no such luck") == ["failed"]
    assert told(rules, "waiting", "no such luck") == []
    assert told(rules, "running", "no such luck") == []  # started, and nothing done yet
    assert told(rules, "running") == ["running"]
    assert told(rules, "running", "unknown field") == ["refused"]
    assert told(rules, "paused", "unknown field") == ["running"]


def test_a_number_is_told_when_it_passes_its_limit_either_way() -> None:
    rules = AlertRules()
    assert [told(rules, "running", lag=lag) for lag in (100, 101, 500, 100, 0, 200)] == [
        [],
        ["lag_rows_above"],
        [],
        ["lag_rows_below"],
        [],
        ["lag_rows_above"],
    ]
