"""Three real nodes: REST and SQS clients ask any of them for anything, whoever leads it."""

from __future__ import annotations

import threading
import time
import uuid
from functools import partial
from itertools import cycle
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from bench.cluster_process import ClusterProcess
from tests.cluster.clients import make_topic
from tests.waiting import let_pass, stretched, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
NODES = range(3)
PARTITIONS = 6


def rest(cluster: ClusterProcess, node: int) -> httpx.Client:
    return httpx.Client(base_url=cluster.nodes[node].url, timeout=60)


def put(cluster: ClusterProcess, node: int, topic: str, values: list[str], **more: Any) -> list[dict[str, Any]]:
    messages = [{"key": value, "value": value, **more} for value in values]
    with rest(cluster, node) as client:
        answer = client.post(f"/topics/{topic}/messages", json={"messages": messages})
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


def sqs(cluster: ClusterProcess, node: int) -> Any:
    return boto3.client(
        "sqs",
        endpoint_url=cluster.nodes[node].sqs,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )


class RestMember:
    """A member of a group that asks another node each time."""

    def __init__(self, cluster: ClusterProcess, group: str, topic: str) -> None:
        self.cluster, self.group = cluster, group
        self.turns = cycle(NODES)
        joined = self.post("join", {"topics": [topic], "mode": "shared", "client_id": "c"})
        self.who = {"member_id": joined["member_id"], "generation": joined["generation"]}

    def post(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        with rest(self.cluster, next(self.turns)) as client:
            answer = client.post(f"/groups/{self.group}/{verb}", json=body)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def poll(self, timeout: str = "0s") -> list[dict[str, Any]]:
        with rest(self.cluster, next(self.turns)) as client:
            answer = client.get(f"/groups/{self.group}/poll", params={**self.who, "timeout": timeout})
        assert answer.status_code == 200, answer.text
        self.who["generation"] = answer.json()["generation"]
        found: list[dict[str, Any]] = answer.json()["messages"]
        return found

    def ack(self, messages: list[dict[str, Any]]) -> None:
        with rest(self.cluster, next(self.turns)) as client:
            answer = client.post("/messages/ack", json={"receipts": [one["receipt"] for one in messages]})
        assert answer.status_code == 200, answer.text


def test_every_node_takes_and_shows_the_messages_of_every_partition(cluster: ClusterProcess) -> None:
    topic = make_topic(cluster, PARTITIONS)
    sent = [f"{node}-{number}" for node in NODES for number in range(40)]
    for node in NODES:
        put(cluster, node, topic, [one for one in sent if one.startswith(f"{node}-")])
    for node in NODES:
        with rest(cluster, node) as client:
            page = client.get(f"/topics/{topic}/messages", params={"limit": 1000}).raise_for_status().json()
            assert sorted(one["value"] for one in page["messages"]) == sorted(sent)
            for partition in range(PARTITIONS):
                one = client.get(f"/topics/{topic}/partitions/{partition}/messages").raise_for_status().json()
                assert one["messages"] and one["high_watermark"] == len(one["messages"])


def test_a_group_is_served_by_every_node(cluster: ClusterProcess) -> None:
    topic, group = make_topic(cluster, PARTITIONS), f"g-{uuid.uuid4().hex[:8]}"
    sent = [str(number) for number in range(60)]
    put(cluster, 1, topic, sent)
    member = RestMember(cluster, group, topic)
    seen: list[str] = []
    deadline = time.monotonic() + 60
    while len(seen) < len(sent) and time.monotonic() < deadline:
        if found := member.poll("2s"):
            seen += [one["value"] for one in found]
            member.ack(found)
    assert sorted(seen) == sorted(sent)

    def lag(node: int) -> int:
        with rest(cluster, node) as client:
            offsets = client.get(f"/groups/{group}/offsets").raise_for_status().json()["offsets"]
        return sum(one["lag"] for one in offsets) if len(offsets) == PARTITIONS else -1

    for node in NODES:
        wait_until(lambda node=node: lag(node) == 0, lambda node=node: f"the lag at node {node} is {lag(node)}")  # type: ignore[misc]
        with rest(cluster, node) as client:
            assert group in {one["group"] for one in client.get("/groups").json()["groups"]}


def test_a_long_poll_is_woken_by_a_message_at_another_node(cluster: ClusterProcess) -> None:
    topic, group = make_topic(cluster, PARTITIONS), f"g-{uuid.uuid4().hex[:8]}"
    member = RestMember(cluster, group, topic)
    assert member.poll() == []
    for partition in range(PARTITIONS):
        began = time.monotonic()
        sending = threading.Timer(1, put, [cluster, partition % 3, topic, [str(partition)]], {"partition": partition})
        sending.start()
        found: list[dict[str, Any]] = []
        while not found and time.monotonic() - began < 30:
            found = member.poll("20s")
        sending.join()
        assert [one["value"] for one in found] == [str(partition)]
        member.ack(found)


@pytest.mark.parametrize("fifo", [False, True])
def test_an_sqs_queue_is_one_at_all_nodes(cluster: ClusterProcess, fifo: bool) -> None:
    name = f"q-{uuid.uuid4().hex[:8]}" + (".fifo" if fifo else "")
    attributes = {"FifoQueue": "true"} if fifo else {}
    url = sqs(cluster, 0).create_queue(QueueName=name, Attributes=attributes)["QueueUrl"].rpartition("/")[2]

    def queue(node: int) -> dict[str, str]:
        return {"QueueUrl": sqs(cluster, node).get_queue_url(QueueName=url)["QueueUrl"]}

    sent = [str(number) for number in range(30)]
    for number, body in enumerate(sent):
        more = {"MessageGroupId": "g", "MessageDeduplicationId": body} if fifo else {}
        sqs(cluster, number % 3).send_message(**queue(number % 3), MessageBody=body, **more)
    if fifo:  # known at every node
        for node in NODES:
            again = {"MessageGroupId": "g", "MessageDeduplicationId": sent[0]}
            sqs(cluster, node).send_message(**queue(node), MessageBody=sent[0], **again)
    for node in NODES:
        wanted = ["ApproximateNumberOfMessages"]
        told = sqs(cluster, node).get_queue_attributes(**queue(node), AttributeNames=wanted)["Attributes"]
        assert int(told[wanted[0]]) == len(sent)
    seen: list[str] = []
    turns, deadline = cycle(NODES), time.monotonic() + 60
    while len(seen) < len(sent) and time.monotonic() < deadline:
        node = next(turns)
        found = sqs(cluster, node).receive_message(**queue(node), MaxNumberOfMessages=10, WaitTimeSeconds=2)
        for one in found.get("Messages", []):
            seen.append(one["Body"])
            other = next(turns)
            sqs(cluster, other).delete_message(**queue(other), ReceiptHandle=one["ReceiptHandle"])
    assert seen == sent if fifo else sorted(seen) == sorted(sent)


def test_delayed_messages_are_listed_and_cancelled_through_any_node(cluster: ClusterProcess) -> None:
    topic = make_topic(cluster, PARTITIONS)
    put(cluster, 0, topic, [str(number) for number in range(12)], delay="1h")
    for node in NODES:
        with rest(cluster, node) as client:
            found = client.get(f"/topics/{topic}/delayed", params={"limit": 100}).raise_for_status().json()
        assert (len(found["delayed"]), found["pending"]) == (12 - node, 12 - node)
        one = found["delayed"][0]
        with rest(cluster, (node + 1) % 3) as client:
            client.delete(f"/topics/{topic}/delayed/{one['partition']}/{one['scheduled']}").raise_for_status()


def test_schemas_are_registered_through_any_node_and_known_at_all(cluster: ClusterProcess) -> None:
    for node in NODES:
        subject = f"s-{uuid.uuid4().hex[:8]}-value"
        with rest(cluster, node) as client:
            body = {"schema": '{"type": "string"}'}
            schema_id = client.post(f"/subjects/{subject}/versions", json=body).raise_for_status().json()["id"]
        for other in NODES:
            with rest(cluster, other) as client:
                wait_until(
                    lambda client=client, subject=subject: (
                        client.get(f"/subjects/{subject}/versions").status_code == 200
                    ),  # type: ignore[misc]
                    f"node {other} does not know {subject}",
                )
                assert client.get(f"/schemas/ids/{schema_id}").status_code == 200


def test_rest_goes_on_at_the_other_nodes_when_a_leader_is_killed(cluster: ClusterProcess) -> None:
    """Nothing acknowledged is lost; what is in doubt is told."""
    topic, group = make_topic(cluster, PARTITIONS), f"g-{uuid.uuid4().hex[:8]}"
    acknowledged: list[str] = []
    leader = cluster.leader_of(topic)
    assert leader is not None
    others = cycle([node for node in NODES if node != leader])

    def write(count: int, prefix: str) -> None:
        for number in range(count):
            value = f"{prefix}{number}"
            with rest(cluster, next(others)) as client:
                body = {"messages": [{"key": value, "value": value}]}
                if client.post(f"/topics/{topic}/messages", json=body).status_code == 200:
                    acknowledged.append(value)

    write(50, "before-")
    cluster.kill(leader)
    write(100, "after-")
    assert len([one for one in acknowledged if one.startswith("after-")]) >= 90
    cluster.heal()
    member = RestMember(cluster, group, topic)
    seen: set[str] = set()
    deadline = time.monotonic() + 60
    while not seen >= set(acknowledged) and time.monotonic() < deadline:
        found = member.poll("1s")
        seen |= {one["value"] for one in found}
        if found:
            member.ack(found)
    assert seen >= set(acknowledged)


def asked(cluster: ClusterProcess, node: int, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    with rest(cluster, node) as client:
        answer = client.request(method, path, json=body)
    assert answer.status_code < 300, f"{method} {path}: {answer.text}"
    return answer.json() if answer.content else None


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_transaction_goes_through_any_node(cluster: ClusterProcess, end: str) -> None:
    topic, turns = make_topic(cluster, PARTITIONS), cycle(NODES)
    sent = [str(number) for number in range(30)]
    made = asked(cluster, next(turns), "POST", "/producers/init", {})
    who = {"producer_id": made["producer_id"], "epoch": made["epoch"]}
    asked(cluster, next(turns), "POST", "/transactions/begin", who)
    for begin in range(0, 30, 10):
        messages = [{"key": value, "value": value} for value in sent[begin : begin + 10]]
        body = {**who, "topic": topic, "messages": messages, "sequence": begin // 10}
        for _ in range(2):  # sent again it is recognised
            told = asked(cluster, next(turns), "POST", "/transactions/publish", body)
            assert all("offset" in one for one in told["results"])
    for node in NODES:
        assert asked(cluster, node, "GET", f"/topics/{topic}/messages")["messages"] == []
    asked(cluster, next(turns), "POST", f"/transactions/{end}", who)
    for node in NODES:
        page = asked(cluster, node, "GET", f"/topics/{topic}/messages?limit=1000")
        assert sorted(one["value"] for one in page["messages"]) == (sorted(sent) if end == "commit" else [])


def test_dead_letters_are_seen_and_redriven_through_any_node(cluster: ClusterProcess) -> None:
    topic, group = make_topic(cluster, PARTITIONS), f"g-{uuid.uuid4().hex[:8]}"
    sent = [str(number) for number in range(24)]
    put(cluster, 2, topic, sent)
    member = RestMember(cluster, group, topic)
    rejected: list[str] = []
    deadline = time.monotonic() + 60
    while len(rejected) < len(sent) and time.monotonic() < deadline:
        if found := member.poll("1s"):
            receipts = [one["receipt"] for one in found]
            asked(cluster, next(member.turns), "POST", "/messages/reject", {"receipts": receipts, "reason": "bad"})
            rejected += [one["value"] for one in found]

    def dead(node: int) -> list[str]:
        page = asked(cluster, node, "GET", f"/topics/{topic}/dlq?limit=1000")
        return sorted(one["value"] for one in page["messages"])

    for node in NODES:
        wait_until(lambda node=node: dead(node) == sorted(sent), lambda node=node: f"{dead(node)} at {node}")  # type: ignore[misc]
    task = asked(cluster, 1, "POST", f"/topics/{topic}/dlq/redrive", {})
    wait_until(
        lambda: asked(cluster, 0, "GET", f"/topics/{topic}/dlq/redrive/{task['id']}")["state"] == "completed",
        lambda: str(asked(cluster, 0, "GET", f"/topics/{topic}/dlq/redrive/{task['id']}")),
    )
    again: list[str] = []
    deadline = time.monotonic() + 60
    while len(again) < len(sent) and time.monotonic() < deadline:
        if found := member.poll("1s"):
            again += [one["value"] for one in found]
            member.ack(found)
    assert sorted(again) == sorted(sent)


class SqsClients:
    """Producers and consumers of one queue that go to another node when one fails them."""

    def __init__(self, cluster: ClusterProcess, queue: str) -> None:
        self.cluster, self.queue = cluster, queue
        self.sent: set[str] = set()
        self.seen: list[str] = []
        self.done = threading.Event()
        self._lock = threading.Lock()

    def ask(self, verb: str, **parameters: Any) -> dict[str, Any]:
        for node in cycle(NODES):
            if self.done.is_set():
                return {}
            client = sqs(self.cluster, node)
            try:
                url = f"{self.cluster.nodes[node].sqs}/000000000000/{self.queue}"
                found: dict[str, Any] = getattr(client, verb)(QueueUrl=url, **parameters)
                return found
            except (BotoCoreError, ClientError):
                let_pass(0.05)
        return {}

    def produce(self, count: int, prefix: str) -> None:
        for number in range(count):
            body = f"{prefix}-{number}"
            if self.ask("send_message", MessageBody=body):
                self.sent.add(body)

    def consume(self) -> None:
        while not self.done.is_set():
            found = self.ask("receive_message", MaxNumberOfMessages=10, WaitTimeSeconds=3, VisibilityTimeout=15)
            for one in found.get("Messages", []):
                with self._lock:
                    self.seen.append(one["Body"])
                self.ask("delete_message", ReceiptHandle=one["ReceiptHandle"])


def test_sqs_loses_nothing_when_nodes_are_killed(cluster: ClusterProcess) -> None:
    name = f"q-{uuid.uuid4().hex[:8]}"
    sqs(cluster, 0).create_queue(QueueName=name)
    clients = SqsClients(cluster, name)
    threads = [threading.Thread(target=clients.consume) for _ in range(3)]
    threads += [threading.Thread(target=clients.produce, args=(150, f"p{number}")) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for node in (1, 2):
            let_pass(1)
            cluster.kill(node)
            let_pass(2)
            cluster.heal()
        for thread in threads[3:]:
            thread.join(120)
        wait_until(lambda: set(clients.seen) >= clients.sent, lambda: str(clients.sent.difference(clients.seen)))
    finally:
        clients.done.set()
        for thread in threads:
            thread.join(60)
    assert len(clients.sent) == 300


def knows_user(cluster: ClusterProcess, node: int, name: str) -> bool:
    with rest(cluster, node) as client:
        return f'"{name}"' in client.get("/admin/users").text


def test_users_made_at_one_node_are_at_all_within_a_second(cluster: ClusterProcess) -> None:
    lags: list[float] = []
    for number in range(5):
        name = f"user-{uuid.uuid4().hex[:8]}"
        with rest(cluster, number % 3) as client:
            made = client.post("/admin/users", json={"name": name, "password": "correct horse battery"})
            assert made.status_code == 201, made.text
        begin = time.monotonic()
        for node in NODES:
            wait_until(partial(knows_user, cluster, node, name), name)
        lags.append(time.monotonic() - begin)
    assert sorted(lags)[2] < stretched(1), lags
