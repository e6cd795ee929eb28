"""A person watches a node die: the page of another tells it, says what may be done, and sees it come back by itself."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from bench.cluster_process import ClusterProcess
from tests.console.chromium import Chromium
from tests.etcd import etcd_program
from tests.long import LONG

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(300)]
WAIT_S = 60.0
TOPIC = {"name": "orders", "num_partitions": 6}
ROWS = "[...document.querySelectorAll('tr, [role=row]')]"
LED_BY_2 = r"/^\d+\s+\S+\s+node 2\b/"


def row_of(node: int) -> str:
    """The row of a node in the table of nodes."""
    return f"{ROWS}.find((one) => one.innerText.startsWith('node {node}'))"


@pytest.mark.skipif(not LONG, reason="three nodes, an etcd and a browser: one of the long forms")
def test_a_node_dies_and_comes_back_before_a_persons_eyes(tmp_path: Path) -> None:
    etcd_program()
    page = Chromium(tmp_path / "chromium")
    try:
        with ClusterProcess(tmp_path / "cluster") as cluster:
            page.size(1440, 900)
            page.theme("light")
            assert httpx.post(f"{cluster.nodes[0].url}/topics", json=TOPIC, timeout=30).is_success
            page.go(f"{cluster.nodes[0].url}/#/cluster")
            page.see("3 alive, 0 gone", WAIT_S)
            page.run("window.isTheSame = true")
            watch_it_die(page, cluster)
            page.run("window.isTheSame = true")
            cluster.start(2)
            page.see("3 alive, 0 gone", WAIT_S)
            page.wait("document.querySelector('#room .chip')?.innerText === 'ok'", WAIT_S)
            assert page.run("window.isTheSame"), "without a reload"
            page.picture("console-node-back")
            assert page.errors == []
            its_own_page(page, cluster)
    finally:
        page.close()


def watch_it_die(page: Chromium, cluster: ClusterProcess) -> None:
    page.wait(f"{ROWS}.some((one) => {LED_BY_2}.test(one.innerText))", WAIT_S)
    cluster.kill(2)
    page.see("2 alive, 1 gone", WAIT_S)
    page.wait("document.querySelector('#room .chip')?.innerText === 'degraded'", WAIT_S)
    page.wait(f"{row_of(2)}?.innerText.includes('gone')", WAIT_S)
    page.wait(f"!{ROWS}.some((one) => {LED_BY_2}.test(one.innerText))", WAIT_S)
    page.picture("console-node-gone")
    page.run(f"[...{row_of(1)}.querySelectorAll('button')].find((one) => one.innerText === 'May it stop?').click()")
    page.see("Not now:", WAIT_S)
    sent = httpx.post(f"{cluster.nodes[0].url}/topics/orders/messages", json={"messages": [{"value": "x"}]}, timeout=30)
    assert sent.is_success, "work goes on"
    assert page.run("window.isTheSame"), "without a reload"


def its_own_page(page: Chromium, cluster: ClusterProcess) -> None:
    """Of a node that dies while one looks at it."""
    page.go(f"{cluster.nodes[1].url}/#/topics")
    page.see("orders", WAIT_S)
    page.run("window.isTheSame = true")
    cluster.kill(1)
    page.wait("document.querySelector('#status').innerText === 'no answer'", WAIT_S)
    page.picture("console-node-dead")
    cluster.start(1)
    page.wait("document.querySelector('#status').innerText === 'ready'", WAIT_S)
    page.see("orders", WAIT_S)
    assert page.run("window.isTheSame"), "without a reload"
