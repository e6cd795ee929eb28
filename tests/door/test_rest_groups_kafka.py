"""REST members and Kafka clients in one group, on a real node."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench.node_process import NodeProcess
from tests.door.members import Join, Member, members
from tests.door.test_rest import problem
from tests.one_of_cluster import a_node

_WAIT_S = 30
Make = Callable[..., Consumer]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    settings = {"GOQUEUE_GROUPS_HEARTBEAT_MS": "200"}
    with a_node(tmp_path_factory.mktemp("groups") / "data", settings) as running:
        yield running


@pytest.fixture
def http(node: NodeProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=node.url, timeout=40) as client:
        yield client


@pytest.fixture
def join(node: NodeProcess) -> Iterator[Join]:
    with members(node.url) as made:
        yield made


@pytest.fixture
def topic(http: httpx.Client) -> str:
    name = f"t-{uuid.uuid4()}"
    http.post("/topics", json={"name": name, "num_partitions": 3}).raise_for_status()
    for partition in range(3):
        messages = [{"value": f"{partition}-{number}", "partition": partition} for number in range(10)]
        http.post(f"/topics/{name}/messages", json={"messages": messages}).raise_for_status()
    return name


@pytest.fixture
def consumer(node: NodeProcess) -> Iterator[Make]:
    made: list[Consumer] = []

    def make(group: str, **more: Any) -> Consumer:
        settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.protocol": "consumer"}
        settings |= {key.replace("_", "."): value for key, value in more.items()}
        made.append(Consumer({"bootstrap.servers": node.kafka, "group.id": group, **settings}))
        return made[-1]

    yield make
    for one in made:
        one.close()


def values_of(consumer: Consumer) -> list[str]:
    """One round of the Kafka client."""
    found = consumer.consume(100, timeout=0.1)
    assert all(message.error() is None for message in found)
    return [(message.value() or b"").decode() for message in found]


def together(member: Member, consumer: Consumer, until: Callable[[], bool]) -> tuple[list[str], list[str]]:
    """Both read until something is so; what each got."""
    ours: list[str] = []
    theirs: list[str] = []
    deadline = time.monotonic() + _WAIT_S
    while not until():
        assert time.monotonic() < deadline
        ours += member.poll("100ms")
        theirs += values_of(consumer)
    return ours, theirs


def test_a_rest_member_and_a_kafka_consumer_share_a_group(
    http: httpx.Client, topic: str, join: Join, consumer: Make
) -> None:
    member = join(topic, topic)
    assert len(member.poll(limit=1000)) == 30
    kafka = consumer(topic)
    kafka.subscribe([topic])
    together(member, kafka, lambda: len(kafka.assignment()) == 1 and len(member.partitions) == 2)
    described = http.get(f"/groups/{topic}").json()
    assert {one["door"] for one in described["members"]} == {"rest", "kafka"}
    for partition in range(3):
        body = {"messages": [{"value": f"new-{partition}", "partition": partition}]}
        http.post(f"/topics/{topic}/messages", json=body).raise_for_status()
    got: list[str] = []

    def all_new() -> bool:
        got.extend(member.poll("100ms") + values_of(kafka))
        return {"new-0", "new-1", "new-2"} <= set(got)

    ours, theirs = together(member, kafka, all_new)
    assert sorted(got + ours + theirs) == ["new-0", "new-1", "new-2"], "each once, and nothing that was committed"
    kafka.close()
    together(member, consumer(f"{topic}-idle"), lambda: len(member.partitions) == 3)
    member.leave()


def test_a_group_of_classic_members_is_not_for_rest(http: httpx.Client, topic: str, join: Join, consumer: Make) -> None:
    classic = consumer(topic, group_protocol="classic")
    classic.subscribe([topic])
    deadline = time.monotonic() + _WAIT_S
    while not classic.assignment():
        assert time.monotonic() < deadline
        classic.consume(100, timeout=0.1)
    body = {"client_id": "c", "topics": [topic]}
    problem(http.post(f"/groups/{topic}/join", json=body), 409, "inconsistent-protocol")
    described = http.get(f"/groups/{topic}").json()
    assert (described["kind"], described["state"], described["protocol"]) == ("classic", "Stable", "range")
    assert described["members"][0]["assignment"] == [{"topic": topic, "partitions": [0, 1, 2]}]
    problem(http.delete(f"/groups/{topic}"), 409, "group-not-empty")
    classic.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    classic.close()
    assert len(join(topic, topic).poll(limit=1000)) == 26, "once they are gone, it goes on where they committed"


def test_both_see_each_others_commits(http: httpx.Client, topic: str, join: Join, consumer: Make) -> None:
    kafka = consumer(topic, group_protocol="classic")
    kafka.commit(offsets=[TopicPartition(topic, 0, 3, "by kafka")], asynchronous=False)
    (seen,) = http.get(f"/groups/{topic}/offsets").json()["offsets"]
    assert (seen["committed"], seen["lag"]) == (3, 7)
    body = {"offsets": [{"topic": topic, "partition": 0, "offset": 5}, {"topic": topic, "partition": 2, "offset": 9}]}
    assert http.post(f"/groups/{topic}/offsets", json=body).status_code == 200
    found = kafka.committed([TopicPartition(topic, number) for number in range(3)], timeout=_WAIT_S)
    assert [one.offset for one in found] == [5, -1001, 9]
    member = join(topic, topic)
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        kafka.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert len(member.poll(limit=1000)) == 5 + 10 + 1
    member.leave()
    found = kafka.committed([TopicPartition(topic, number) for number in range(3)], timeout=_WAIT_S)
    assert [one.offset for one in found] == [10, 10, 10]


def test_a_shared_group_outlives_kill_9(tmp_path: Path, consumer: Make) -> None:
    node = NodeProcess(tmp_path / "data", settings={"GOQUEUE_GROUPS_HEARTBEAT_MS": "200"}).start()
    try:
        with members(node.url) as join:
            httpx.post(f"{node.url}/topics", json={"name": "t", "num_partitions": 2}).raise_for_status()
            body = {"messages": [{"value": str(number), "partition": number % 2} for number in range(20)]}
            httpx.post(f"{node.url}/topics/t/messages", json=body).raise_for_status()
            member = join("g", "t", "m")
            assert len(member.poll(limit=1000)) == 20
            kafka = consumer("g", bootstrap_servers=node.kafka)
            kafka.subscribe(["t"])
            together(member, kafka, lambda: len(kafka.assignment()) == 1 and len(member.partitions) == 1)
            given = kafka.assignment()[0].partition
            kafka.close()
            node.kill()
            node.start()
            back = join("g", "t", "m", url=node.url)
            found = httpx.get(f"{node.url}/groups/g/offsets").json()["offsets"]
            assert {one["partition"]: one["committed"] for one in found}[given] == 10, (
                "committed when it was given back"
            )
            again = back.poll("10s", limit=1000)
            while len(back.partitions) < 2:
                again += back.poll("1s", limit=1000)
            assert sorted(again + back.poll()) == sorted(str(n) for n in range(20) if n % 2 != given)
    finally:
        node.stop()
