"""Transactions over REST, by a client that knows nothing of the broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.test_rest import problem
from tests.waiting import let_pass, wait_until

pytestmark = pytest.mark.usefixtures("watched")


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server_url, timeout=40) as client:
        yield client


def new_topic(http: httpx.Client, partitions: int = 1) -> str:
    name = f"t-{uuid.uuid4()}"
    assert http.post("/topics", json={"name": name, "num_partitions": partitions}).status_code == 201
    return name


class Shop:
    """A producer; it takes the epoch that each end tells it."""

    def __init__(self, http: httpx.Client, **more: Any) -> None:
        self._http = http
        made = http.post("/producers/init", json={"transactional_id": f"shop-{uuid.uuid4()}", **more})
        assert made.status_code == 200, made.text
        self.told = made.json()

    @property
    def who(self) -> dict[str, int]:
        return {"producer_id": self.told["producer_id"], "epoch": self.told["epoch"]}

    def post(self, what: str, **more: Any) -> httpx.Response:
        return self._http.post(f"/transactions/{what}", json={**self.who, **more})

    def does(self, what: str, **more: Any) -> dict[str, Any]:
        answer = self.post(what, **more)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        if what in ("commit", "abort"):
            self.told |= {"producer_id": body["producer_id"], "epoch": body["epoch"]}
        return body


def read(http: httpx.Client, topic: str, **more: str) -> list[str]:
    return [one["value"] for one in http.get(f"/topics/{topic}/messages", params=more).json()["messages"]]


def test_a_commit_shows_everything_and_an_abort_nothing(http: httpx.Client) -> None:
    one, two = new_topic(http, 3), new_topic(http)
    shop = Shop(http)
    assert shop.does("begin")["state"] == "ongoing"
    told = shop.does("publish", topic=one, messages=[{"value": "a", "partition": 1}, {"value": "b", "partition": 1}])
    assert told == {"results": [{"partition": 1, "offset": 0}, {"partition": 1, "offset": 1}]}
    parts = [{"topic": one, "messages": [{"value": "c", "partition": 2}]}, {"topic": two, "messages": [{"value": "d"}]}]
    told = shop.does("publish", topics=parts)
    assert told["topics"] == [
        {"topic": one, "results": [{"partition": 2, "offset": 0}]},
        {"topic": two, "results": [{"partition": 0, "offset": 0}]},
    ]
    assert read(http, one) == read(http, two) == []
    assert sorted(read(http, one, isolation="read_uncommitted")) == ["a", "b", "c"]
    ended = shop.does("commit")
    assert (ended["state"], ended["epoch"]) == ("complete_commit", 1)
    assert sorted(read(http, one)) == ["a", "b", "c"] and read(http, two) == ["d"]
    shop.does("begin")
    shop.does("publish", topic=two, messages=[{"value": "never"}])
    assert shop.does("abort")["state"] == "complete_abort"
    assert read(http, two) == ["d"]


def test_requests_may_be_sent_again(http: httpx.Client) -> None:
    topic = new_topic(http)
    shop = Shop(http)
    shop.does("begin")
    shop.does("begin")
    told = [shop.does("publish", topic=topic, messages=[{"value": "x"}], sequence=0) for _ in range(3)]
    assert told[0] == told[1] == told[2]
    problem(
        shop.post("publish", topic=topic, messages=[{"value": "x"}] * 2, sequence=0), 400, "invalid-field", "sequence"
    )
    who = shop.who
    assert shop.does("commit")["epoch"] == 1
    again = http.post("/transactions/commit", json=who)
    assert (again.status_code, again.json()["epoch"]) == (200, 1)
    problem(http.post("/transactions/abort", json=who), 409, "producer-fenced", "epoch")
    assert read(http, topic) == ["x"]


def test_a_consumer_acks_its_input_and_publishes_its_output_in_one(http: httpx.Client) -> None:
    source, target, group = new_topic(http), new_topic(http), f"g-{uuid.uuid4()}"
    http.post(f"/topics/{source}/messages", json={"messages": [{"value": "good"}, {"value": "bad"}]})
    member = http.post(f"/groups/{group}/join", json={"client_id": "c", "topics": [source], "mode": "shared"}).json()
    poll = {"member_id": member["member_id"], "generation": member["generation"], "timeout": "5s"}
    good, bad = http.get(f"/groups/{group}/poll", params=poll).json()["messages"]
    shop = Shop(http)
    problem(shop.post("ack", receipt=good["receipt"]), 409, "invalid-txn-state")
    shop.does("begin")
    shop.does("ack", receipt=good["receipt"])
    shop.does("reject", receipts=[bad["receipt"]], reason="bad indeed")
    shop.does("publish", topic=target, messages=[{"value": "GOOD", "priority": "high"}, {"value": "!", "delay": 10}])
    assert (
        shop.does("offsets", group="other", offsets=[{"topic": source, "partition": 0, "offset": 1}])["receipts"] == 2
    )
    shop.does("commit")
    problem(http.post("/messages/ack", json={"receipt": good["receipt"]}), 409, "stale-receipt")
    wait_until(lambda: len(read(http, target)) >= 2)
    assert read(http, target) == ["GOOD", "!"]
    assert [one["committed"] for one in http.get("/groups/other/offsets").json()["offsets"]] == [1]
    wait_until(lambda: http.get(f"/topics/{source}.dlq").status_code == 200 and read(http, f"{source}.dlq"))
    assert read(http, f"{source}.dlq") == ["bad"]


def test_a_silent_producer_loses_its_transaction(http: httpx.Client) -> None:
    topic = new_topic(http)
    shop = Shop(http, session_timeout="2s")
    shop.does("begin")
    shop.does("publish", topic=topic, messages=[{"value": "x"}])
    for _ in range(8):
        let_pass(0.3)
        beat = http.post(f"/producers/{shop.who['producer_id']}/heartbeat", json={"epoch": shop.who["epoch"]})
        assert beat.json()["state"] == "ongoing"
    http.post(f"/topics/{topic}/messages", json={"messages": [{"value": "plain"}]})
    page = http.get(f"/topics/{topic}/messages", params={"timeout": "10s"}).json()
    assert [one["value"] for one in page["messages"]] == ["plain"], "readers went on when it was aborted"
    problem(shop.post("commit"), 409, "producer-fenced", "epoch")
    problem(
        http.post(f"/producers/{shop.who['producer_id']}/heartbeat", json={"epoch": 0}), 409, "producer-fenced", "epoch"
    )


def test_transactions_are_listed_described_counted_and_ended_by_an_administrator(http: httpx.Client) -> None:
    topic = new_topic(http, 2)
    shop = Shop(http, timeout="2m")
    name = shop.told["transactional_id"]
    assert name not in [one["transactional_id"] for one in http.get("/transactions").json()["transactions"]]
    shop.does("begin")
    shop.does("add-partition", topic=topic, partitions=[0, 1])
    before = http.get("/transactions/stats").json()
    (listed,) = http.get("/transactions", params={"transactional_id": name}).json()["transactions"]
    described = http.get(f"/transactions/{name}").json()
    assert described | {"open_ms": 0} == listed | {"open_ms": 0}
    assert described["partitions"] == [{"topic": topic, "partitions": [0, 1]}]
    assert described["timeout_ms"] == 120_000 and described["session_timeout_ms"] == 30_000
    ended = http.post("/transactions/abort", json={"transactional_id": name}).json()
    assert ended["state"] == "complete_abort"
    problem(shop.post("commit"), 409, "producer-fenced", "epoch")
    after = http.get("/transactions/stats").json()
    assert after["aborted"] == before["aborted"] + 1 and before["open"] >= 1
    problem(http.get("/transactions/nobody"), 404, "unknown-transaction", "transactional_id")


def test_bad_requests_are_refused_with_the_field(http: httpx.Client) -> None:
    topic = new_topic(http)
    shop = Shop(http)
    problem(http.post("/producers/init", json={"timeout": "20h"}), 400, "invalid-txn-timeout", "timeout")
    problem(http.post("/producers/init", json={"session_timeout": 0}), 400, "invalid-field", "session_timeout")
    problem(http.post("/producers/init", json={"transactional_id": ""}), 400, "invalid-field", "transactional_id")
    problem(http.post("/producers/init", json={"name": "x"}), 400, "invalid-field", "name")
    assert http.post("/producers/init", content=b"").json()["transactional_id"].startswith("rest-")
    problem(http.post("/producers/x/heartbeat", json={}), 400, "invalid-field", "producer")
    problem(http.post("/producers/999999/heartbeat", json={}), 404, "unknown-transaction", "producer_id")
    problem(http.post("/transactions/begin", json={"epoch": 0}), 400, "invalid-field", "producer_id")
    problem(http.post("/transactions/begin", json={**shop.who, "epoch": 5}), 409, "producer-fenced", "epoch")
    wrong = {**shop.who, "transactional_id": "other"}
    problem(http.post("/transactions/begin", json=wrong), 404, "unknown-transaction", "transactional_id")
    problem(shop.post("commit"), 409, "invalid-txn-state")
    shop.does("begin")
    problem(shop.post("publish", topic=topic), 400, "invalid-field", "topic")
    problem(shop.post("publish", messages=[{"value": "x"}]), 400, "invalid-field", "topic")
    bad = [{"topic": topic, "messages": [{"value": "x"}, {"value": "y", "delay": "soon"}]}]
    problem(shop.post("publish", topics=bad), 400, "invalid-field", "topics[0].messages[1].delay")
    problem(
        shop.post("publish", topic=topic, messages=[{"value": "x", "partition": 7}]),
        404,
        "unknown-partition",
        "messages[0].partition",
    )
    problem(shop.post("add-partition", topic=topic), 400, "invalid-field", "partition")
    problem(shop.post("add-partition", topic="nowhere", partition=0), 404, "unknown-topic", "topic")
    problem(shop.post("ack"), 400, "invalid-field", "receipt")
    problem(shop.post("ack", receipt="nonsense"), 400, "invalid-receipt", "receipt")
    problem(shop.post("offsets", group="g", offsets=[]), 400, "invalid-field", "offsets")
    offsets = [{"topic": topic, "partition": 0, "offset": 1}]
    problem(shop.post("offsets", group="g", offsets=offsets, member_id="m"), 400, "invalid-field", "generation")
    problem(http.get("/transactions", params={"state": "mine"}), 400, "invalid-field", "state")
    problem(http.post("/transactions/abort", json={"epoch": 1}), 400, "invalid-field", "producer_id")
    assert shop.does("commit")["state"] == "complete_commit", "none of this hurt the transaction"
    assert read(http, topic) == []


def test_an_open_transaction_goes_on_after_kill_9(node: NodeProcess) -> None:
    with httpx.Client(base_url=node.url, timeout=40) as http:
        topic = new_topic(http, 3)
        shop = Shop(http)
        shop.does("begin")
        messages = [{"value": f"{number}"} for number in range(20)]
        told = shop.does("publish", topic=topic, messages=messages, sequence=0)
        shop.does("publish", topic=topic, messages=[{"value": "later", "delay": "100ms"}], sequence=1)
    node.kill()
    node.start()
    with httpx.Client(base_url=node.url, timeout=40) as http:
        shop._http = http
        assert shop.does("publish", topic=topic, messages=messages, sequence=0) == told
        shop.does("publish", topic=topic, messages=[{"value": "later", "delay": "100ms"}], sequence=1)
        assert read(http, topic) == []
        shop.does("commit")
        page = http.get(f"/topics/{topic}/messages").json()
        assert len(page["messages"]) >= 20
    node.kill()
    node.start()
    with httpx.Client(base_url=node.url, timeout=40) as http:
        wait_until(lambda: len(read(http, topic)) >= 21)
        let_pass(0.3)  # and no more
        assert sorted(read(http, topic)) == sorted([*(one["value"] for one in messages), "later"])
