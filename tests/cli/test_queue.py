"""`goqueue status` and `goqueue queue`: what a person sees of queues."""

from __future__ import annotations

import json
import re
import uuid

import pytest

from goqueue.cli.span_text import age_text
from goqueue.client import Client
from tests.cli.running import goqueue


@pytest.fixture
def queue(server_url: str) -> str:
    """One done, one rejected, one nacked, seven ready in two lanes; two delayed."""
    name = f"queue-{uuid.uuid4()}"
    with Client(server_url) as client:
        client.create_topic(name, partitions=1, config={"queue.retry.ms": "600000"})
        for number in range(10):
            client.publish(name, str(number), priority="high" if number % 2 else "normal")
        client.publish(name, "later", delay="1h")
        client.publish(name, "later still", delay="2h")
        with client.consumer(name, [name], mode="shared", auto_commit=False) as consumer:
            one, two, three = consumer.poll(3, 10)
            consumer.ack(one)
            consumer.reject(two)
            consumer.nack(three)
    return name


def test_queues_are_listed_in_every_form(server_url: str, queue: str) -> None:
    listed = goqueue("queue", "list", "--topic", queue, server=server_url)
    head, row = listed.stdout.splitlines()
    assert head.split() == [
        "GROUP",
        "TOPIC",
        "READY",
        "LEASED",
        "RETRYING",
        "DELAYED",
        "OLDEST",
        "ACKED",
        "FAILED",
        "DEAD",
    ]
    assert re.fullmatch(rf"{queue} +{queue} +7 +0 +1 +2 +\d+ s +1 +1 +1", row)
    assert goqueue("queue", "list", "--group", queue, "-o", "name", server=server_url).stdout == f"{queue}/{queue}\n"
    (told,) = json.loads(goqueue("queue", "list", "--topic", queue, "-o", "json", server=server_url).stdout)
    assert (told["counts"]["ready"], told["delayed"]) == (7, 2)
    assert sum(lane["ready"] for lane in told["lanes"]) == 7
    assert told["oldest_ms"] >= 0


def test_a_queue_is_shown_lane_by_lane(server_url: str, queue: str) -> None:
    shown = goqueue("queue", "show", queue, queue, server=server_url).stdout
    assert re.search(r"^ready +7$", shown, re.MULTILINE)
    assert re.search(r"^retrying +1$", shown, re.MULTILINE)
    assert re.search(r"^delayed +2 in the topic$", shown, re.MULTILINE)
    assert re.search(r"^failed +1 by nack, 0 leases ran out$", shown, re.MULTILINE)
    assert re.search(r"^dead +1 REJECTED$", shown, re.MULTILINE)
    lanes = [line.split()[0] for line in shown.partition("LANE")[2].splitlines()[1:]]
    assert lanes == ["high", "normal"]


def test_names_that_nobody_knows(server_url: str, queue: str) -> None:
    none = goqueue("queue", "show", queue, "nobody", server=server_url)
    assert none.exit_code == 1 and "`goqueue queue list` shows" in none.stderr
    for arguments in (["show", "no-such", "g"], ["list", "--topic", "no-such"]):
        missing = goqueue("queue", *arguments, server=server_url)
        assert missing.exit_code == 1 and "(unknown-topic)" in missing.stderr
    assert goqueue("queue", "show", queue, server=server_url).exit_code == 2
    assert goqueue("queue", "list").exit_code == 3


def test_status_at_a_glance(server_url: str, queue: str) -> None:
    shown = goqueue("status", server=server_url)
    assert (shown.exit_code, shown.stderr) == (0, "")
    facts = dict(re.split(r" {2,}", line, maxsplit=1) for line in shown.stdout.splitlines())
    assert facts["server"] == server_url and facts["status"] == "ok"
    assert re.fullmatch(r"[\d,]+ ready, [\d,]+ leased, [\d,]+ retrying, [\d,]+ dead", facts["queues"])
    assert goqueue("status", "-o", "name", server=server_url).stdout == "ok\n"
    told = json.loads(goqueue("status", "-o", "json", server=server_url).stdout)
    assert told["delayed"]["pending"] >= 2 and told["cluster"]["nodes_alive"] == 1
    assert "status: ok\n" in goqueue("status", "-o", "yaml", server=server_url).stdout
    assert goqueue("status").exit_code == 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (59.9, "59 s"), (200, "3 min 20 s"), (7_500, "2 h 5 min"), (273_600, "3 d 4 h")],
)
def test_ages_as_people_say_them(seconds: float, text: str) -> None:
    assert age_text(seconds) == text
