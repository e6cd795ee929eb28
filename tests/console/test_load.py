"""The page under load: a tail of thousands of messages a second, lists of any length, and what it costs the node."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.console.chromium import Chromium
from tests.long import LONG

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not LONG, reason="GOQUEUE_LONG_TESTS=1 runs it")]
HOUR_MS = 3_600_000
PAUSE_MS_MAX = 200
_WATCH = """window.pauses = []; new PerformanceObserver((list) => list.getEntries().forEach((one) =>
  window.pauses.push(one.duration))).observe({type: "longtask"}); true"""
_SCROLL = """(async () => { const list = document.querySelector(".scroll"); for (const share of [0.3, 0.6, 0.99, 0.1]) {
  list.scrollTop = share * list.scrollHeight; await new Promise((done) => setTimeout(done, 800)); } })()"""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Chromium]:
    browser = Chromium(tmp_path / "chromium")
    browser.size(1440, 900)
    yield browser
    browser.close()


@pytest.fixture
def http(node: NodeProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.url, timeout=60) as client:
        yield client


def longest_pause_ms(page: Chromium) -> float:
    return float(page.run("Math.max(0, ...window.pauses)"))


def test_a_hundred_thousand_delayed_messages_are_listed_without_a_pause(
    page: Chromium, node: NodeProcess, http: httpx.Client
) -> None:
    http.post("/topics", json={"name": "later", "num_partitions": 1}).raise_for_status()
    due = int(time.time() * 1000) + HOUR_MS
    for first in range(0, 100_000, 1_000):
        messages = [{"value": "later", "deliverAt": due + 5_000 * (first + one)} for one in range(1_000)]
        http.post("/topics/later/messages", json={"messages": messages}).raise_for_status()
    page.go(f"{node.url}/")
    page.run(_WATCH)
    page.room("#/delayed/later")
    page.wait("document.querySelectorAll('tr.opens').length > 20")
    page.run(_SCROLL)
    page.wait("document.querySelectorAll('tr.opens').length > 20")
    assert page.run("document.querySelectorAll('tbody tr').length") < 100
    assert longest_pause_ms(page) < PAUSE_MS_MAX


def test_a_fast_tail_does_not_freeze_the_page(page: Chromium, node: NodeProcess, http: httpx.Client) -> None:
    http.post("/topics", json={"name": "fast", "num_partitions": 2}).raise_for_status()
    page.go(f"{node.url}/")
    page.room("#/topics/fast/messages")
    page.click("Tail")
    page.see("Tailing")
    page.run(_WATCH)
    page.do("Performance.enable", timeDomain="threadTicks")
    messages = [{"key": f"k{one}", "value": "x" * 80} for one in range(500)]
    began = time.monotonic()
    for batch in range(100):
        http.post("/topics/fast/messages", json={"messages": messages}).raise_for_status()
        until = began + (batch + 1) / 10
        while time.monotonic() < until:
            page.run("new Promise((done) => setTimeout(done, 5))")
    page.see("50,000 received")
    metrics = {one["name"]: one["value"] for one in page.do("Performance.getMetrics")["metrics"]}
    assert metrics["TaskDuration"] < (time.monotonic() - began) / 2  # of the page's thread, by the processor's time
    assert page.errors == []


def test_an_open_page_costs_the_node_next_to_nothing(page: Chromium, node: NodeProcess, http: httpx.Client) -> None:
    for number in range(100):
        http.post("/topics", json={"name": f"t{number}", "num_partitions": 1}).raise_for_status()

    def used_s() -> float:
        fields = Path(f"/proc/{node.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    page.go(f"{node.url}/")
    page.room("#/topics")
    page.wait("document.querySelectorAll('tbody tr').length >= 100")
    began, before = time.monotonic(), used_s()
    page.run("new Promise((done) => setTimeout(done, 15000))")
    assert (used_s() - before) / (time.monotonic() - began) < 0.01
