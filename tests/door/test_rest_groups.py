"""Groups through the REST door of a real node."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bench.node_process import NodeProcess
from tests.door.members import Join, members, wait_durable
from tests.door.test_rest import problem
from tests.waiting import stretched, wait_until


@pytest.fixture
def http(server_url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server_url, timeout=40) as client:
        yield client


@pytest.fixture
def topic(http: httpx.Client) -> str:
    name = f"t-{uuid.uuid4()}"
    assert http.post("/topics", json={"name": name, "num_partitions": 3}).status_code == 201
    return name


@pytest.fixture
def join(server_url: str) -> Iterator[Join]:
    with members(server_url) as made:
        yield made


def put(http: httpx.Client, topic: str, partition: int, *values: str) -> None:
    messages = [{"value": value, "partition": partition} for value in values]
    assert http.post(f"/topics/{topic}/messages", json={"messages": messages}).status_code == 200


def offsets(http: httpx.Client, group: str) -> dict[int, tuple[int | None, int]]:
    """(committed, lag) by partition."""
    found = http.get(f"/groups/{group}/offsets").json()["offsets"]
    return {one["partition"]: (one["committed"], one["lag"]) for one in found}


def metrics(http: httpx.Client) -> str:
    """Of all nodes: a group is told of where it is kept."""
    nodes = http.get("/cluster/nodes").json()["nodes"]
    return "".join(httpx.get(f"{one['addresses']['rest']}/metrics").text for one in nodes)


def test_two_members_on_three_partitions_get_two_and_one_and_a_third_makes_it_one_each(
    http: httpx.Client, topic: str, join: Join
) -> None:
    first = join(topic, topic)
    assert first.partitions == [0, 1, 2]
    second = join(topic, topic)
    wait_durable(first, second)
    assert (len(first.partitions), len(second.partitions)) == (2, 1)
    third = join(topic, topic)
    wait_durable(first, second, third)
    assert sorted(first.partitions + second.partitions + third.partitions) == [0, 1, 2]
    assert len(first.partitions) == len(second.partitions) == len(third.partitions) == 1
    described = http.get(f"/groups/{topic}").json()
    assert described["kind"] == "consumer" and described["state"] == "Stable"
    assert {one["member_id"] for one in described["members"]} == {first.id, second.id, third.id}, "ids are kept"
    assert {one["host"] for one in described["members"]} == {http.base_url.host}
    stats = http.get(f"/groups/{topic}/rebalance/stats").json()
    assert stats["rebalances"] == 3 and stats["running_since_ms"] is None
    for member in (first, second, third):
        member.leave()
    assert http.get(f"/groups/{topic}").json()["state"] == "Empty"
    assert http.delete(f"/groups/{topic}").status_code == 204


def test_nobody_stops_reading_what_it_keeps_while_others_join(http: httpx.Client, topic: str, join: Join) -> None:
    first = join(topic, topic)
    second = join(topic, topic)
    for partition in range(3):
        put(http, topic, partition, f"p{partition}")
    told = first.ask_poll("30s").json()
    assert told["rebalance"] and sorted(one["value"] for one in told["messages"]) == ["p0", "p1"]
    wait_durable(first, second)
    assert second.poll() == ["p2"]
    first.leave()
    second.leave()


def test_a_poll_answers_with_whole_messages_of_all_topics_in_one_list(
    http: httpx.Client, topic: str, join: Join
) -> None:
    other = f"{topic}-other"
    http.post("/topics", json={"name": other, "num_partitions": 1}).raise_for_status()
    message = {"key": "k", "value": "v", "headers": {"a": "1"}, "priority": "high", "timestamp": 5, "partition": 0}
    http.post(f"/topics/{topic}/messages", json={"messages": [message]}).raise_for_status()
    put(http, other, 0, "w")
    member = join(topic, topic, topics=[topic, other])
    got = {one["topic"]: one for one in member.ask_poll().json()["messages"]}
    receipt, until = got[topic].pop("receipt"), got[topic].pop("leased_until")
    assert receipt.startswith(f"{topic}:0:0:1:") and until > time.time() * 1000
    assert got[topic] == {"topic": topic, "partition": 0, "offset": 0, "timestamp": 5, "attempt": 1, "failures": 0} | {
        "key": "k",
        "value": "v",
        "headers": {"a": "1"},
        "priority": "high",
    }
    assert got[other]["value"] == "w"
    member.leave()


def test_data_wakes_a_long_poll(http: httpx.Client, topic: str, join: Join) -> None:
    member = join(topic, topic)
    got: list[list[str]] = []
    polling = threading.Thread(target=lambda: got.append(member.poll("30s")))
    began = time.perf_counter()
    polling.start()
    wait_until(lambda: "goqueue_broker_long_polls 0.0" not in http.get("/metrics").text)
    put(http, topic, 1, "awake")
    polling.join(60)
    assert got == [["awake"]] and time.perf_counter() - began < 25
    member.leave()


def test_a_reader_that_hangs_up_loses_nothing(http: httpx.Client, topic: str, join: Join) -> None:
    member = join(topic, topic)
    with pytest.raises(httpx.ReadTimeout):
        member.http.get(f"{member.group}/poll", params={**member.who, "timeout": "30s"}, timeout=0.2)
    put(http, topic, 0, "still here")
    assert member.poll("10s") == ["still here"]
    member.leave()


def test_stale_generations_are_refused_everywhere(http: httpx.Client, topic: str, join: Join) -> None:
    first = join(topic, topic)
    old = first.generation
    second = join(topic, topic)
    wait_durable(first, second)
    third = join(topic, topic)
    wait_durable(first, second, third)
    first.generation, current = old, first.generation
    refused = problem(first.ask_poll(), 409, "illegal-generation")
    assert refused["generation"] == current
    problem(first.commit(topic, 0, 1), 409, "illegal-generation")
    problem(http.post(f"{first.group}/heartbeat", json=first.who), 409, "illegal-generation")
    revoke = {**first.who, "partitions": []}
    problem(http.post(f"{first.group}/revoke", json=revoke), 409, "illegal-generation")
    first.generation = current
    assert first.commit(topic, 0, 1).status_code == 200
    for member in (first, second, third):
        member.leave()


def test_commits_have_their_own_results(http: httpx.Client, topic: str, join: Join) -> None:
    put(http, topic, 0, "a", "b")
    path = f"/groups/{topic}/offsets"
    good = {"topic": topic, "partition": 0, "offset": 1, "metadata": "note"}
    bad = {"topic": topic, "partition": 9, "offset": 1}
    assert http.post(path, json={"offsets": [good]}).json()["results"] == [
        {"topic": topic, "partition": 0, "offset": 1}
    ]
    partly = http.post(path, json={"offsets": [bad, good]})
    assert partly.status_code == 207
    assert partly.json()["results"][0]["error"]["code"] == "unknown-partition"
    problem(http.post(path, json={"offsets": [bad]}), 404, "unknown-partition", "offsets[0].partition")
    long = {**good, "metadata": "x" * 5000}
    problem(http.post(path, json={"offsets": [long]}), 413, "offset-metadata-too-large", "offsets[0].metadata")
    (found,) = http.get(path).json()["offsets"]
    assert found == {"topic": topic, "partition": 0, "committed": 1, "end_offset": 2, "lag": 1, "metadata": "note"}
    member = join(topic, topic)
    problem(http.post(path, json={"offsets": [good]}), 404, "unknown-member")
    assert member.poll() == ["b"]
    member.leave()


def test_a_reset_moves_a_group_that_nobody_is_in(http: httpx.Client, topic: str, join: Join) -> None:
    for partition in range(3):
        messages = [{"value": "v", "partition": partition, "timestamp": 1000 * n} for n in range(4)]
        http.post(f"/topics/{topic}/messages", json={"messages": messages}).raise_for_status()
    path = f"/groups/{topic}/offsets/reset"
    problem(http.post(path, json={"topic": topic, "to": "latest"}), 404, "unknown-group", "group")
    member = join(topic, topic)
    assert len(member.poll()) == 12
    for dry_run in (True, False):
        body = {"topic": topic, "to": "earliest", "dry_run": dry_run}
        problem(http.post(path, json=body), 409, "group-not-empty", "group")
    member.leave()
    dry = http.post(path, json={"topic": topic, "to": "timestamp", "timestamp": 2000, "dry_run": True}).json()
    assert dry["offsets"] == [{"topic": topic, "partition": number, "from": 4, "to": 2} for number in range(3)]
    assert offsets(http, topic) == dict.fromkeys(range(3), (4, 0))
    moved = http.post(path, json={"topic": topic, "to": "offset", "offset": 3, "partition": 1})
    assert moved.json()["offsets"] == [{"topic": topic, "partition": 1, "from": 4, "to": 3}]
    assert offsets(http, topic)[1] == (3, 1)
    http.post(path, json={"topic": topic, "to": "earliest"}).raise_for_status()
    assert offsets(http, topic) == dict.fromkeys(range(3), (0, 4))
    http.post(path, json={"topic": topic, "to": "timestamp", "timestamp": "1970-01-01T00:00:03Z"}).raise_for_status()
    http.post(path, json={"topic": topic, "to": "latest", "partition": 0}).raise_for_status()
    assert offsets(http, topic) == {0: (4, 0), 1: (3, 1), 2: (3, 1)}
    too_far = {"topic": topic, "to": "offset", "offset": 5}
    beyond = problem(http.post(path, json=too_far), 416, "offset-out-of-range", "offset")
    assert beyond["end_offset"] == 4


def test_the_lag_is_the_same_on_all_surfaces(http: httpx.Client, topic: str, join: Join) -> None:
    for partition in range(3):
        put(http, topic, partition, "a", "b", "c")
    http.post(f"/groups/{topic}/offsets", json={"offsets": [{"topic": topic, "partition": 1, "offset": 2}]})
    member = join(topic, topic)
    listed = offsets(http, topic)
    assert listed == {0: (None, 3), 1: (2, 1), 2: (None, 3)}
    described = http.get(f"/groups/{topic}").json()["lag"]
    assert {one["partition"]: (one["committed"], one["lag"]) for one in described} == listed
    label = f'group="{topic}"'
    expected = {
        *(
            f'goqueue_consumer_lag{{{label},partition="{partition}",topic="{topic}"}} {lag}.0'
            for partition, (_, lag) in listed.items()
        ),
        f'goqueue_consumer_committed_offset{{{label},partition="1",topic="{topic}"}} 2.0',
        f"goqueue_consumer_members{{{label}}} 1.0",
        f"goqueue_consumer_rebalances_total{{{label}}} 1.0",
    }
    wait_until(lambda: expected <= {*metrics(http).splitlines()})  # the text may be a second old
    member.leave()


def test_a_silent_member_is_replaced_when_its_session_ends(tmp_path: Path, join: Join) -> None:
    settings = {"GOQUEUE_GROUPS_SESSION_MS_MIN": "100"}
    with NodeProcess(tmp_path / "data", settings=settings) as node, httpx.Client(base_url=node.url) as http:
        http.post("/topics", json={"name": "t", "num_partitions": 1}).raise_for_status()
        silent = join("g", "t", "silent", url=node.url, session_timeout="2s")
        second = join("g", "t", "second", url=node.url, session_timeout="2s")
        put(http, "t", 0, "a")
        assert silent.poll() == ["a"]
        began = time.perf_counter()
        while second.partitions != [0]:
            second.poll("10s")
        assert second.poll("10s") == ["a"], "it was never committed"
        assert time.perf_counter() - began < stretched(20)
        problem(silent.ask_poll(), 404, "unknown-member")
        problem(http.post("/groups/g/leave", json={"member_id": "silent"}), 404, "unknown-member")
        silent.close()
        second.leave()


def test_after_kill_9_members_join_again_and_no_message_is_lost(tmp_path: Path, join: Join) -> None:
    node = NodeProcess(tmp_path / "data", settings={"GOQUEUE_LOG_FSYNC": "always"}).start()
    with httpx.Client(base_url=node.url) as http:
        http.post("/topics", json={"name": "t", "num_partitions": 3}).raise_for_status()
        for partition in range(3):
            put(http, "t", partition, *(f"{partition}-{number}" for number in range(20)))
    members = [join("g", "t", f"m{number}", url=node.url) for number in range(2)]
    wait_durable(*members)
    got = [value for member in members for value in member.poll(limit=10)]
    at = members[0].partitions[0]
    assert members[0].commit("t", at, 7).status_code == 200
    node.kill()
    node.start()
    again: list[str] = []
    for member in members:
        member.close()
        back = join("g", "t", member.id, url=node.url)
        assert back.partitions == member.partitions, "the place is kept"
        assert back.generation == member.generation
        again += back.poll(limit=1000)
        back.close()
    expected = {f"{partition}-{number}" for partition in range(3) for number in range(20)}
    skipped = {f"{at}-{number}" for number in range(7)}
    assert set(again) == expected - skipped, "from the committed offset, where there is one"
    assert len(got) == 20
    assert node.stop() == 0


def test_a_group_with_members_cannot_be_deleted(http: httpx.Client, topic: str, join: Join) -> None:
    problem(http.delete(f"/groups/{topic}"), 404, "unknown-group", "group")
    member = join(topic, topic)
    problem(http.delete(f"/groups/{topic}"), 409, "group-not-empty")
    assert topic in [one["group"] for one in http.get("/groups").json()["groups"]]
    member.leave()
    assert http.delete(f"/groups/{topic}").status_code == 204
    assert topic not in [one["group"] for one in http.get("/groups").json()["groups"]]
