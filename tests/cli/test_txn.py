"""`goqueue txn` against a real node."""

from __future__ import annotations

import json
import uuid

import httpx
import pytest

from tests.cli.running import goqueue

pytestmark = pytest.mark.usefixtures("watched")


def test_a_transaction_is_listed_described_and_aborted(server_url: str) -> None:
    topic, name = f"t-{uuid.uuid4()}", f"shop/{uuid.uuid4()}"
    with httpx.Client(base_url=server_url) as http:
        http.post("/topics", json={"name": topic, "num_partitions": 1})
        made = http.post("/producers/init", json={"transactional_id": name}).json()
        who = {"producer_id": made["producer_id"], "epoch": made["epoch"]}
        assert name not in goqueue("txn", "list", server=server_url).stdout
        assert name in goqueue("txn", "list", "--all", "--limit", "10000", server=server_url).stdout
        http.post("/transactions/begin", json=who)
        http.post("/transactions/publish", json={**who, "topic": topic, "messages": [{"value": "x"}]})
    listed = goqueue("txn", "list", server=server_url)
    assert name in listed.stdout and "ongoing" in listed.stdout
    found = json.loads(goqueue("txn", "list", "--output", "json", server=server_url).stdout)
    assert [one["partitions"] for one in found if one["transactional_id"] == name] == [
        [{"topic": topic, "partitions": [0]}]
    ]
    described = goqueue("txn", "describe", name, server=server_url)
    assert described.exit_code == 0 and f"writes to         {topic} 0" in described.stdout
    assert json.loads(goqueue("txn", "describe", name, "--output", "json", server=server_url).stdout)["epoch"] == 0
    kept = goqueue("txn", "abort", name, answers="n\n", server=server_url)
    assert kept.exit_code != 0
    aborted = goqueue("txn", "abort", name, "--yes", server=server_url)
    assert aborted.exit_code == 0 and "complete_abort" in aborted.stderr


def test_a_transactional_id_that_nobody_has(server_url: str) -> None:
    for verb in (("describe", "nobody"), ("abort", "nobody", "--yes")):
        done = goqueue("txn", *verb, server=server_url)
        assert done.exit_code == 1 and "nobody" in done.stderr
