"""Limits of a tenant at every door: all its users share them, others do not notice, and each world says no in its own
words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.cli import app
from goqueue.wire import goqueue_pb2 as pb
from goqueue.wire.codes import MESSAGE_TOO_LARGE, POLICY_VIOLATION
from tests.door.grpc.stubs import Subscriber, refused, stubs
from tests.door.security.line import Line
from tests.door.security.secure import SecureNode
from tests.door.security.test_grpc_logins import basic
from tests.door.tenants.conftest import PASSWORD, Tenants
from tests.waiting import wait_until


@contextmanager
def limited(tenants: Tenants, **limits: float) -> Iterator[None]:
    """Of tenant `a`."""
    admin = tenants.secure.admin
    answer = admin.post("/admin/quotas", json={"tenant": "a", "limits": limits})
    assert (answer.status_code, answer.json()["tenant"]) == (200, "a"), answer.text
    try:
        yield
    finally:
        assert admin.delete("/admin/quotas", params={"tenant": "a"}).status_code == 204
        assert admin.get("/admin/quotas").json()["quotas"] == []


def topic(tenants: Tenants, who: str, name: str) -> None:
    with tenants.rest(who) as rest:
        assert rest.post("/topics", json={"name": name, "num_partitions": 1}).status_code == 201


@pytest.mark.asyncio
async def test_messages_a_second_are_shared_by_all_of_the_tenant(tenants: Tenants) -> None:
    tenants.secure.user("arno", PASSWORD, "a")
    sqs = tenants.sqs("arno")
    url = sqs.create_queue(QueueName="rated-queue")["QueueUrl"]
    for who in ("anna", "bert"):
        topic(tenants, who, "rated")
    many = {"messages": [{"value": "v"}] * 100}
    one = {"messages": [{"value": "v"}]}
    with limited(tenants, message_rate=20), tenants.rest("anna") as anna, tenants.rest("arno") as arno:
        assert anna.post("/topics/rated/messages", json=many).status_code == 200
        late = arno.post("/topics/rated/messages", json=one)
        assert (late.status_code, late.json()["code"]) == (429, "throttled")
        assert 1 <= int(late.headers["retry-after"]) <= 6
        with pytest.raises(ClientError) as throttled:
            sqs.send_message(QueueUrl=url, MessageBody="x")
        assert throttled.value.response["Error"]["Code"].endswith("RequestThrottled")
        async with stubs(tenants.secure.node.grpc) as goqueue:
            asked = pb.PublishRequest(topic="rated", messages=[pb.Message(value=b"v")])
            status = await refused(goqueue.publisher.Publish(asked, metadata=basic("arno", PASSWORD)))
            assert status[:2] == ("RESOURCE_EXHAUSTED", "throttled")
        with tenants.rest("bert") as bert:
            assert bert.post("/topics/rated/messages", json=many).status_code == 200
            assert bert.post("/topics/rated/messages", json=one).status_code == 200
        wait_until(lambda: anna.post("/topics/rated/messages", json=one).status_code == 200, 30)
    page = tenants.secure.admin.get("/metrics").text
    assert 'goqueue_throttled_total{door="rest",limit="message_rate"}' in page


def test_a_kafka_producer_of_the_tenant_is_slowed_to_its_rate(tenants: Tenants) -> None:
    topic(tenants, "anna", "slowed")
    told: list[int] = []
    producer = Producer(
        tenants.kafka("anna", **{"linger.ms": 5, "batch.num.messages": 10}), throttle_cb=lambda one: told.append(one)
    )
    with limited(tenants, message_rate=50):
        begin = time.monotonic()
        for _ in range(150):
            producer.produce("slowed", b"v")
        assert producer.flush(60) == 0
        took = time.monotonic() - begin
    assert took > 1.5, "150 messages at 50 a second, a quarter of a second and the last batch for free"


def test_topics_partitions_and_storage_have_an_end(tenants: Tenants) -> None:
    with tenants.rest("anna") as anna, tenants.rest("bert") as bert:
        topic(tenants, "anna", "kept")
        has = anna.get("/usage").json()
        with limited(tenants, topics=has["topics"] + 1, partitions=has["partitions"] + 2):
            topic(tenants, "anna", "last")
            over = anna.post("/topics", json={"name": "over", "num_partitions": 1})
            assert (over.status_code, over.json()["code"]) == (403, "quota-exceeded")
            assert anna.post("/admin/topics/last/partitions", json={"partitions": 3}).json()["code"] == "quota-exceeded"
            admin = AdminClient(tenants.kafka("anna"))
            with pytest.raises(KafkaException) as refusal:
                admin.create_topics([NewTopic("over", 1, 1)])["over"].result(30)
            error: KafkaError = refusal.value.args[0]
            assert error.code() == POLICY_VIOLATION
            assert bert.post("/topics", json={"name": "over"}).status_code == 201
            assert anna.delete("/topics/last").status_code == 204
            topic(tenants, "anna", "last")
        body = {"messages": [{"value": "v" * 1_000}]}
        with limited(tenants, storage_bytes=has["size_bytes"] + 3_000):
            codes = [anna.post("/topics/kept/messages", json=body).status_code for _ in range(6)]
            assert codes[0] == 200 and codes[-1] == 403
            bert.post("/topics", json={"name": "kept"})
            assert bert.post("/topics/kept/messages", json=body).status_code == 200
        assert anna.post("/topics/kept/messages", json=body).status_code == 200


@pytest.mark.asyncio
async def test_fifty_creates_at_once_stay_within_the_limit(tenants: Tenants) -> None:
    with tenants.rest("anna") as anna:
        has = anna.get("/usage").json()
        with limited(tenants, topics=has["topics"] + 5):
            url, auth = str(anna.base_url), ("anna", PASSWORD)
            async with httpx.AsyncClient(base_url=url, auth=auth, timeout=60) as many:
                asked = (many.post("/topics", json={"name": f"at-once-{n}", "num_partitions": 1}) for n in range(50))
                codes = [answer.status_code for answer in await asyncio.gather(*asked)]
            assert sorted(codes) == [201] * 5 + [403] * 45
            assert anna.get("/usage").json()["topics"] == has["topics"] + 5


def refused_sqs(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as refusal:
        call()
    return str(refusal.value.response["Error"]["Code"]).rpartition(".")[2]


def produced(tenants: Tenants, who: str, topic: str, value: bytes, delay: str = "") -> int | None:
    """Kafka's code, or None."""
    told: list[KafkaError | None] = []
    producer = Producer(tenants.kafka(who))
    headers: dict[str, str | bytes | None] = {"goqueue-delay": delay} if delay else {}
    producer.produce(topic, value, headers=headers, on_delivery=lambda error, _: told.append(error))
    assert producer.flush(30) == 0
    return None if told[0] is None else told[0].code()


