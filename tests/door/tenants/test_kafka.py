"""Two tenants with the same names at Kafka's door: each sees its own, and neither sees that there is another."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.door.tenants.conftest import Tenants
from tests.waiting import wait_until

BOTH = ("anna", "bert")


def send(tenants: Tenants, who: str, topic: str, value: str) -> KafkaError | None:
    producer = Producer(tenants.kafka(who))
    told: list[KafkaError | None] = []
    producer.produce(topic, value.encode(), on_delivery=lambda error, _: told.append(error))
    producer.flush(30)
    return told[0]


def make(tenants: Tenants, topic: str, **config: str) -> None:
    for who in BOTH:
        admin = AdminClient(tenants.kafka(who))
        admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result(30)


def read(consumer: Consumer, count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def enough() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append((str(message.topic()), (message.value() or b"").decode()))
        return len(found) >= count

    wait_until(enough, 60)
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_the_same_name_read_topics_of_the_same_name_apart(tenants: Tenants, protocol: str) -> None:
    topic, group = f"orders-{protocol}", f"billing-{protocol}"
    make(tenants, topic)
    for who in BOTH:
        assert send(tenants, who, topic, f"of {who}") is None
    consumers = {}
    for who in BOTH:
        more = {"group.id": group, "auto.offset.reset": "earliest", "group.protocol": protocol}
        consumers[who] = Consumer(tenants.kafka(who, **more))
        consumers[who].subscribe([topic])
    for who, consumer in consumers.items():
        assert read(consumer, 1) == [(topic, f"of {who}")]
        consumer.commit(asynchronous=False)
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_matches_the_tenants_own_topics_alone(tenants: Tenants, protocol: str) -> None:
    topic = f"pattern-{protocol}"
    make(tenants, topic)
    for who in BOTH:
        assert send(tenants, who, topic, f"of {who}") is None
    more = {"group.id": "p", "auto.offset.reset": "earliest", "group.protocol": protocol}
    more["topic.metadata.refresh.interval.ms"] = "1000"
    consumer = Consumer(tenants.kafka("anna", **more))
    consumer.subscribe([f"^.*pattern-{protocol}"])
    assert read(consumer, 1) == [(topic, "of anna")]
    assert {one.topic for one in consumer.assignment()} == {topic}
    consumer.close()


def test_lists_have_the_tenants_own_names_and_an_operator_sees_all_of_them(tenants: Tenants) -> None:
    make(tenants, "listed")
    for who in BOTH:
        consumer = Consumer(tenants.kafka(who, **{"group.id": "listed-group"}))
        consumer.commit(offsets=[TopicPartition("listed", 0, 0)], asynchronous=False)
        consumer.close()
    for who in BOTH:
        admin = AdminClient(tenants.kafka(who))
        topics, groups = set(admin.list_topics(timeout=30).topics), admin.list_consumer_groups().result(30).valid
        assert "listed" in topics and "listed-group" in {one.group_id for one in groups}
        seen = [*topics, *(one.group_id for one in groups)]
        assert not [name for name in seen if "~" in name or name.startswith("__")]
        described = admin.describe_consumer_groups(["listed-group"])["listed-group"].result(30)
        assert (described.group_id, described.state) == ("listed-group", ConsumerGroupState.EMPTY)
        offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("listed-group")])
        assert [one.topic for one in offsets["listed-group"].result(30).topic_partitions] == ["listed"]
    operator = AdminClient(tenants.kafka("admin"))
    assert {"a~listed", "b~listed"} <= set(operator.list_topics(timeout=30).topics)
    groups = {one.group_id for one in operator.list_consumer_groups().result(30).valid}
    assert {"a~listed-group", "b~listed-group"} <= groups


def test_what_one_tenant_changes_and_deletes_is_its_own(tenants: Tenants) -> None:
    make(tenants, "mine")
    anna, bert = (AdminClient(tenants.kafka(who)) for who in BOTH)
    anna.create_partitions([NewPartitions("mine", 3)])["mine"].result(30)
    entry = ConfigEntry("retention.ms", "7000000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "mine", incremental_configs=[entry])
    anna.incremental_alter_configs([resource])[resource].result(30)
    assert len(anna.list_topics("mine", timeout=30).topics["mine"].partitions) == 3
    assert len(bert.list_topics("mine", timeout=30).topics["mine"].partitions) == 1
    for admin, retention in ((anna, "7000000"), (bert, "604800000")):
        asked = ConfigResource(ResourceType.TOPIC, "mine")
        assert admin.describe_configs([asked])[asked].result(30)["retention.ms"].value == retention
    anna.delete_topics(["mine"])["mine"].result(30)
    assert "mine" not in anna.list_topics(timeout=30).topics
    assert "mine" in bert.list_topics(timeout=30).topics


def test_a_setting_that_names_a_topic_names_one_of_the_tenant(tenants: Tenants) -> None:
    make(tenants, "queue", **{"queue.dead.letter.topic": "graves"})
    asked = ConfigResource(ResourceType.TOPIC, "queue")
    anna = AdminClient(tenants.kafka("anna"))
    found = anna.describe_configs([asked])[asked].result(30)
    assert found["queue.dead.letter.topic"].value == "graves"
    asked = ConfigResource(ResourceType.TOPIC, "b~queue")
    admin = AdminClient(tenants.kafka("admin"))
    found = admin.describe_configs([asked])[asked].result(30)
    assert found["queue.dead.letter.topic"].value == "b~graves"


def test_transactions_of_the_same_id_do_not_fence_each_other(tenants: Tenants) -> None:
    make(tenants, "ledger")
    producers = {who: Producer(tenants.kafka(who, **{"transactional.id": "posting"})) for who in BOTH}
    for producer in producers.values():
        producer.init_transactions(30)
        producer.begin_transaction()
    for who, producer in producers.items():
        producer.produce("ledger", f"of {who}".encode())
        producer.commit_transaction(30)
    for who in BOTH:
        listed = Consumer(tenants.kafka(who, **{"group.id": "l", "auto.offset.reset": "earliest"}))
        listed.subscribe(["ledger"])
        assert read(listed, 1) == [("ledger", f"of {who}")]
        listed.close()


@pytest.mark.asyncio
async def test_aiokafka_reads_in_a_group_and_by_a_transaction(tenants: Tenants) -> None:
    make(tenants, "aio")
    for who in BOTH:
        made = AIOKafkaProducer(**tenants.aiokafka(who, transactional_id="aio"))
        async with made as producer, producer.transaction():
            await producer.send_and_wait("aio", f"of {who}".encode())
    for who in BOTH:
        more: dict[str, Any] = {"group_id": "aio", "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("aio", **tenants.aiokafka(who, **more)) as consumer:
            message = await consumer.getone()
            assert (message.topic, message.value) == ("aio", f"of {who}".encode())
            await consumer.commit()
            assert await consumer.committed(next(iter(consumer.assignment()))) == 1


def test_the_cluster_belongs_to_no_tenant(tenants: Tenants) -> None:
    admin = AdminClient(tenants.kafka("anna"))
    entry = ConfigEntry("log.retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    node = str(next(iter(admin.list_topics(timeout=30).brokers)))
    broker = ConfigResource(ResourceType.BROKER, node, incremental_configs=[entry])
    with pytest.raises(KafkaException):
        admin.incremental_alter_configs([broker])[broker].result(30)
