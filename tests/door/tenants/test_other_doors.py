"""Two tenants with the same names at REST, the registry, SQS and gRPC, and what of a whole node each is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from goqueue.wire import goqueue_pb2 as pb
from tests.door.grpc.stubs import refused, stubs
from tests.door.security.test_grpc_logins import basic
from tests.door.tenants.conftest import PASSWORD, Tenants
from tests.waiting import wait_until

BOTH = ("anna", "bert")
ROOT = Path(__file__).parents[3]


def polled(client: httpx.Client, group: str, topic: str) -> list[dict[str, Any]]:
    asked = {"client_id": "c", "topics": [topic], "mode": "shared"}
    joined = client.post(f"/groups/{group}/join", json=asked).json()
    member = {"member_id": joined["member_id"], "generation": joined["generation"], "timeout": "5s"}
    answer = client.get(f"/groups/{group}/poll", params=member)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


def test_topics_groups_receipts_dead_letters_and_transactions_over_rest(tenants: Tenants) -> None:
    for who in BOTH:
        with tenants.rest(who) as rest:
            config = {"queue.max.failures": "1", "queue.dead.letter.topic": "lost"}
            assert rest.post("/topics", json={"name": "lost"}).json()["name"] == "lost"
            made = rest.post("/topics", json={"name": "orders", "num_partitions": 1, "config": config})
            assert made.json()["overrides"]["queue.dead.letter.topic"] == "lost"
            assert rest.post("/topics", json={"name": "orders"}).json()["code"] == "topic-exists"
            rest.post("/topics/orders/messages", json={"messages": [{"value": f"of {who}"}]}).raise_for_status()
            (message,) = polled(rest, "billing", "orders")
            assert (message["topic"], message["value"]) == ("orders", f"of {who}")
            assert message["receipt"].startswith("orders:0:")
            gone = rest.post("/messages/reject", json={"receipt": message["receipt"], "reason": "no"})
            assert gone.status_code == 200, gone.text
            wait_until(lambda: rest.get("/topics/orders/dlq").json()["messages"], 30)
            (letter,) = rest.get("/topics/orders/dlq").json()["messages"]
            assert (letter["origin"]["topic"] if "origin" in letter else letter["topic"]) == "orders"
            who_writes = rest.post("/producers/init", json={"transactional_id": "txn"}).json()
            assert who_writes["transactional_id"] == "txn" if "transactional_id" in who_writes else True
            assert [one["group"] for one in rest.get("/groups").json()["groups"]].count("billing") == 1
            everything = "".join(
                rest.get(path).text for path in ("/topics", "/groups", "/transactions", "/topics/orders")
            )
            assert "~" not in everything
            used = rest.get("/usage").json()
            assert used["topics"] >= 2 and used["messages"] >= 1 and "name" not in used
            for path in ("/admin/tenants", "/admin/users", "/stats", "/cluster/state", "/admin/quotas"):
                assert rest.get(path).status_code == 403
    names = {one["name"] for one in tenants.secure.admin.get("/topics").json()["topics"]}
    assert {"a~orders", "b~orders", "a~lost", "b~lost"} <= names
    assert tenants.secure.admin.get("/usage").json()["code"] == "unknown-tenant"


def test_schemas_of_the_same_subject_differ_and_settings_hold_in_the_tenant_alone(tenants: Tenants) -> None:
    kinds = {"anna": '"string"', "bert": '"long"'}
    clients = {
        who: SchemaRegistryClient({"url": tenants.secure.node.url, "basic.auth.user.info": f"{who}:{PASSWORD}"})
        for who in BOTH
    }
    for who, client in clients.items():
        client.register_schema("paid-value", Schema(kinds[who], "AVRO"))
    clients["anna"].set_compatibility(level="NONE")
    for who, client in clients.items():
        assert client.get_subjects() == ["paid-value"]
        held = client.get_latest_version("paid-value")
        assert (held.subject, held.version, held.schema.schema_str) == ("paid-value", 1, kinds[who])
        assert client.get_compatibility() == ("NONE" if who == "anna" else "BACKWARD")
    mine = int(clients["anna"].get_latest_version("paid-value").schema_id or 0)
    with pytest.raises(Exception, match="not found"):
        clients["bert"].get_schema(mine)
    for client in clients.values():
        client.__exit__(None, None, None)


def test_queues_of_the_same_name_over_sqs(tenants: Tenants) -> None:
    for who in BOTH:
        sqs = tenants.sqs(who)
        url = sqs.create_queue(QueueName="jobs")["QueueUrl"]
        assert url.endswith("/jobs")
        sqs.send_message(QueueUrl=url, MessageBody=f"of {who}")
        (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        assert message["Body"] == f"of {who}"
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        assert "~" not in str(sqs.list_queues())
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        assert arn.endswith(":jobs")


@pytest.mark.asyncio
async def test_the_same_over_grpc(tenants: Tenants) -> None:
    async with stubs(tenants.secure.node.grpc) as goqueue:
        for who in BOTH:
            metadata = basic(who, PASSWORD)
            made = await goqueue.topics.CreateTopic(pb.CreateTopicRequest(name="rpc"), metadata=metadata)
            assert made.name == "rpc"
            sent = pb.PublishRequest(topic="rpc", messages=[pb.Message(value=f"of {who}".encode())])
            await goqueue.publisher.Publish(sent, metadata=metadata)
            call = goqueue.subscriber.Subscribe(metadata=metadata)
            wanted = pb.Subscription(group="g", topics=["rpc"], credit=10)
            await call.write(pb.SubscribeRequest(subscription=wanted))
            while not (answer := await call.read()).HasField("deliveries"):
                pass
            (delivery,) = answer.deliveries.deliveries
            assert delivery.topic == "rpc" and delivery.messages[0].receipt.startswith("rpc:")
            call.cancel()
            listed = await goqueue.topics.ListTopics(pb.ListTopicsRequest(), metadata=metadata)
            assert "rpc" in str(listed) and "~" not in str(listed)
            state = goqueue.cluster.GetClusterState(pb.GetClusterStateRequest(), metadata=metadata)
            assert (await refused(state))[0] == "PERMISSION_DENIED"


def test_traces_and_metrics_are_the_tenants_own(tenants: Tenants) -> None:
    for who in BOTH:
        with tenants.rest(who) as rest:
            rest.post("/topics", json={"name": "seen"})
            asked = {"messages": [{"key": f"key-of-{who}", "value": "v"}]}
            rest.post("/topics/seen/messages", json=asked).raise_for_status()
    for who, other in (BOTH, BOTH[::-1]):
        with tenants.rest(who) as rest:
            wait_until(lambda: rest.get("/traces/search", params={"topic": "seen"}).json()["traces"], 30)
            (trace,) = rest.get("/traces/search", params={"topic": "seen"}).json()["traces"]
            assert trace["topic"] == "seen"
            assert rest.get(f"/traces/{trace['trace_id']}").status_code == 200
            with tenants.rest(other) as others:
                assert others.get(f"/traces/{trace['trace_id']}").status_code == 404
            newest = rest.get("/traces").text
            assert f"key-of-{who}" in newest and f"key-of-{other}" not in newest and "~" not in newest
            page = rest.get("/metrics").text
            assert 'goqueue_broker_messages_published_total{topic="seen"} 1.0' in page
            assert "~" not in page and "goqueue_http_requests" not in page and "process_" not in page
            assert rest.get("/traces/stats").status_code == 403
