"""Long polls and live tails through a running node."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.waiting import WAIT_S, stretched, wait_until


@pytest.fixture
def topic(server_url: str) -> str:
    name = f"live-{uuid.uuid4()}"
    httpx.post(f"{server_url}/topics", json={"name": name}).raise_for_status()
    return name


def publish(url: str, topic: str, *values: str) -> None:
    messages = [{"value": value} for value in values]
    httpx.post(f"{url}/topics/{topic}/messages", json={"messages": messages}).raise_for_status()


def events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, object]]]:
    cursor = ""
    for line in lines:
        if line.startswith("id: "):
            cursor = line[4:]
        if line.startswith("data: "):
            yield cursor, json.loads(line[6:])


def test_a_long_poll_is_woken_by_a_publish(server_url: str, topic: str) -> None:
    began = time.monotonic()
    threading.Timer(0.3, publish, (server_url, topic, "hello")).start()
    page = httpx.get(f"{server_url}/topics/{topic}/messages", params={"timeout": "20s"}, timeout=30).json()
    assert [one["value"] for one in page["messages"]] == ["hello"]
    assert 0.25 < time.monotonic() - began < 15


def test_a_tail_begins_now_and_can_be_taken_up_again(server_url: str, topic: str) -> None:
    publish(server_url, topic, "before")
    url = f"{server_url}/topics/{topic}/tail"
    with httpx.stream("GET", url, timeout=20) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines).startswith(": tail of")
        publish(server_url, topic, "one", "two")
        found = events(lines)
        got = [next(found), next(found)]
        assert [message["value"] for _, message in got] == ["one", "two"]
    publish(server_url, topic, "three")
    with httpx.stream("GET", url, headers={"Last-Event-ID": got[0][0]}, timeout=20) as answer:
        found = events(answer.iter_lines())
        assert sorted(str(next(found)[1]["value"]) for _ in range(2)) == ["three", "two"]


def test_a_tail_of_one_partition_from_the_start(server_url: str, topic: str) -> None:
    messages = [{"value": str(number), "partition": number % 3} for number in range(9)]
    httpx.post(f"{server_url}/topics/{topic}/messages", json={"messages": messages}).raise_for_status()
    url = f"{server_url}/topics/{topic}/tail"
    with httpx.stream("GET", url, params={"from": "earliest", "partition": 1}, timeout=20) as answer:
        found = events(answer.iter_lines())
        assert [next(found)[1]["value"] for _ in range(3)] == ["1", "4", "7"]


def test_who_reconnects_before_the_first_message_misses_nothing(server_url: str, topic: str) -> None:
    url = f"{server_url}/topics/{topic}/tail"
    with httpx.stream("GET", url, timeout=20) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith(": tail")
        first_id = next(lines).removeprefix("id: ")
    publish(server_url, topic, "meanwhile")
    with httpx.stream("GET", url, headers={"Last-Event-ID": first_id}, timeout=20) as answer:
        assert next(events(answer.iter_lines()))[1]["value"] == "meanwhile"


def test_a_tail_that_is_far_behind_leaves_the_node_responsive(server_url: str, topic: str) -> None:
    messages = [{"value": "x" * 50}] * 5000
    with httpx.Client(base_url=server_url, timeout=30) as client:
        for _ in range(20):
            client.post(f"/topics/{topic}/messages", json={"messages": messages}).raise_for_status()
        with client.stream("GET", f"/topics/{topic}/tail", params={"from": "earliest"}) as answer:
            chunks = answer.iter_raw()
            for _ in range(20):
                next(chunks)
                began = time.monotonic()
                assert httpx.get(f"{server_url}/healthz").status_code == 200
                assert time.monotonic() - began < stretched(1)


def test_a_page_is_bounded_in_bytes(server_url: str, topic: str) -> None:
    big = [{"value": "x" * 1_000_000, "partition": 0}]
    with httpx.Client(base_url=server_url, timeout=30) as client:
        for _ in range(20):
            client.post(f"/topics/{topic}/messages", json={"messages": big}).raise_for_status()
        got, cursor = [], "earliest"
        while True:
            page = client.get(f"/topics/{topic}/messages", params={"from": cursor, "limit": 10_000})
            assert len(page.content) < 12_000_000
            if not page.json()["messages"]:
                break
            got += [one["offset"] for one in page.json()["messages"]]
            cursor = page.json()["next"]
        assert got == list(range(20))


def test_a_stopping_node_lets_its_readers_go(node: NodeProcess) -> None:
    httpx.post(f"{node.url}/topics", json={"name": "t"}).raise_for_status()
    ended: list[str] = []

    def poll() -> None:
        page = httpx.get(f"{node.url}/topics/t/messages", params={"timeout": "25s"}, timeout=30)
        ended.append(f"poll {page.status_code}")

    def tail() -> None:
        with httpx.stream("GET", f"{node.url}/topics/t/tail", timeout=30) as answer:
            started.set()
            for _ in answer.iter_lines():
                pass
        ended.append("tail")

    started = threading.Event()
    threads = [threading.Thread(target=work) for work in (poll, tail)]
    for thread in threads:
        thread.start()
    assert started.wait(WAIT_S)
    wait_until(lambda: "goqueue_broker_long_polls 2.0" in httpx.get(f"{node.url}/metrics").text)
    began = time.monotonic()
    assert node.stop() == 0
    assert time.monotonic() - began < stretched(5)
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(ended) == ["poll 200", "tail"]
