"""`goqueue txn staged` against a real node."""

from __future__ import annotations

import json
import uuid

import pytest

from goqueue.client import Client
from tests.cli.running import goqueue

pytestmark = pytest.mark.usefixtures("watched")


def test_owners_and_what_one_has_staged(server_url: str) -> None:
    owner = f"query/{uuid.uuid4()}"
    with Client(server_url) as client:
        client.commit_staged(owner, 41, [])
        client.stage(owner, 42, "left", attempt=3)
    table = goqueue("txn", "staged", "--limit", "10000", server=server_url)
    (line,) = [one for one in table.stdout.splitlines() if one.startswith(owner)]
    assert table.stdout.startswith("OWNER") and line.split()[1] == "41" and line.split()[-1] == "1"
    listed = json.loads(goqueue("txn", "staged", "--limit", "10000", "--output", "json", server=server_url).stdout)
    assert [(one["last_batch"], one["open"]) for one in listed if one["owner"] == owner] == [(41, 1)]
    shown = goqueue("txn", "staged", owner, server=server_url).stdout
    assert f"owner             {owner}" in shown and "last batch        41, committed 2" in shown
    assert "WRITER" in shown and "left" in shown and "ongoing" in shown
    found = json.loads(goqueue("txn", "staged", owner, "--output", "json", server=server_url).stdout)
    assert [(one["writer"], one["attempt"], one["batch"]) for one in found["open"]] == [("left", 3, 42)]


def test_an_owner_that_nobody_knows_has_nothing(server_url: str) -> None:
    done = goqueue("txn", "staged", f"nobody-{uuid.uuid4()}", server=server_url)
    assert done.exit_code == 0 and "last batch        none" in done.stdout and "WRITER" not in done.stdout


def test_an_owner_that_cannot_be(server_url: str) -> None:
    assert goqueue("txn", "staged", "..", server=server_url).exit_code == 2
    assert goqueue("txn", "staged", "x" * 201, server=server_url).exit_code == 1
