"""Prometheus' own tool has nothing to object: to the page, the rules, their tests, and the configuration."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from bench.node_process import NodeProcess

DEPLOY = Path(__file__).parents[2] / "deploy/prometheus"
pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is missing; Debian has it in the package prometheus"
)


def promtool(*arguments: str, text: str | None = None) -> None:
    done = subprocess.run(["promtool", *arguments], input=text, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0 and not (text and done.stderr), done.stdout + done.stderr


def test_the_rules_are_sound() -> None:
    promtool("check", "rules", *map(str, sorted((DEPLOY / "rules").iterdir())))


def test_every_alert_fires_by_its_fault_and_not_by_health() -> None:
    promtool("test", "rules", str(DEPLOY / "tests/alerts_test.yml"))


def test_the_configuration_is_sound() -> None:
    promtool("check", "config", str(DEPLOY / "prometheus.yml"))


def test_the_page_is_as_prometheus_wants_it(server: NodeProcess) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as http:
        http.post("/topics", json={"name": "page"})
        http.post("/topics/page/messages", json={"messages": [{"value": "v"}]})
        http.get("/topics/page/messages")
        promtool("check", "metrics", text=http.get("/metrics").text)


def test_who_asks_for_openmetrics_gets_it_with_the_traces_of_slow_requests(server: NodeProcess) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with httpx.Client(base_url=server.url, timeout=60) as http:
        http.post("/topics", json={"name": "traced"})
        headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
        http.post("/topics/traced/messages", json={"messages": [{"value": "v"}]}, headers=headers).raise_for_status()
        page = http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert page.headers["content-type"].startswith("application/openmetrics-text")
    families = {one.name: one for one in text_string_to_metric_families(page.text)}
    for name in ("goqueue_broker_publish_seconds", "goqueue_rest_request_seconds"):
        exemplars = [one.exemplar for one in families[name].samples if one.exemplar is not None]
        assert trace in {one.labels["trace_id"] for one in exemplars}, name
