"""Every generated file of `deploy/`, by its path there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tools.dashboards.alerts import alerts
from tools.dashboards.boards import boards
from tools.dashboards.recording import recordings
from tools.dashboards.rule_tests import rule_tests
from tools.dashboards.text import as_json, yaml


def files() -> dict[str, str]:
    return {
        "prometheus/rules/recording.yml": recording_rules(),
        "prometheus/rules/alerts.yml": alerting_rules(),
        "prometheus/tests/alerts_test.yml": yaml(rule_tests()),
        **{f"grafana/dashboards/{one.uid}.json": as_json(one.json()) for one in boards()},
    }


def recording_rules() -> str:
    return _group("goqueue-recording", [one.rule() for one in recordings()])


def alerting_rules(wait: str | None = None) -> str:
    """With `wait`, all wait as long before they fire."""
    return _group("goqueue-alerts", [one.rule(wait) for one in alerts()])


def _group(name: str, rules: Sequence[Any]) -> str:
    return yaml({"groups": [{"name": name, "rules": rules}]})
