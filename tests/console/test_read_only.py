"""The page of a node whose settings make it read-only: no control that changes anything, in any browser."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.console.chromium import Chromium

pytestmark = pytest.mark.slow
HIDDEN = "[...document.querySelectorAll('.write')].every((one) => one.offsetParent === null)"


def test_a_read_only_node_has_no_controls_that_change_it_and_says_why(tmp_path: Path) -> None:
    page = Chromium(tmp_path / "chromium")
    try:
        settings = {"GOQUEUE_REST_CONSOLE_READ_ONLY": "true"}
        with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
            page.go(f"{node.url}/")
            page.see("The page of this node is read-only")
            assert http.post("/topics", json={"name": "orders"}).status_code == 201, "the routes are up to the rules"
            for room in ("", "topics", "topics/orders", "topics/orders/settings", "cluster", "users"):
                page.go(f"{node.url}/#/{room}")
                page.wait("document.querySelector('#room h1')")
                assert page.run(HIDDEN), room
            assert page.run("document.querySelector('#readonly').disabled")
            page.run("localStorage.setItem('goqueue.readonly', 'off'); window.isOld = true; location.reload(); true")
            page.wait("!window.isOld && document.querySelector('#room h1')")
            assert page.run(HIDDEN) and page.run("document.body.classList.contains('readonly')")
            page.go(f"{node.url}/docs", "document.querySelector('details.route')")
            page.run("document.querySelectorAll('details.route').forEach((one) => { one.open = true; }); true")
            page.wait(
                "document.querySelectorAll('form.tryit').length === document.querySelectorAll('details.route').length"
            )
            methods = page.run(
                "[...new Set([...document.querySelectorAll('details.route')]"
                ".filter((one) => one.querySelector('form.tryit [type=submit]'))"
                ".map((one) => one.querySelector('.method').textContent))].join()"
            )
            assert methods == "GET"
            assert page.errors == []
    finally:
        page.close()
