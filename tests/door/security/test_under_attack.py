"""Attacks that go on for a while: guessing of keys, pages in a real browser, and logins that have to be renewed."""

from __future__ import annotations

import http.client
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest
from confluent_kafka import KafkaError, Producer

from bench.node_process import NodeProcess
from tests.door.security.secure import SecureNode, secure_settings

GUESSES = 3_000
GUESSES_S = 1_000
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


# --- guessing --------------------------------------------------------------------------------------------------------


def guess(node: NodeProcess, count: int, refused: list[int]) -> None:
    """Wrong keys, one after the other."""
    line = http.client.HTTPConnection(node.url.removeprefix("http://"), timeout=60)
    for one in range(count):
        line.request("GET", "/topics", headers={"Authorization": f"Bearer GQK{one:017d}.{one:043d}"})
        answer = line.getresponse()
        answer.read()
        refused.append(answer.status)
    line.close()


def test_a_thousand_wrong_keys_a_second_keep_nobody_else_out(secure: SecureNode) -> None:
    name, _ = secure.user("guessed")
    key = secure.key(name)
    refused: list[int] = []
    began, cpu = time.monotonic(), secure.node.cpu_seconds()
    guessing = [threading.Thread(target=guess, args=(secure.node, GUESSES // 4, refused)) for _ in range(4)]
    for one in guessing:
        one.start()
    served: list[float] = []
    with httpx.Client(base_url=secure.node.url, headers={"Authorization": f"Bearer {key['token']}"}) as client:
        while any(one.is_alive() for one in guessing):
            since = time.monotonic()
            assert client.get("/topics").status_code == 200
            served.append(time.monotonic() - since)
    for one in guessing:
        one.join()
    took, cpu = time.monotonic() - began, secure.node.cpu_seconds() - cpu
    assert refused == [401] * GUESSES
    assert cpu < GUESSES / GUESSES_S, f"a thousand take {cpu / GUESSES * GUESSES_S:.2f} s of the node's time"
    assert served and max(served) < 5, f"{len(served)} requests in {took:.1f} s, the slowest in {max(served):.2f} s"


# --- a browser -------------------------------------------------------------------------------------------------------


@contextmanager
def a_site(page: str) -> Iterator[int]:
    """Serves one page; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def browse(url: str, profile: Path) -> str:
    """What the page is in the end; every name leads to this machine."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "--host-resolver-rules=MAP *.test 127.0.0.1"]
    command += ["--virtual-time-budget=4000", "--dump-dom", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=90).stdout


PAGE = """<p id=told>nothing</p><form id=form method=post enctype=text/plain action="{node}/topics" target=there>
<input name='{{"name":"by-form","num_partitions":1,"x":"' value='"}}'></form><iframe name=there></iframe><script>
const told = [];
async function attack() {{
  document.getElementById("form").submit();
  const body = JSON.stringify({{name: "by-fetch"}});
  for (const [mode, type] of [["no-cors", "text/plain"], ["cors", "application/json"], ["cors", "text/plain"]]) {{
    try {{
      const answer = await fetch("{node}/topics", {{method: "POST", mode, body, headers: {{"Content-Type": type}}}});
      told.push(mode + " " + answer.type + " " + (await answer.text()));
    }} catch (error) {{ told.push(mode + " failed"); }}
  }}
  try {{ told.push("read " + (await (await fetch("{node}/topics")).text())); }} catch (error) {{ told.push("unread"); }}
  document.getElementById("told").textContent = "done: " + told.join(", ");
}}
attack();
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_pages_of_other_sites_neither_change_nor_read_anything_in_a_browser(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        assert httpx.post(f"{node.url}/topics", json={"name": "hidden"}).status_code == 201
        with a_site(PAGE.format(node=node.url)) as port:
            shown = browse(f"http://evil.test:{port}/", tmp_path / "one")
        assert "done:" in shown and "unread" in shown and "hidden" not in shown, shown
        # A name of the attacker's that now leads to the node: for the browser it is the attacker's own site.
        rebound = browse(f"http://rebound.test:{node.url.rpartition(':')[2]}/topics", tmp_path / "two")
        assert "unknown-host" in rebound and "hidden" not in rebound, rebound
        names = [one["name"] for one in httpx.get(f"{node.url}/topics").json()["topics"]]
        assert names == ["hidden"]


# --- logins that end -------------------------------------------------------------------------------------------------


def test_librdkafka_shows_who_it_is_again_before_its_session_ends(tmp_path: Path) -> None:
    settings = {**secure_settings(tmp_path), "GOQUEUE_SECURITY_SESSION_MS": "2000"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, SecureNode(node) as secure:
        name, password = secure.user("again")
        secure.admin.post("/topics", json={"name": "again", "num_partitions": 1}).raise_for_status()
        failed: list[KafkaError] = []
        sent: list[object] = []
        chosen = {**secure.confluent("SCRAM-SHA-256", name, password), "error_cb": failed.append}
        producer = Producer(chosen)
        end = time.monotonic() + 6
        while time.monotonic() < end:
            producer.produce("again", b"v", on_delivery=lambda error, _: sent.append(error))
            assert producer.flush(20) == 0
            producer.poll(0.1)
        assert set(sent) == {None} and failed == []
        page = secure.admin.get("/metrics").text
        logins = [line for line in page.splitlines() if line.startswith("goqueue_kafka_requests_total")]
        again = next(float(line.rpartition(" ")[2]) for line in logins if "SaslAuthenticate" in line)
        assert again >= 6, "a login has two steps, and there were at least three"
