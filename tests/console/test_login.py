"""The page of a node that asks who comes: it asks in turn, keeps the key for the tab alone, and forgets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from tests.console.chromium import Chromium
from tests.door.security.secure import SecureNode, secure_settings

pytestmark = pytest.mark.slow


def test_a_key_lets_one_in_until_the_tab_logs_out(tmp_path: Path) -> None:
    page = Chromium(tmp_path / "chromium")
    try:
        settings = secure_settings(tmp_path)
        with NodeProcess(tmp_path / "data", settings=settings) as node, SecureNode(node) as secure:
            token = secure.key("admin")["token"]
            page.go(f"{node.url}/", "document.querySelector('dialog[open]')")
            page.fill("API key", "gq.wrong")
            page.click("Log in", "dialog")
            page.wait("document.querySelector('dialog .told')?.textContent.length > 5")
            page.fill("API key", token)
            page.click("Log in", "dialog")
            page.see("admin · log out")
            page.see("Nothing is here yet")
            kept = page.run(
                "JSON.stringify([Object.values(sessionStorage), Object.values(localStorage), location.href])"
            )
            assert kept.count(token) == 1 and token not in page.run(
                "JSON.stringify([{...localStorage}, location.href])"
            )
            page.run("window.isOld = true; location.reload(); true")
            page.wait("!window.isOld && document.body?.innerText.includes('admin · log out')")
            page.click("admin · log out")
            page.wait("document.body?.innerText.includes('This node wants to know who asks')")
            assert page.run("sessionStorage.length") == 0
            assert page.errors == []
    finally:
        page.close()