async def published_by_grpc(tenants: Tenants, who: str, topic: str, message: pb.Message) -> tuple[str, str]:
    async with stubs(tenants.secure.node.grpc) as goqueue:
        asked = pb.PublishRequest(topic=topic, messages=[message])
        status = await refused(goqueue.publisher.Publish(asked, metadata=basic(who, PASSWORD)))
        return status[0], status[1]


@pytest.mark.asyncio
async def test_a_message_is_no_larger_than_the_tenant_may(tenants: Tenants) -> None:
    for who in ("anna", "bert"):
        topic(tenants, who, "sized")
    sqs = tenants.sqs("anna")
    url = sqs.create_queue(QueueName="sized-queue")["QueueUrl"]
    large, many = {"messages": [{"value": "v" * 3_000}]}, {"messages": [{"value": "v" * 100}] * 100}
    with limited(tenants, message_bytes=2_000), tenants.rest("anna") as anna, tenants.rest("bert") as bert:
        answer = anna.post("/topics/sized/messages", json=large)
        assert "message-too-large" in answer.text
        assert anna.post("/topics/sized/messages", json=many).status_code == 200, "each by itself is small"
        assert produced(tenants, "anna", "sized", b"v" * 3_000) == MESSAGE_TOO_LARGE
        assert produced(tenants, "anna", "sized", b"v" * 1_000) is None
        too_large = lambda: sqs.send_message(QueueUrl=url, MessageBody="v" * 3_000)  # noqa: E731
        assert refused_sqs(too_large) == "InvalidParameterValue"
        status = await published_by_grpc(tenants, "anna", "sized", pb.Message(value=b"v" * 3_000))
        assert status == ("INVALID_ARGUMENT", "message-too-large")
        assert bert.post("/topics/sized/messages", json=large).json()["results"][0].get("code") is None
        assert produced(tenants, "bert", "sized", b"v" * 3_000) is None


