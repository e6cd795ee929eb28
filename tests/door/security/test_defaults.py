"""A node that other machines can reach asks who they are, or does not start."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from bench.node_process import NodeProcess
from goqueue.base.security_settings import is_loopback
from goqueue.cli import app
from tests.door.security.secure import ADMIN, secure_settings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_this_machine_alone(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "broker.example.org", "localhost.example.org", ""])
def test_other_machines_too(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("door", ["rest", "kafka", "sqs"])
def test_an_open_door_without_authentication_is_refused_and_says_what_to_do(door: str, tmp_path: Path) -> None:
    doors = [f"--{one}={'0.0.0.0:0' if one == door else '127.0.0.1:0'}" for one in ("rest", "kafka", "sqs")]
    done = CliRunner().invoke(app, ["serve", "--data", str(tmp_path / "data"), *doors])
    assert done.exit_code == 1
    assert re.search(rf"{door}\.listen is 0\.0\.0\.0:0.*--insecure.*unprotected", done.stderr)


def test_insecure_says_so(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", "--rest", "0.0.0.0:0", "--insecure") as node:
        assert httpx.get(f"http://127.0.0.1:{node.url.rpartition(':')[2]}/topics").status_code == 200


def test_with_authentication_it_starts(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", "--rest", "0.0.0.0:0", settings=secure_settings(tmp_path)) as node:
        url = f"http://127.0.0.1:{node.url.rpartition(':')[2]}/topics"
        assert httpx.get(url).status_code == 401
        assert httpx.get(url, auth=ADMIN).status_code == 200


def test_the_first_user_is_made_before_the_node_runs(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("a good password\n")
    data = tmp_path / "data"
    add = ["user", "add", "root", "--data", str(data), "--password-file", str(tmp_path / "password")]
    done = CliRunner().invoke(app, add)
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(app, add)
    assert again.exit_code == 1 and "user-exists" in again.output
    with NodeProcess(data, settings={"GOQUEUE_SECURITY_AUTHENTICATION": "required"}) as node:
        assert httpx.get(f"{node.url}/topics", auth=("root", "a good password")).status_code == 200
        held = CliRunner().invoke(app, add)
        assert held.exit_code == 1 and "data-dir-in-use" in held.output


def test_users_outlive_the_node(tmp_path: Path) -> None:
    settings = secure_settings(tmp_path)
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        body = {"name": "ada", "password": "a good password"}
        assert httpx.post(f"{node.url}/admin/users", json=body, auth=ADMIN).status_code == 201
        node.kill()
        node.start()
        assert httpx.get(f"{node.url}/topics", auth=("ada", "a good password")).status_code == 200
