"""Tests of the alerts for `promtool test rules`: each fires by its fault, and none by what looks like it."""

from __future__ import annotations

from collections.abc import Mapping

from tools.dashboards.alerts import Alert, alerts
from tools.dashboards.text import Data

_QUIET_AT = "45m"


def rule_tests() -> Data:
    return {
        "rule_files": ["../rules/recording.yml", "../rules/alerts.yml"],
        "evaluation_interval": "1m",
        "tests": [_lag_of_a_cluster(), *(test for one in alerts() for test in (_fires(one), _is_quiet(one)))],
    }


def _lag_of_a_cluster() -> Data:
    """One node keeps the group and knows an old end of the partition, another one leads it."""
    values = {
        'goqueue_broker_high_watermark{instance="n1",topic="t",partition="0"}': "70+0x60",
        'goqueue_broker_high_watermark{instance="n2",topic="t",partition="0"}': "100+0x60",
        'goqueue_broker_high_watermark{instance="n2",topic="t",partition="1"}': "5+0x60",
        'goqueue_consumer_committed_offset{instance="n1",group="g",topic="t",partition="0"}': "60+0x60",
        'goqueue_consumer_committed_offset{instance="n1",group="g",topic="t",partition="1"}': "6+0x60",
    }
    told: list[Data] = [{"labels": 'goqueue:consumer_lag:group{group="g",topic="t"}', "value": 40}]
    return {
        "name": "lag is told from the leader's end",
        "interval": "1m",
        "input_series": _series(values),
        "promql_expr_test": [{"expr": "goqueue:consumer_lag:group", "eval_time": "10m", "exp_samples": told}],
    }


def _series(values: Mapping[str, str]) -> Data:
    return [{"series": name, "values": value} for name, value in values.items()]


def _fires(one: Alert) -> Data:
    told = {
        "exp_labels": {"severity": one.severity, **one.labels},
        "exp_annotations": {"summary": one.told(), "runbook_url": one.runbook},
    }
    return {
        "name": f"{one.name} fires",
        "interval": "1m",
        "input_series": _series(one.fault),
        "alert_rule_test": [{"alertname": one.name, "eval_time": one.at, "exp_alerts": [told]}],
    }


def _is_quiet(one: Alert) -> Data:
    return {
        "name": f"{one.name} is quiet",
        "interval": "1m",
        "input_series": _series(one.health),
        "alert_rule_test": [{"alertname": one.name, "eval_time": _QUIET_AT, "exp_alerts": []}],
    }