@pytest.mark.asyncio
async def test_delayed_messages_have_an_end(tenants: Tenants) -> None:
    for who in ("anna", "bert"):
        topic(tenants, who, "later")
    sqs = tenants.sqs("anna")
    url = sqs.create_queue(QueueName="later-queue")["QueueUrl"]
    later = {"messages": [{"value": "v", "delay": "1h"}]}
    with limited(tenants, delayed=2), tenants.rest("anna") as anna, tenants.rest("bert") as bert:
        told = [anna.post("/topics/later/messages", json=later) for _ in range(3)]
        assert "quota-exceeded" not in told[1].text and "quota-exceeded" in told[2].text
        assert produced(tenants, "anna", "later", b"v", "1h") == POLICY_VIOLATION
        assert produced(tenants, "anna", "later", b"v") is None
        delayed = lambda: sqs.send_message(QueueUrl=url, MessageBody="v", DelaySeconds=900)  # noqa: E731
        assert refused_sqs(delayed) == "OverLimit"
        waiting = pb.Message(value=b"v", options=pb.MessageOptions(delay_ms=3_600_000))
        assert await published_by_grpc(tenants, "anna", "later", waiting) == ("RESOURCE_EXHAUSTED", "quota-exceeded")
        assert "quota-exceeded" not in "".join(bert.post("/topics/later/messages", json=later).text for _ in range(3))
        first = anna.get("/topics/later/delayed").json()["delayed"][0]
        assert anna.delete(f"/topics/later/delayed/{first['partition']}/{first['scheduled']}").status_code == 204
        assert "quota-exceeded" not in anna.post("/topics/later/messages", json=later).text


def test_messages_in_flight_have_an_end(tenants: Tenants) -> None:
    topic(tenants, "anna", "flown")
    sqs = tenants.sqs("anna")
    url = sqs.create_queue(QueueName="flown-queue")["QueueUrl"]
    for number in range(6):
        sqs.send_message(QueueUrl=url, MessageBody=str(number))
    with limited(tenants, in_flight=4), tenants.rest("anna") as anna:
        taken: list[dict[str, str]] = []
        while len(taken) < 4:
            taken += sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)["Messages"]
        assert len(taken) == 4, "no more are handed out than may be"
        assert refused_sqs(lambda: sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)) == "OverLimit"
        joined = anna.post("/groups/flying/join", json={"topics": ["flown"], "mode": "shared", "client_id": "c"}).json()
        asked = {"member_id": joined["member_id"], "generation": joined["generation"], "timeout": "0s"}
        full = anna.get("/groups/flying/poll", params=asked)
        assert (full.status_code, full.json()["code"]) == (403, "quota-exceeded")
        sqs.delete_message(QueueUrl=url, ReceiptHandle=taken[0]["ReceiptHandle"])
        again = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)["Messages"]
        assert len(again) == 1
        for one in (*taken[1:], *again):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
        with tenants.rest("bert") as bert:
            topic(tenants, "bert", "flown")
            joined = bert.post(
                "/groups/flying/join", json={"topics": ["flown"], "mode": "shared", "client_id": "c"}
            ).json()
            asked = {"member_id": joined["member_id"], "generation": joined["generation"], "timeout": "0s"}
            assert bert.get("/groups/flying/poll", params=asked).status_code == 200


@pytest.mark.asyncio
async def test_a_stream_waits_while_as_much_is_in_flight_as_may_be(tenants: Tenants) -> None:
    topic(tenants, "anna", "streamed")
    with tenants.rest("anna") as anna:
        sent = {"messages": [{"value": str(number)} for number in range(5)]}
        assert anna.post("/topics/streamed/messages", json=sent).status_code == 200
    flying = tenants.sqs("anna")
    url = flying.create_queue(QueueName="streamed-queue")["QueueUrl"]
    with limited(tenants, in_flight=2):
        async with stubs(tenants.secure.node.grpc) as goqueue:
            call = goqueue.subscriber.Subscribe(metadata=basic("anna", PASSWORD))
            wanted = pb.Subscription(group="streaming", topics=["streamed"], credit=100)
            await call.write(pb.SubscribeRequest(subscription=wanted))
            stream = Subscriber(call)
            first = await stream.take(2)
            assert len(first) == 2
            assert refused_sqs(lambda: flying.receive_message(QueueUrl=url)) == "OverLimit"
            await stream.ack(first)
            assert len(await stream.take(2)) == 2, "the stream has gone on"
            call.cancel()


