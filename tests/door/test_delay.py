"""Delayed messages through the doors of a real node: REST and Kafka, and `kill -9` in the middle."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bench.node_process import NodeProcess
from tests.long import LONG
from tests.waiting import let_pass, wait_until

ROUNDS = 10 if LONG else 4


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def read(client: httpx.Client, topic: str = "t") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    start = "earliest"
    while page := client.get(f"/topics/{topic}/messages", params={"from": start, "limit": 10_000}).json():
        found += page["messages"]
        start = page["next"]
        if not page["messages"]:
            break
    return found


def wait_for(client: httpx.Client, count: int, topic: str = "t") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def are_there() -> bool:
        found[:] = read(client, topic)
        return len(found) >= count

    wait_until(are_there, lambda: f"{len(found)} of {count} messages")
    return found


def test_a_life_over_rest(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node, httpx.Client(base_url=f"{node.url}/v1") as client:
        client.post("/topics", json={"name": "t", "num_partitions": 1})
        sent = now_ms()
        messages = [
            {"value": "a", "delay": "300ms", "headers": {"h": "1"}, "priority": "high", "ttl": "1h"},
            {"value": "/w==", "encoding": "base64", "deliverAt": sent + 400},
            {"value": "never", "delay": "PT1H"},
            {"value": "bad", "delay": "1s", "partition": 7},
        ]
        answer = client.post("/topics/t/messages", json={"messages": messages})
        assert answer.status_code == 207
        first, second, third, fourth = answer.json()["results"]
        assert fourth["error"]["code"] == "unknown-partition"
        place = f"/topics/t/delayed/0/{third['scheduled']}"
        shown = client.get(place).json()
        assert (shown["state"], shown["value"], shown["deliverAt"]) == ("pending", "never", third["deliverAt"])
        assert client.delete(place).status_code == 204
        assert client.delete(place).status_code == 204
        assert client.get(place).json()["state"] == "cancelled"
        assert client.get("/topics/t/delayed").json()["pending"] <= 2
        found = wait_for(client, 2)
        assert [(one["value"], one["priority"]) for one in found] == [("a", "high"), ("/w==", "normal")]
        assert found[0]["timestamp"] >= sent + 300 and found[1]["timestamp"] >= sent + 400
        assert found[0]["headers"].keys() == {"h", "goqueue-expires-at", "goqueue-scheduled"}
        assert client.delete(f"/topics/t/delayed/0/{first['scheduled']}").json()["code"] == "already-delivered"
        assert client.delete("/topics/t/delayed/0/999999").status_code == 404
        assert client.get("/topics/t/delayed/0/x").status_code == 400
        assert client.get("/topics/nowhere/delayed").status_code == 404
        stats = client.get("/delay/stats").json()
        assert (stats["pending"], stats["delivered"], stats["cancelled"]) == (0, 2, 1)
        assert client.get(f"/topics/t/delayed/0/{second['scheduled']}").json()["state"] == "delivered"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"delay": "soon"}, "delay"),
        ({"delay": -1}, "delay"),
        ({"delay": "11000d"}, "delay"),
        ({"deliverAt": "tomorrow"}, "deliverAt"),
        ({"deliverAt": "9999-01-01T00:00:00Z"}, "deliverAt"),
        ({"delay": "1s", "deliverAt": 5}, "deliverAt"),
        ({"ttl": "0s"}, "ttl"),
        ({"ttl": "x"}, "ttl"),
        ({"repeat": {}}, "repeat"),
        ({"repeat": {"every": "1ms"}}, "repeat.every"),
        ({"repeat": {"every": "0s"}}, "repeat.every"),
        ({"repeat": {"every": "1s", "times": 0}}, "repeat.times"),
        ({"repeat": {"every": "1s", "cron": "* * * * *"}}, "repeat"),
        ({"repeat": {"cron": "* * *"}}, "repeat.cron"),
        ({"repeat": {"cron": "* * * * *", "timezone": "../../etc/passwd"}}, "repeat.timezone"),
        ({"repeat": {"every": "1s", "until": "2001-01-01T00:00:00Z"}}, "repeat"),
        ({"repeat": {"often": 1}}, "repeat.often"),
    ],
)
def test_what_makes_no_sense_is_400_and_names_its_field(server_url: str, wrong: dict[str, Any], field: str) -> None:
    httpx.post(f"{server_url}/topics", json={"name": "wrong"})
    answer = httpx.post(f"{server_url}/topics/wrong/messages", json={"messages": [{"value": "v", **wrong}]})
    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == f"messages[0].{field}"
    assert answer.json()["code"] == "invalid-field"


@pytest.mark.parametrize("damage", ["none", "lost", "garbage", "ahead"])
def test_the_index_is_made_anew_if_it_cannot_be_trusted(tmp_path: Path, damage: str) -> None:
    node = NodeProcess(tmp_path / "data").start()
    with httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "t", "num_partitions": 1})
        messages = [{"value": f"{n}", "delay": f"{n + 1}h"} for n in range(50)]
        client.post("/topics/t/messages", json={"messages": messages})
        client.delete("/topics/t/delayed/0/0")
    node.stop()
    (index,) = (tmp_path / "data").glob("schedule*.sqlite")  # of the shard that the topic is in
    if damage == "lost":
        index.unlink()
    elif damage == "garbage":
        index.write_bytes(b"garbage" * 5000)
    elif damage == "ahead":
        with sqlite3.connect(index) as db:
            db.execute("UPDATE facts SET applied = 1000000")
            db.execute("DELETE FROM pending")
        db.close()
    node.start()
    with httpx.Client(base_url=node.url) as client:
        listed = client.get("/topics/t/delayed").json()
        assert listed["pending"] == 49
        assert [one["value"] for one in listed["delayed"]] == [f"{n}" for n in range(1, 50)]
        assert client.get("/topics/t/delayed/0/0").json()["state"] == "cancelled"
    node.stop()


def test_a_kafka_producer_delays_by_headers(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node, httpx.Client(base_url=node.url) as client:
        client.post("/topics", json={"name": "t", "num_partitions": 1})
        told: list[tuple[KafkaError | None, int | None]] = []
        for compression in ("none", "lz4", "zstd"):
            producer = Producer(
                {
                    "bootstrap.servers": node.kafka,
                    "enable.idempotence": True,
                    "compression.type": compression,
                    "linger.ms": 20,
                }
            )
            for n in range(30):
                headers: list[tuple[str, str | bytes | None]] = [("n", b"1")]
                if n % 3 == 1:
                    headers.append(("goqueue-delay", b"500ms"))
                if n % 3 == 2:
                    headers.append(("goqueue-deliver-at", str(now_ms() + 3_000).encode()))
                value = f"{compression}-{n}" + "." * 100
                producer.produce("t", value, headers=headers, on_delivery=lambda e, m: told.append((e, m.offset())))
            assert producer.flush(20) == 0
        assert len(told) == 90 and all(error is None for error, _ in told)
        expected = Counter(f"{c}-{n}" for c in ("none", "lz4", "zstd") for n in range(30))
        found = _consume(node.kafka, 90)
        assert Counter(found) == expected
        shown = wait_for(client, 90)
        assert Counter(one["value"].rstrip(".") for one in shown) == expected
        late = [one for one in shown if "goqueue-scheduled" in one["headers"]]
        assert len(late) == 60 and all("goqueue-delay" not in one["headers"] for one in late)
        refused: list[Any] = []
        producer = Producer({"bootstrap.servers": node.kafka})
        producer.produce("t", "x", headers=[("goqueue-delay", b"soon")], on_delivery=lambda e, m: refused.append(e))
        producer.flush(20)
        assert refused[0] is not None


def _consume(address: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("t", 0, 0)])
    values: list[str] = []
    until = time.monotonic() + 30
    while len(values) < count and time.monotonic() < until:
        for message in consumer.consume(100, 0.1):
            assert message.error() is None
            values.append((message.value() or b"").decode().rstrip("."))
    consumer.close()
    return values


@pytest.mark.slow
@pytest.mark.parametrize("fsync", ["interval", "always"])
def test_nothing_is_lost_or_doubled_or_early_in_many_kills(tmp_path: Path, fsync: str) -> None:
    """Writers schedule and cancel and are cut off, again and again; then all is counted."""
    chance = random.Random(7)
    node = NodeProcess(tmp_path / "data", "--fsync", fsync).start()
    httpx.post(f"{node.url}/topics", json={"name": "t", "num_partitions": 2}).raise_for_status()
    answered: dict[str, int] = {}
    cancelled: set[str] = set()
    unsure: set[str] = set()
    for round_ in range(ROUNDS):
        stop = threading.Event()

        def write(writer: int, round_: int = round_, stop: threading.Event = stop) -> None:
            number = 0
            own = random.Random(100 * round_ + writer)
            with httpx.Client(base_url=node.url, timeout=60) as client:
                while not stop.is_set():
                    number += 1
                    values = [f"{round_}-{writer}-{number}-{n}" for n in range(own.randrange(1, 20))]
                    due = now_ms() + own.randrange(20, 1_500)
                    try:
                        body = [{"key": value, "value": value, "deliverAt": due} for value in values]
                        results = client.post("/topics/t/messages", json={"messages": body}).json()["results"]
                        for value in values:
                            answered[value] = due
                        if number % 5 == 0 and "scheduled" in results[0]:
                            unsure.add(values[0])
                            place = f"{results[0]['partition']}/{results[0]['scheduled']}"
                            status = client.delete(f"/topics/t/delayed/{place}").status_code
                            assert status in (204, 409)
                            unsure.discard(values[0])
                            if status == 204:
                                cancelled.add(values[0])
                    except httpx.HTTPError:
                        return

        writers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
        before = len(answered)
        for writer in writers:
            writer.start()
        wait_until(lambda before=before: len(answered) >= before + 60)  # type: ignore[misc]
        let_pass(chance.uniform(0.1, 0.8))
        node.kill()
        stop.set()
        for writer in writers:
            writer.join()
        node.start()
    with httpx.Client(base_url=node.url) as client:
        wait_until(lambda: not client.get("/delay/stats").json()["pending"])
        let_pass(0.2)  # nothing comes twice
        found = read(client)
    node.stop()
    seen = Counter(one["value"] for one in found)
    assert len(answered) > 50 * ROUNDS and cancelled
    assert [value for value, count in seen.items() if count > 1] == [], "twice"
    assert [one["value"] for one in found if one["timestamp"] < answered.get(one["value"], 0)] == [], "early"
    assert answered.keys() - seen.keys() - cancelled - unsure == set(), "lost"
    assert seen.keys() & cancelled == set(), "cancelled and seen"
