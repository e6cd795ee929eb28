"""Staged sets over REST, by a client that knows nothing of the broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.door.test_rest import problem
from tests.door.test_rest_transactions import new_topic, read

pytestmark = pytest.mark.usefixtures("watched")


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server_url, timeout=40) as client:
        yield client


class Owner:
    """A name that nobody else has, with what is awkward in a path."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self.name = f"query/{uuid.uuid4()} 100% ü?#&"
        self.path = f"/staged/{quote(self.name, safe='')}"

    def post(self, batch: object, what: str, body: object = None) -> httpx.Response:
        return self._http.post(f"{self.path}/{batch}/{what}", json=body)

    def stage(self, batch: int, writer: str = "0", **more: Any) -> dict[str, Any]:
        answer = self.post(batch, "writers", {"writer": writer, **more})
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        assert told.keys() == {"transactional_id", "producer_id", "epoch"}
        return told

    def publish(self, who: dict[str, Any], topic: str, *values: str) -> None:
        messages = [{"value": value} for value in values]
        answer = self._http.post("/transactions/publish", json={**who, "topic": topic, "messages": messages})
        assert answer.status_code == 200, answer.text

    def commit(self, batch: int, *writers: dict[str, Any]) -> dict[str, Any]:
        answer = self.post(batch, "commit", {"writers": writers})
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def look(self) -> dict[str, Any]:
        told: dict[str, Any] = self._http.get(self.path).json()
        return told


def test_a_batch_from_stage_to_commit(http: httpx.Client) -> None:
    owner, topic = Owner(http), new_topic(http)
    assert owner.look() == {"owner": owner.name, "last_batch": None, "updated": None, "open": []}
    one, loser = owner.stage(7, "a/b", timeout="2h"), owner.stage(7, "a/b", attempt=1)
    owner.publish(one, topic, "seen")
    owner.publish(loser, topic, "never")
    shown = owner.look()["open"]
    assert [(x["writer"], x["attempt"], x["batch"], x["state"], x["timeout_ms"]) for x in shown] == [
        ("a/b", 0, 7, "ongoing", 7_200_000),
        ("a/b", 1, 7, "ongoing", 3_600_000),
    ]
    assert shown[0]["partitions"] == [{"topic": topic, "partitions": [0]}]
    assert {x: shown[0][x] for x in one} == one
    assert read(http, topic) == []
    assert owner.commit(7, one) == {"outcome": "committed", "dropped": 1}
    assert read(http, topic) == ["seen"]
    told = owner.look()
    assert (told["last_batch"], told["open"]) == (7, []) and told["updated"] > 1_700_000_000_000
    assert owner.commit(7, one) == {"outcome": "already", "dropped": 0}
    owner.stage(8)
    assert owner.post(8, "abort").json() == {"outcome": "aborted", "dropped": 1}
    assert owner.post(7, "abort").json() == {"outcome": "already committed", "dropped": 0}
    listed = http.get("/staged", params={"limit": 10_000}).json()["owners"]
    assert [(x["last_batch"], x["open"]) for x in listed if x["owner"] == owner.name] == [(7, 0)]


def test_staged_writers_are_transactions_like_others(http: httpx.Client) -> None:
    owner, topic = Owner(http), new_topic(http)
    one = owner.stage(3)
    found = http.get("/transactions", params={"transactional_id": one["transactional_id"]}).json()["transactions"]
    assert [(x["state"], x["owner"], x["batch"]) for x in found] == [("ongoing", owner.name, 3)]
    owner.publish(one, topic, "v")
    problem(http.post("/transactions/commit", json=one), 409, "invalid-txn-state")
    problem(http.post("/producers/init", json={"transactional_id": one["transactional_id"]}), 409, "invalid-txn-state")
    ended = http.post("/transactions/abort", json={"transactional_id": one["transactional_id"]})
    assert ended.json()["state"] == "complete_abort"
    told = problem(owner.post(3, "commit", {"writers": [one]}), 409, "staged-conflict", "writers[0]")
    assert told["writer"] == one["transactional_id"] and "stage the batch again" in str(told["detail"])


@pytest.mark.parametrize(
    ("batch", "what", "body", "field"),
    [
        ("-1", "commit", {"writers": []}, "batch"),
        ("x", "commit", {"writers": []}, "batch"),
        (2**63, "abort", None, "batch"),
        (0, "commit", {}, "writers"),
        (0, "commit", {"writers": [{"transactional_id": "x", "producer_id": 1}]}, "writers[0].epoch"),
        (0, "commit", {"writers": [], "more": 1}, "more"),
        (0, "writers", {}, "writer"),
        (0, "writers", {"writer": ""}, "writer"),
        (0, "writers", {"writer": "w" * 101}, "writer"),
        (0, "writers", {"writer": "w", "attempt": -1}, "attempt"),
        (0, "writers", {"writer": "w", "timeout": "soon"}, "timeout"),
        (0, "writers", {"writer": 3}, "writer"),
    ],
)
def test_bad_input_names_its_field(http: httpx.Client, batch: object, what: str, body: object, field: str) -> None:
    problem(Owner(http).post(batch, what, body), 400, "invalid-field", field)


def test_other_bad_input(http: httpx.Client) -> None:
    owner = Owner(http)
    problem(owner.post(0, "writers", {"writer": "w", "timeout": "25h"}), 400, "invalid-txn-timeout", "timeout")
    problem(owner.post(0, "writers", {"writer": "w", "timeout": 0}), 400, "invalid-txn-timeout", "timeout")
    problem(http.post(f"/staged/{'x' * 201}/0/abort"), 400, "invalid-field", "owner")
    problem(http.post("/staged//0/abort"), 400, "invalid-field", "owner")
    problem(http.get("/staged/"), 400, "invalid-field", "owner")
    problem(http.get("/staged", params={"limit": 0}), 400, "invalid-field", "limit")
    problem(http.get(owner.path, params={"limit": 1}), 400, "invalid-field", "limit")
    problem(http.post(f"{owner.path}/0/commit", content=b"{"), 400, "invalid-json")
    one = owner.stage(0)
    problem(owner.post(0, "commit", {"writers": [one, one]}), 400, "invalid-field", "writers")
    problem(owner.post(1, "commit", {"writers": [one]}), 409, "staged-conflict", "writers[0]")
    many = [{"transactional_id": "x", "producer_id": 1, "epoch": 0}] * 10_001
    problem(owner.post(0, "commit", {"writers": many}), 400, "invalid-field", "writers")
    assert owner.commit(0, one) == {"outcome": "committed", "dropped": 0}