def test_groups_have_an_end(tenants: Tenants) -> None:
    for who in ("anna", "bert"):
        topic(tenants, who, "grouped")
    joining = {"topics": ["grouped"], "mode": "shared", "client_id": "c"}
    with tenants.rest("anna") as anna, tenants.rest("bert") as bert:
        held = anna.get("/usage").json()["groups"]
        with limited(tenants, groups=held + 1):
            assert anna.post("/groups/last/join", json=joining).status_code == 200
            over = anna.post("/groups/over/join", json=joining)
            assert (over.status_code, over.json()["code"]) == (403, "quota-exceeded")
            assert anna.post("/groups/last/join", json=joining).status_code == 200, "who is there may go on"
            placed = [TopicPartition("grouped", 0, 1)]
            admin = AdminClient(tenants.kafka("anna"))
            altered = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions("over", placed)])
            with pytest.raises(KafkaException) as refusal:
                partition = altered["over"].result(30).topic_partitions[0]
                raise KafkaException(partition.error)
            assert refusal.value.args[0].code() == POLICY_VIOLATION
            assert bert.post("/groups/over/join", json=joining).status_code == 200


@pytest.mark.asyncio
async def test_connections_have_an_end(tenants: Tenants) -> None:
    sqs = tenants.sqs("anna")
    sqs.list_queues()
    kafka = tenants.secure.node.kafka
    with tenants.rest("anna") as anna, tenants.rest("bert") as bert, limited(tenants, connections=1):
        with Line(kafka) as line, Line(kafka) as late, Line(kafka) as other:
            assert line.plain("anna", PASSWORD).error_code == 0
            full = anna.get("/topics")
            assert (full.status_code, full.json()["code"], full.headers["retry-after"]) == (429, "throttled", "1")
            assert refused_sqs(sqs.list_queues) == "RequestThrottled"
            async with stubs(tenants.secure.node.grpc) as goqueue:
                asked = goqueue.topics.ListTopics(pb.ListTopicsRequest(), metadata=basic("anna", PASSWORD))
                assert (await refused(asked))[:2] == ("RESOURCE_EXHAUSTED", "throttled")
            with pytest.raises(EOFError):
                late.plain("anna", PASSWORD)
            assert line.metadata().brokers, "who is in stays in"
            assert bert.get("/topics").status_code == 200
            assert other.plain("bert", PASSWORD).error_code == 0
        wait_until(lambda: anna.get("/topics").status_code == 200, "the connection is over")
    page = tenants.secure.admin.get("/metrics").text
    assert 'goqueue_throttled_total{door="kafka",limit="connections"}' in page


def test_the_limits_of_a_tenant_go_with_it(tenants: Tenants) -> None:
    admin = tenants.secure.admin
    for _ in range(2):
        assert admin.post("/admin/tenants", json={"name": "brief"}).json()["limits"] == {}
        assert admin.post("/admin/quotas", json={"tenant": "brief", "limits": {"groups": 5}}).status_code == 200
        assert admin.delete("/admin/tenants/brief").status_code == 204
        assert admin.get("/admin/quotas").json()["quotas"] == []


def test_limits_are_shown_and_outlive_the_node(tenants: Tenants) -> None:
    """The last of these: the node has another address then."""
    node, wanted = tenants.secure.node, {"groups": 5, "topics": 9, "connections": 100}
    for tenant, limits in (("", {"groups": 7, "topics": 9}), ("a", {"groups": 5, "connections": 100})):
        asked = {"tenant": tenant, "limits": limits}
        assert tenants.secure.admin.post("/admin/quotas", json=asked).status_code == 200
    assert tenants.secure.admin.get("/admin/tenants/a").json()["limits"] == wanted
    node.kill()
    node.start()
    with SecureNode(node) as again, tenants.rest("anna") as anna, tenants.rest("bert") as bert:
        assert again.admin.get("/admin/tenants/a").json()["limits"] == wanted
        assert anna.get("/usage").json()["limits"] == wanted
        assert bert.get("/usage").json()["limits"] == {"groups": 7, "topics": 9}
    known = {"GOQUEUE_SERVER": node.url, "GOQUEUE_KEY": f"anna:{PASSWORD}"}
    shown = CliRunner().invoke(app, ["tenant", "usage"], env=known)
    assert "limit of connections  100" in shown.output, shown.output
