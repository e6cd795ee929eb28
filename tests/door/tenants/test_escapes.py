"""Names, patterns and ids that somebody of one tenant makes up to reach another's things."""

from __future__ import annotations

import asyncio
import json
import uuid
from urllib.parse import quote

import httpx
import pytest
from botocore.exceptions import ClientError, ParamValidationError
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.wire import goqueue_pb2 as pb
from goqueue.wire.codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    INVALID_TOPIC_EXCEPTION,
    UNKNOWN_TOPIC_ID,
)
from goqueue.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from goqueue.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from goqueue.wire.messages.describe_acls import DescribeAclsRequest
from goqueue.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from goqueue.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from goqueue.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from goqueue.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from goqueue.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from goqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from goqueue.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.door.grpc.stubs import stubs
from tests.door.kafka.raw import Line, join, new_topic
from tests.door.security.test_grpc_logins import basic
from tests.door.tenants.conftest import PASSWORD, Tenants

HIDDEN = "what bert alone may read"
CRAFTED = [
    "b~secret",
    "../b~secret",
    "~b~secret",
    "b%7Esecret",
    "b\u02dcsecret",
    "b\uff5esecret",
    "..",
    ".",
    "",
    "__consumer_offsets",
    "a~b~secret",
    "b/secret",
    "b\0secret",
    "x" * 249,
]


@pytest.fixture(scope="module")
def secret(tenants: Tenants) -> Tenants:
    """`b` has a topic `secret` with a message in it."""
    admin = AdminClient(tenants.kafka("bert"))
    admin.create_topics([NewTopic("secret", 1, 1)])["secret"].result(30)
    with tenants.rest("bert") as bert:
        bert.post("/topics/secret/messages", json={"messages": [{"value": HIDDEN}]}).raise_for_status()
    return tenants


def logged_in(tenants: Tenants, who: str) -> Line:
    raw = Line(tenants.secure.node.kafka)
    assert raw.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
    assert raw.ask(SaslAuthenticateRequest(f"\0{who}\0{PASSWORD}".encode()), 2).error_code == 0
    return raw


def secret_id(tenants: Tenants) -> bytes:
    found = tenants.secure.admin.get("/topics/b~secret").json()
    return uuid.UUID(found["id"]).bytes


@pytest.mark.parametrize("name", CRAFTED)
def test_no_name_leads_out_of_the_tenant(secret: Tenants, name: str) -> None:
    with logged_in(secret, "anna") as raw:
        answer = raw.ask(MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True), 12)
    topic = answer.topics[0]
    assert topic.error_code != 0 and not topic.partitions
    topics = {one["name"] for one in secret.secure.admin.get("/topics").json()["topics"]}
    assert not [one for one in topics if one.count("~") > 1 or (one.startswith("a~") and "secret" in one)]


def test_the_id_of_another_tenants_topic_is_unknown(secret: Tenants) -> None:
    topic_id = secret_id(secret)
    part = FetchPartition(partition=0, partition_max_bytes=1 << 20)
    with logged_in(secret, "anna") as raw:
        metadata = raw.ask(MetadataRequest([MetadataRequestTopic(topic_id=topic_id, name=None)]), 12).topics[0]
        assert (metadata.error_code, metadata.name) == (UNKNOWN_TOPIC_ID, None)
        fetched = raw.ask(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[FetchTopic("", topic_id, [part])]), 16)
        assert fetched.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID
        deleted = raw.ask(DeleteTopicsRequest([DeleteTopicState(None, topic_id)], timeout_ms=5_000), 6)
        assert (deleted.responses[0].error_code, deleted.responses[0].name) == (UNKNOWN_TOPIC_ID, None)
        data = [TopicProduceData("", topic_id, [PartitionProduceData(0, b"")])]
        produced = raw.ask(ProduceRequest(None, 1, 5_000, data), 13)
        assert produced.responses[0].partition_responses[0].error_code == UNKNOWN_TOPIC_ID
    with logged_in(secret, "bert") as raw:
        own = raw.ask(MetadataRequest([MetadataRequestTopic(topic_id=topic_id, name=None)]), 12).topics[0]
        assert (own.error_code, own.name) == (0, "secret")


