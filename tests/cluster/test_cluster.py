"""Three real nodes: they form a cluster, every node serves every topic, and what is acknowledged outlives a leader."""

from __future__ import annotations

import uuid
from itertools import product

import httpx
import pytest
from confluent_kafka import KafkaError, Message, Producer

from bench.cluster_process import ClusterProcess
from tests.cluster.clients import Writer, check_kept, make_topic, read_all
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
NODES = range(3)


def test_three_nodes_form_a_cluster(cluster: ClusterProcess) -> None:
    states = [cluster.state(number) for number in NODES]
    assert len({state["cluster_id"] for state in states}) == 1 and states[0]["cluster_id"]
    assert len({state["controller"] for state in states}) == 1
    for state in states:
        assert [node["state"] for node in state["nodes"]] == ["alive"] * 3
        assert all(len(shard["replicas"]) == 3 for shard in state["shards"])
        assert {shard["leader"] for shard in state["shards"]} == {0, 1, 2}, "shared out"


def test_a_topic_made_at_one_node_is_there_at_all(cluster: ClusterProcess) -> None:
    name = make_topic(cluster, at=1)
    for node in cluster.nodes:
        assert httpx.get(f"{node.url}/topics/{name}").json()["name"] == name


@pytest.mark.parametrize(("written_at", "read_at"), list(product(NODES, NODES)))
def test_kafka_clients_may_begin_at_any_node(cluster: ClusterProcess, written_at: int, read_at: int) -> None:
    topic = make_topic(cluster, at=read_at)
    errors: list[object] = []

    def told(error: KafkaError | None, _: Message) -> None:
        errors.extend([] if error is None else [error])

    producer = Producer({"bootstrap.servers": cluster.nodes[written_at].kafka, "acks": "all"})
    for number in range(200):
        producer.produce(topic, str(number).encode(), on_delivery=told)
    assert producer.flush(60) == 0 and errors == []
    assert sorted(int(value) for _, value in read_all(cluster, topic, at=read_at)) == list(range(200))


def test_a_client_at_a_second_listener_is_told_those_of_all_nodes(cluster: ClusterProcess) -> None:
    outside = {node["id"]: node["addresses"]["kafka_external"] for node in cluster.state()["nodes"]}
    topic = make_topic(cluster)
    for number in NODES:
        producer = Producer({"bootstrap.servers": outside[number], "acks": "all"})
        told = producer.list_topics(timeout=60).brokers
        assert {one.id: f"{one.host}:{one.port}" for one in told.values()} == outside
        for partition in range(3):
            producer.produce(topic, str(number), partition=partition)
        assert producer.flush(60) == 0
    assert sorted(value for _, value in read_all(cluster, topic)) == [b"0"] * 3 + [b"1"] * 3 + [b"2"] * 3


@pytest.mark.parametrize("number", NODES)
def test_rest_publishes_polls_and_acks_at_any_node(cluster: ClusterProcess, number: int) -> None:
    topic, group = make_topic(cluster), f"g-{uuid.uuid4().hex[:8]}"
    with httpx.Client(base_url=cluster.nodes[number].url, timeout=60) as http:
        messages = [{"key": str(one), "value": str(one)} for one in range(30)]
        sent = http.post(f"/topics/{topic}/messages", json={"messages": messages}).raise_for_status().json()
        assert {one["partition"] for one in sent["results"]} == {0, 1, 2}
        joined = (
            http.post(f"/groups/{group}/join", json={"client_id": "c", "topics": [topic]}).raise_for_status().json()
        )
        params = {"member_id": joined["member_id"], "generation": joined["generation"], "timeout": "10s"}
        taken = list[str]()
        while len(taken) < 30:
            page = http.get(f"/groups/{group}/poll", params=params).raise_for_status().json()["messages"]
            assert page, f"{len(taken)} came"
            taken += [one["value"] for one in page]
            receipts = [one["receipt"] for one in page]
            http.post("/messages/ack", json={"receipts": receipts}).raise_for_status()
        assert sorted(map(int, taken)) == list(range(30))


def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(cluster: ClusterProcess) -> None:
    topic = make_topic(cluster)
    with Writer(cluster, topic) as writer:
        writer.wait_more()
        for partition in range(3):
            leader = cluster.leader_of(topic, partition)
            assert leader is not None
            cluster.kill(leader)
            writer.wait_more(300)
            cluster.heal()
    assert writer.failed == []
    check_kept(writer, read_all(cluster, topic))


def test_a_planned_stop_fails_nothing(cluster: ClusterProcess) -> None:
    topic = make_topic(cluster)
    with Writer(cluster, topic) as writer:
        writer.wait_more()
        leader = cluster.leader_of(topic)
        assert leader is not None and cluster.stop(leader) == 0
        writer.wait_more(300)
        cluster.heal()
        writer.wait_more(100)
    assert writer.failed == []
    check_kept(writer, read_all(cluster, topic))


def test_a_leader_that_stood_still_takes_nothing_back(cluster: ClusterProcess) -> None:
    topic = make_topic(cluster)
    with Writer(cluster, topic) as writer:
        writer.wait_more()
        leader = cluster.leader_of(topic)
        assert leader is not None
        cluster.pause(leader)
        other = next(number for number in NODES if number != leader)
        wait_until(lambda: leads_elsewhere(cluster, other, leader), "nobody else took over")
        writer.wait_more(300)
        cluster.resume(leader)
        cluster.heal()
        writer.wait_more(100)
    assert writer.failed == []
    check_kept(writer, read_all(cluster, topic))


def leads_elsewhere(cluster: ClusterProcess, asked: int, not_this: int) -> bool:
    return all(shard["leader"] not in (None, not_this) for shard in cluster.state(asked)["shards"])


def test_what_is_led_goes_on_for_a_while_without_the_store_and_all_comes_back_with_it(cluster: ClusterProcess) -> None:
    topic = make_topic(cluster)
    with Writer(cluster, topic) as writer:
        writer.wait_more()
        cluster.etcd[0].kill()
        wait_until(lambda: all(not_ready(node.url) for node in cluster.nodes), "ready without a session")
        for node in cluster.nodes:
            assert httpx.get(f"{node.url}/livez").status_code == 200
        cluster.etcd[0].start()
        cluster.heal()
        writer.wait_more(100)
    assert writer.failed == []
    check_kept(writer, read_all(cluster, topic))


def not_ready(url: str) -> bool:
    return httpx.get(f"{url}/readyz", timeout=10).status_code == 503


def test_metrics_tell_who_leads_and_what_is_missing(cluster: ClusterProcess) -> None:
    led = [metric(cluster, number, "shards_led") for number in NODES]
    assert sum(led) == len(cluster.state()["shards"])
    assert sum(metric(cluster, number, "is_controller") for number in NODES) == 1
    cluster.kill(2)
    wait_until(lambda: cluster.state()["status"] == "degraded", "not degraded")
    wait_until(lambda: sum(metric(cluster, number, "under_replicated") for number in (0, 1)) == sum(led), "missed")
    assert any(metric(cluster, number, "leader_changes_total") for number in (0, 1))


def metric(cluster: ClusterProcess, number: int, name: str) -> int:
    text = httpx.get(f"{cluster.nodes[number].url}/metrics").text
    line = next(line for line in text.splitlines() if line.startswith(f"goqueue_cluster_{name} "))
    return int(float(line.split()[1]))
