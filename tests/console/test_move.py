"""A person drains a node in the page and watches its shards go: how far each is, and that all of it arrives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.cluster_process import ClusterProcess
from tests.console.chromium import Chromium
from tests.console.test_node_dies import WAIT_S, row_of
from tests.etcd import etcd_program
from tests.long import LONG
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(400)]
BARS = "[...document.querySelectorAll('[role=progressbar]')].map((one) => Number(one.getAttribute('aria-valuenow')))"
VALUE = "v" * 500_000
MESSAGES = 60
RATE = 1_500_000  # bytes a second: slow enough to be watched


def click(page: Chromium, where: str, text: str) -> None:
    page.run(f"[...{where}.querySelectorAll('button')].find((one) => one.innerText === '{text}').click()")


@pytest.mark.skipif(not LONG, reason="three nodes, an etcd and a browser: one of the long forms")
def test_shards_of_a_drained_node_are_watched_on_their_way(tmp_path: Path) -> None:
    etcd_program()
    page = Chromium(tmp_path / "chromium")
    try:
        settings = {"GOQUEUE_CLUSTER_REPLICATION_FACTOR": "2"}
        with ClusterProcess(tmp_path / "cluster", settings=settings) as cluster:
            url = cluster.nodes[0].url
            with httpx.Client(base_url=url, timeout=60) as http:
                assert http.post("/topics", json={"name": "orders", "num_partitions": 6}).is_success
                for number in range(MESSAGES):
                    message = {"value": VALUE, "partition": number % 6}
                    http.post("/topics/orders/messages", json={"messages": [message]}).raise_for_status()
                assert http.patch("/admin/reassignment", json={"throttle": RATE}).is_success
                watch(page, url)
                wait_until(lambda: not http.get("/admin/reassignment").json()["moves"], "moves", WAIT_S * 3)
                page.wait("!document.querySelector('[role=progressbar]')", WAIT_S)
                shards: list[dict[str, Any]] = http.get("/cluster/state").json()["shards"]
                assert not any(2 in one["replicas"] for one in shards), "it holds nothing any more"
                page.picture("console-drained")
            assert page.errors == []
    finally:
        page.close()


def watch(page: Chromium, url: str) -> None:
    page.size(1440, 900)
    page.theme("light")
    page.go(f"{url}/#/cluster")
    page.see("3 alive, 0 gone", WAIT_S)
    click(page, row_of(2), "Drain")
    click(page, "document.querySelector('dialog')", "Preview")
    page.see("to copy.", WAIT_S)
    click(page, "document.querySelector('dialog')", "Begin")
    page.wait(f"{BARS}.some((one) => one > 0 && one < 100)", WAIT_S)
    first = max(one for one in page.run(BARS) if one < 100)
    page.picture("console-move")
    page.wait(f"{BARS}.length === 0 || {BARS}.some((one) => one > {first})", WAIT_S)
