"""`goqueue produce --delay` and `goqueue delayed` against a real node."""

from __future__ import annotations

import json
import uuid

import pytest

from goqueue.client import Client
from tests.cli.running import goqueue


@pytest.fixture
def topic(server_url: str) -> str:
    name = f"topic-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
    return name


def test_a_message_is_delayed_listed_shown_and_cancelled(server_url: str, topic: str) -> None:
    at = ("--deliver-at", "2030-01-31T12:00:00Z")
    sent = goqueue("produce", topic, "later", "--key", "k", *at, "--ttl", "1h", "--output", "json", server=server_url)
    assert sent.exit_code == 0 and "goqueue delayed cancel" in sent.stderr
    told = json.loads(sent.stdout)
    assert told == {"partition": 0, "scheduled": told["scheduled"], "deliverAt": "2030-01-31T12:00:00.000Z"}
    soon = goqueue("produce", topic, "--delay", "2h", "--output", "json", stdin="one\ntwo\n", server=server_url)
    assert soon.exit_code == 0 and len(soon.stdout.splitlines()) == 2
    place = [topic, "0", str(told["scheduled"])]
    listed = goqueue("delayed", "list", topic, server=server_url)
    assert listed.stdout.split()[:6] == ["PARTITION", "SCHEDULED", "DELIVER", "AT", "REPEATS", "KEY"]
    assert [line.split()[-1] for line in listed.stdout.splitlines()[1:]] == ["one", "two", "later"]
    found = json.loads(goqueue("delayed", "list", topic, "--skip", "2", "--output", "json", server=server_url).stdout)
    assert [(one["key"], one["value"], one["state"]) for one in found] == [("k", "later", "pending")]
    assert "later" in goqueue("delayed", "show", *place, server=server_url).stdout
    assert goqueue("delayed", "cancel", *place, "--yes", server=server_url).exit_code == 0
    shown = json.loads(goqueue("delayed", "show", *place, "--output", "json", server=server_url).stdout)
    assert shown["state"] == "cancelled"


def test_mistakes_are_told(server_url: str, topic: str) -> None:
    bad = goqueue("produce", topic, "x", "--delay", "soon", server=server_url)
    assert bad.exit_code == 1 and "not a duration" in bad.stderr
    gone = goqueue("delayed", "cancel", topic, "0", "99999999", "--yes", server=server_url)
    assert gone.exit_code == 1 and "No delayed message" in gone.stderr


def test_a_message_is_sent_again_and_again(server_url: str, topic: str) -> None:
    nightly = goqueue("produce", topic, "n", "--cron", "0 3 * * *", "--timezone", "Europe/Berlin", server=server_url)
    assert nightly.exit_code == 0 and "Scheduled 1 message" in nightly.stderr
    hourly = goqueue("produce", topic, "h", "--every", "1h", "--times", "3", "-o", "json", server=server_url)
    assert "deliverAt" in json.loads(hourly.stdout)
    listed = json.loads(goqueue("delayed", "list", topic, "-o", "json", server=server_url).stdout)
    repeats = {one["value"]: one["repeat"] for one in listed}
    assert repeats["n"] == {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}
    assert repeats["h"]["times"] == 3
    for flags, told, code in (
        (["--every", "1h", "--cron", "* * * * *"], "--every or --cron, not both", 2),
        (["--timezone", "UTC"], "--timezone goes with --cron", 2),
        (["--times", "2"], "--times goes with", 2),
        (["--cron", "at night"], "is not a cron line", 1),
        (["--every", "soon"], "not a duration", 1),
    ):
        wrong = goqueue("produce", topic, "x", *flags, server=server_url)
        assert wrong.exit_code == code and told in " ".join(wrong.stderr.split()), wrong.stderr