@pytest.mark.parametrize("pattern", [".*secret.*", "x)|(.*", "|.*", "b~.*", r"\Qx", "(?i).*", "^.*$", r"\E|.*"])
def test_no_pattern_leads_out_of_the_tenant(secret: Tenants, pattern: str) -> None:
    member = str(uuid.uuid4())
    asked = ConsumerGroupHeartbeatRequest(
        group_id=f"g-{member}",
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[],
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )
    with logged_in(secret, "anna") as raw:
        answer = raw.ask(asked, 1)
    given = answer.assignment.topic_partitions if answer.assignment is not None else []
    assert secret_id(secret) not in {bytes(one.topic_id) for one in given}


def test_rules_and_disks_are_the_operators(secret: Tenants) -> None:
    with logged_in(secret, "anna") as raw:
        assert raw.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1)).error_code == CLUSTER_AUTHORIZATION_FAILED
        assert raw.ask(DescribeLogDirsRequest(None)).results == []
        assert raw.ask(ListPartitionReassignmentsRequest(1_000, None)).error_code == CLUSTER_AUTHORIZATION_FAILED


def test_a_group_and_a_topic_without_a_name_are_refused_as_kafka_does(secret: Tenants) -> None:
    with logged_in(secret, "anna") as raw:
        assert raw.ask(join("")).error_code == INVALID_GROUP_ID
        assert raw.ask(new_topic("")).topics[0].error_code == INVALID_TOPIC_EXCEPTION


def test_errors_do_not_tell_the_prefix(secret: Tenants) -> None:
    admin = AdminClient(secret.kafka("anna"))
    admin.create_topics([NewTopic("twice", 1, 1)])["twice"].result(30)
    for name in ("twice", "wrong name", "b~x"):
        with pytest.raises(KafkaException) as refused:
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        assert "a~" not in str(refused.value)


def test_dead_letters_stay_in_the_tenant(secret: Tenants) -> None:
    admin = AdminClient(secret.kafka("anna"))
    config = {"queue.dead.letter.topic": "b~secret"}
    with pytest.raises(KafkaException):
        admin.create_topics([NewTopic("leak", 1, 1, config=config)])["leak"].result(30)
    other = {"name": "a~leak", "num_partitions": 1, "config": {"queue.dead.letter.topic": "b~secret"}}
    assert secret.secure.admin.post("/topics", json=other).status_code == 400


def test_groups_of_another_tenant_are_not_there(secret: Tenants) -> None:
    consumer = Consumer(secret.kafka("bert", **{"group.id": "hers"}))
    consumer.commit(offsets=[TopicPartition("secret", 0, 0)], asynchronous=False)
    consumer.close()
    admin = AdminClient(secret.kafka("anna"))
    for name in ("hers", "b~hers"):
        with pytest.raises(KafkaException):
            admin.delete_consumer_groups([name])[name].result(30)
    bert = AdminClient(secret.kafka("bert"))
    assert "hers" in {one.group_id for one in bert.list_consumer_groups().result(30).valid}


PATHS = ["/topics/{}", "/topics/{}/messages", "/topics/{}/dlq", "/topics/{}/delayed", "/groups/{}", "/staged/{}"]


@pytest.mark.parametrize("name", [*CRAFTED, "%62~secret", "b%7Esecret%2F..", "a~../b~secret"])
def test_no_name_leads_out_of_the_tenant_over_http(secret: Tenants, name: str) -> None:
    hidden_id = str(uuid.UUID(bytes=secret_id(secret)))
    with secret.rest("anna") as anna:
        for path in PATHS:
            for given in {name, quote(name, safe="")}:
                try:
                    answer = anna.get(path.format(given))
                except httpx.InvalidURL:
                    continue
                assert not [one for one in (HIDDEN, hidden_id, '"secret"') if one in answer.text], answer.text
        body = {"messages": [{"value": "planted"}]}
        assert anna.post(f"/topics/{quote('b~secret', safe='')}/messages", json=body).status_code in (400, 404)
        receipt = {"receipt": f"{name}:0:0:1:x"}
        assert anna.post("/messages/ack", json=receipt).status_code in (400, 404, 409)
        made = anna.post("/topics", json={"name": name}).status_code
        if made == 201:
            assert anna.delete(f"/topics/{quote(name, safe='')}").status_code == 204
    held = secret.secure.admin.get("/topics/b~secret/messages").json()["messages"]
    assert [one["value"] for one in held] == [HIDDEN]


