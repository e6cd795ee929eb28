"""`goqueue kubernetes rack` against a server that answers as Kubernetes' does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from goqueue.cli.kubernetes import kubernetes


class ApiServer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        labels = {"/api/v1/nodes/m-1": {"topology.kubernetes.io/zone": "zone-b"}, "/api/v1/nodes/m-2": None}
        if self.headers["Authorization"] != "Bearer a-token":
            self._answer(403, {"kind": "Status"})
        elif self.path in labels:
            self._answer(200, {"metadata": {"labels": labels[self.path]}})
        else:
            self._answer(404, {"kind": "Status"})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def api() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ApiServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def rack(api: str, node: str, folder: Path, token: str = "a-token") -> Result:
    (folder / "token").write_text(token)
    words = ["rack", node, "--to", str(folder / "rack"), "--api", api, "--account", str(folder)]
    return CliRunner().invoke(kubernetes, words)


def test_the_zone_of_a_machine_is_written_to_a_file(api: str, tmp_path: Path) -> None:
    assert rack(api, "m-1", tmp_path).exit_code == 0
    assert (tmp_path / "rack").read_text() == "zone-b"


def test_a_machine_without_a_zone_has_no_rack(api: str, tmp_path: Path) -> None:
    assert rack(api, "m-2", tmp_path).exit_code == 0
    assert (tmp_path / "rack").read_text() == ""


@pytest.mark.parametrize(("node", "token", "told"), [("m-3", "a-token", "404"), ("m-1", "other", "403")])
def test_what_is_refused_is_told(api: str, tmp_path: Path, node: str, token: str, told: str) -> None:
    done = rack(api, node, tmp_path, token)
    assert done.exit_code != 0 and told in done.output


def test_without_an_account_or_a_server_it_says_so(api: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(kubernetes, ["rack", "m-1", "--to", "x", "--account", str(tmp_path / "none")])
    assert "There is no account to ask as" in done.output
    assert "cannot be asked" in rack("http://127.0.0.1:9", "m-1", tmp_path).output
