"""Dead letters through REST: everything a user sees of them, and a redrive that is killed in the middle."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.long import LONG
from tests.waiting import let_pass, wait_until

MANY = 100_000 if LONG else 30_000


class Http:
    """Requests, each on a connection of its own, so that a node may die in between."""

    def __init__(self, url: str) -> None:
        self._url = url

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self._url + path, timeout=30, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return httpx.post(self._url + path, timeout=30, **options)

    def delete(self, path: str) -> httpx.Response:
        return httpx.delete(self._url + path, timeout=30)


class Queue:
    """One topic and a group that fails."""

    def __init__(self, url: str, name: str | None = None, partitions: int = 1) -> None:
        self.http = Http(url)
        self.topic = name or f"topic-{uuid.uuid4()}"
        if name is None:
            self.post("/topics", {"name": self.topic, "num_partitions": partitions})
        self.dlq = f"/topics/{self.topic}/dlq"

    def post(self, path: str, body: object, status: int | None = None) -> Any:
        answer = self.http.post(path, json=body)
        assert answer.status_code == status if status else answer.is_success, answer.text
        return answer.json()

    def get(self, path: str, status: int = 200, /, **query: object) -> Any:
        answer = self.http.get(path, params=query)
        assert answer.status_code == status, answer.text
        return answer.json()

    def publish(self, *messages: Mapping[str, object]) -> None:
        self.post(f"/topics/{self.topic}/messages", {"messages": messages})

    def reject(self, reason: str = "no good", limit: int = 10_000, least: int = 0) -> int:
        """Takes what is there and rejects it; waits until so many were there."""
        group = f"/groups/g-{self.topic}"
        joined = self.post(f"{group}/join", {"topics": [self.topic], "client_id": "t"})
        member = {"member_id": joined["member_id"], "generation": joined["generation"]}
        count = 0
        while found := self.get(f"{group}/poll", **member, limit=limit, timeout="0s" if count >= least else "20s")[
            "messages"
        ]:
            self.post("/messages/reject", {"receipts": [one["receipt"] for one in found], "reason": reason})
            count += len(found)
        self.post_leave(group, joined["member_id"])
        return count

    def post_leave(self, group: str, member_id: str) -> None:
        assert self.http.post(f"{group}/leave", json={"member_id": member_id}).is_success

    def letters(self, count: int, **query: object) -> list[dict[str, Any]]:
        """Waits until so many are there."""
        found: list[dict[str, Any]] = []

        def are_there() -> bool:
            found[:] = self.get(self.dlq, **query)["messages"]
            return len(found) >= count

        wait_until(are_there, lambda: f"{len(found)} of {count} dead letters")
        return found

    def redrive(self, status: int = 202, **asked: object) -> Any:
        return self.post(f"{self.dlq}/redrive", asked, status)

    def over(self, task: dict[str, Any]) -> dict[str, Any]:
        def ended() -> dict[str, Any]:
            now: dict[str, Any] = self.get(f"{self.dlq}/redrive/{task['id']}")
            return {} if now["state"] in ("running", "cancelling") else now

        return wait_until(ended)


def test_a_dead_letter_is_shown_whole(server_url: str) -> None:
    queue = Queue(server_url)
    headers = {"plain": "x", "twice": ["1", None], "raw": {"value": "/w==", "encoding": "base64"}}
    queue.publish({"value": "/wA=", "encoding": "base64", "key": None, "headers": headers, "priority": "high"})
    queue.publish({"value": None, "key": "k"})
    assert queue.reject("cannot read it") == 2
    first, second = sorted(queue.letters(2), key=lambda one: one["origin"]["offset"])
    assert (first["value"], first["encoding"], first["key"], first["priority"]) == ("/wA=", "base64", None, "high")
    assert first["headers"] == headers
    assert (first["reason"], first["error"]) == ("REJECTED", "cannot read it")
    origin = first["origin"]
    assert (origin["topic"], origin["partition"], origin["offset"]) == (queue.topic, 0, 0)
    assert origin["group"] == f"g-{queue.topic}"
    assert (first["attempts"], first["failures"], first["redrives"]) == (1, 1, 0)
    assert origin["timestamp"] <= first["first_delivered_at"] <= first["died_at"] <= time.time() * 1000
    assert (second["key"], second["value"]) == ("k", None)
    assert queue.get(f"{queue.dlq}/0/{first['offset']}") == first
    stats = queue.get(f"{queue.dlq}/stats")
    assert (stats["total"], stats["by_reason"]) == (2, {"REJECTED": 2})
    assert queue.http.delete(f"{queue.dlq}/0/{first['offset']}").status_code == 204
    assert queue.letters(1) == [second]
    assert queue.get(f"{queue.dlq}/0/{first['offset']}", 404)["code"] == "unknown-dead-letter"


def test_pages_filters_and_mistakes(server_url: str) -> None:
    queue = Queue(server_url)
    queue.publish(*({"value": f"{n}", "headers": {"half": str(n % 2)}} for n in range(5)))
    queue.reject()
    queue.letters(5)
    page = queue.get(queue.dlq, limit=3)
    rest = queue.get(queue.dlq, limit=3, cursor=page["next"])
    assert [one["value"] for one in page["messages"] + rest["messages"]] == list("01234") and rest["next"] is None
    assert len(queue.letters(2, header="half:1")) == 2
    assert queue.get(queue.dlq, reason="TTL_EXPIRED")["messages"] == []
    assert queue.get(queue.dlq, **{"from": "2999-01-01T00:00:00Z"})["messages"] == []
    assert len(queue.get(queue.dlq, to="2999-01-01T00:00:00Z", group=f"g-{queue.topic}")["messages"]) == 5
    for name, value in (("cursor", "x"), ("header", "x"), ("from", "soon"), ("limit", 0), ("page", 1)):
        assert queue.get(queue.dlq, 400, **{name: value})["field"] == name
    assert queue.get("/topics/nothing/dlq", 404)["code"] == "unknown-topic"
    assert queue.get(f"{queue.dlq}/redrive/none", 404)["code"] == "unknown-redrive"
    for asked in ({"rate": 0}, {"limit": 0}, {"filter": {"from": "soon"}}, {"filter": {"x": 1}}, {"speed": 1}):
        queue.redrive(400, **asked)
    assert queue.redrive(404, to="nowhere")["code"] == "unknown-topic"


def test_a_redrive_is_tried_dry_followed_and_cancelled(server_url: str) -> None:
    queue = Queue(server_url)
    queue.publish(*({"value": f"{n}", "headers": {"half": str(n % 2)}} for n in range(100)))
    queue.reject()
    queue.letters(100)
    dry = queue.redrive(200, dry_run=True, filter={"headers": {"half": "1"}})
    assert dry == {"dry_run": True, "matched": 50, "would_move": 50, "by_reason": {"REJECTED": 50}, "skipped": {}}
    assert len(queue.letters(100)) == 100
    task = queue.redrive(rate=20)
    assert queue.redrive(409)["code"] == "redrive-running"
    done = queue.http.delete(f"{queue.dlq}/redrive/{task['id']}").json()
    assert done["state"] == "cancelled" and done["moved"] < 50
    last = queue.over(queue.redrive(filter={"headers": {"half": "1"}}))
    assert last["state"] == "completed" and last["moved"] + done["moved"] // 2 in (50, 51, 49)
    assert {one["headers"]["half"] for one in queue.get(queue.dlq)["messages"]} == {"0"}
    history = queue.get(f"{queue.dlq}/redrive")["redrives"]
    assert [one["id"] for one in history] == [last["id"], task["id"]]
    assert "__dlq" not in queue.http.get("/groups").text


def test_numbers_of_queues_and_lanes(node: NodeProcess) -> None:
    queue = Queue(node.url)
    queue.publish({"value": "a", "priority": "critical"}, {"value": "b"})
    queue.reject()
    queue.letters(2)
    told = queue.get("/reliability/stats")
    (mine,) = told["queues"]
    assert (mine["topic"], mine["rejected"], mine["dead_letters"], mine["ready"]) == (
        queue.topic,
        2,
        {"REJECTED": 2},
        0,
    )
    assert told["totals"]["rejected"] == 2
    lanes = queue.get("/priority/stats", topic=queue.topic)["lanes"]
    assert [(one["lane"], one["enqueued"], one["dequeued"], one["ready"]) for one in lanes] == [
        ("critical", 1, 1, 0),
        ("normal", 1, 1, 0),
    ]
    assert all(one["last_served"] for one in lanes)
    assert queue.get("/priority/stats", group="nobody") == {"lanes": []}
    metrics = queue.http.get("/metrics").text
    assert f'goqueue_queue_rejected_total{{group="g-{queue.topic}",topic="{queue.topic}"}} 2.0' in metrics
    assert (
        f'goqueue_lane_dequeued_total{{group="g-{queue.topic}",lane="critical",topic="{queue.topic}"}} 1.0' in metrics
    )


def fill(queue: Queue) -> None:
    """Dead letters as the broker makes them, put there directly to save time."""
    names = ("topic", "partition", "offset", "group", "reason", "error", "attempts", "failures", "died-at", "timestamp")
    queue.post("/topics", {"name": f"{queue.topic}.dlq", "num_partitions": 2})
    for begin in range(0, MANY, 5_000):
        messages = []
        for n in range(begin, begin + 5_000):
            reason = "MAX_FAILURES" if n % 10 else "REJECTED"
            told = (queue.topic, n % 2, n // 2, "g", reason, "no", 3, 3, 1_700_000_000_000, 1_700_000_000_000)
            headers = {f"goqueue-dlq-{name}": str(value) for name, value in zip(names, told, strict=True)}
            messages.append({"value": f"{n}", "partition": n % 2, "headers": headers})
        queue.post(f"/topics/{queue.topic}.dlq/messages", {"messages": messages})


def read_all(queue: Queue) -> Counter[str]:
    found: Counter[str] = Counter()
    for partition in range(2):
        offset = 0
        path = f"/topics/{queue.topic}/partitions/{partition}/messages"
        while True:
            page = queue.get(path, offset=offset, limit=10_000)
            if not page["messages"]:
                break
            found.update(one["value"] for one in page["messages"])
            offset = page["next_offset"]
    return found


@pytest.mark.slow
def test_a_redrive_of_very_many_is_killed_in_the_middle(tmp_path: Path) -> None:
    """No loss, no double, the rate kept, and it goes on by itself."""
    rate, chosen = MANY // 6, MANY * 9 // 10
    node = NodeProcess(tmp_path / "data", "--fsync", "always").start()
    queue = Queue(node.url, partitions=2)
    fill(queue)
    task = queue.redrive(rate=rate, filter={"reason": "MAX_FAILURES"})
    began = time.monotonic()
    moved: list[int] = []
    kills = 0
    while True:
        now = queue.get(f"{queue.dlq}/redrive/{task['id']}")
        if now["state"] != "running":
            break
        if kills < 3 and now["moved"] >= MANY // 5 * (kills + 1):
            moved.append(now["moved"])
            node.kill()
            node.start()
            queue = Queue(node.url, queue.topic)
            kills += 1
        let_pass(0.05)
    seconds = time.monotonic() - began
    print(f"\n{now['moved']:,} redriven in {seconds:.1f} s (bound {rate:,}/s), killed at {moved}")
    assert kills == 3
    assert (now["state"], now["moved"], now["failed"], now["skipped"]) == ("completed", chosen, 0, {})
    assert now["total"] == MANY
    assert seconds >= 0.95 * chosen / rate, "faster than it may"
    found = read_all(queue)
    assert len(found) == chosen and set(found.values()) == {1}, "lost or double"
    assert all(int(value) % 10 for value in found)
    assert queue.get(f"{queue.dlq}/stats")["by_reason"] == {"REJECTED": MANY - chosen}
    node.stop()


def test_the_dead_letter_topic_is_made_although_a_users_topic_has_nearly_its_name(server_url: str) -> None:
    """Users' names have to differ in more than `.` and `_`; dead letters must not be lost for that."""
    queue = Queue(server_url)
    queue.post("/topics", {"name": f"{queue.topic}_dlq", "num_partitions": 1})
    queue.post("/topics", {"name": f"{queue.topic}.dlq", "num_partitions": 1}, status=400)
    queue.publish({"value": "bad"})
    assert queue.reject() == 1
    assert [one["value"] for one in queue.get(queue.dlq)["messages"]] == ["bad"]