@pytest.mark.asyncio
async def test_no_name_leads_out_of_the_tenant_over_grpc(secret: Tenants) -> None:
    anna = basic("anna", PASSWORD)
    async with stubs(secret.secure.node.grpc) as goqueue:
        for name in [*CRAFTED, "%62~secret", "a~../b~secret"]:
            path = f"/topics/{quote(name, safe='')}/messages"
            message = pb.Message(value=b"planted")
            calls = [
                goqueue.topics.GetTopic(pb.GetTopicRequest(name=name), metadata=anna),
                goqueue.topics.DeleteTopic(pb.DeleteTopicRequest(name=name), metadata=anna),
                goqueue.subscriber.Read(pb.ReadRequest(topic=name), metadata=anna),
                goqueue.batches.FetchBatches(pb.FetchBatchesRequest(topic=name), metadata=anna),
                goqueue.groups.GetGroup(pb.GetGroupRequest(group=name), metadata=anna),
                goqueue.publisher.Publish(pb.PublishRequest(topic=name, messages=[message]), metadata=anna),
                goqueue.api.CallApi(pb.CallApiRequest(method="GET", path=path), metadata=anna),
                goqueue.api.CallApi(pb.CallApiRequest(method="GET", path=f"/topics/{name}/messages"), metadata=anna),
            ]
            for call in calls:
                told = await asyncio.gather(call, return_exceptions=True)
                assert HIDDEN not in str(told[0]), told
    held = secret.secure.admin.get("/topics/b~secret/messages").json()["messages"]
    assert [one["value"] for one in held] == [HIDDEN]


def test_no_queue_url_arn_or_handle_leads_out_of_the_tenant(secret: Tenants) -> None:
    sqs = secret.sqs("anna")
    for name in CRAFTED:
        with pytest.raises((ClientError, ParamValidationError)):
            sqs.receive_message(QueueUrl=f"{secret.secure.node.sqs}/000000000000/{name}")
    sqs.create_queue(QueueName="mine")
    url = sqs.get_queue_url(QueueName="mine")["QueueUrl"]
    arn = "arn:aws:sqs:us-east-1:000000000000:b~secret"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    for call in (
        lambda: sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy}),
        lambda: sqs.start_message_move_task(SourceArn=arn),
        lambda: sqs.delete_message(QueueUrl=url, ReceiptHandle="b~secret:0:0:1:x"),
    ):
        with pytest.raises(ClientError):
            call()


def test_a_user_of_a_tenant_that_is_not_there_is_not_made(secret: Tenants) -> None:
    asked = {"name": "nobody", "password": PASSWORD, "tenant": "zzz"}
    assert secret.secure.admin.post("/admin/users", json=asked).json()["code"] == "unknown-tenant"


def test_usage_is_told_and_a_tenant_goes_when_it_has_nothing(secret: Tenants) -> None:
    admin = secret.secure.admin
    found = admin.get("/admin/tenants/b").json()
    assert found["topics"] >= 1 and found["users"] == 1
    assert admin.delete("/admin/tenants/b").json()["code"] == "tenant-in-use"
    assert admin.post("/admin/tenants", json={"name": "c"}).status_code == 201
    assert admin.post("/admin/tenants", json={"name": "c"}).json()["code"] == "tenant-exists"
    assert admin.delete("/admin/tenants/c").status_code == 204
    assert admin.post("/admin/tenants", json={"name": "A~b"}).json()["code"] == "invalid-name"
