"""Administration with the stock C client."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
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
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.door.kafka.raw import unique

WAIT_S = 30


@pytest.fixture
def admin(kafka: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka})


def only(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(WAIT_S)


def code_of(ask: Callable[[], Any]) -> int:
    with pytest.raises(KafkaException) as caught:
        ask()
    return int(caught.value.args[0].code())


def fill(kafka: str, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=1_000_000 + number)
    assert producer.flush(WAIT_S) == 0


def test_a_topics_life(admin: AdminClient) -> None:
    name = unique("life")
    made = NewTopic(name, 2, 1, config={"retention.ms": "3600000"})
    only(admin.create_topics([made]))
    assert code_of(lambda: only(admin.create_topics([made]))) == KafkaError.TOPIC_ALREADY_EXISTS
    assert len(admin.list_topics(name, WAIT_S).topics[name].partitions) == 2
    only(admin.create_partitions([NewPartitions(name, 5)]))
    assert len(admin.list_topics(name, WAIT_S).topics[name].partitions) == 5
    assert code_of(lambda: only(admin.create_partitions([NewPartitions(name, 3)]))) == KafkaError.INVALID_PARTITIONS
    only(admin.delete_topics([name]))
    assert name not in admin.list_topics(timeout=WAIT_S).topics
    assert code_of(lambda: only(admin.delete_topics([name]))) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_only_checking_a_topic_makes_none(admin: AdminClient) -> None:
    name = unique("dry")
    only(admin.create_topics([NewTopic(name, 1, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=WAIT_S).topics


def test_only_checking_more_partitions_adds_none_and_refuses_what_could_not_be(admin: AdminClient, topic: str) -> None:
    def checked(count: int) -> None:
        only(admin.create_partitions([NewPartitions(topic, count)], validate_only=True))

    checked(7)
    assert len(admin.list_topics(topic, WAIT_S).topics[topic].partitions) == 3
    assert code_of(lambda: checked(3)) == code_of(lambda: checked(20_000)) == KafkaError.INVALID_PARTITIONS


def test_settings_are_described_and_changed(admin: AdminClient, topic: str) -> None:
    def described() -> dict[str, tuple[str, bool]]:
        found = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value  # this node's defaults are not all the built-in ones
        return {name: (entry.value, entry.source != own) for name, entry in found.items()}

    def alter(wanted: ConfigResource) -> None:
        with pytest.warns(DeprecationWarning):
            futures = admin.alter_configs([wanted])
        only(futures)

    assert described()["retention.ms"][1]
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "1000", "segment.bytes": "65536"})
    alter(resource)
    assert described()["retention.ms"] == ("1000", False) and described()["segment.bytes"] == ("65536", False)
    alter(ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "65536"}))
    assert described()["retention.ms"][1], "the old form takes back what it does not name"

    def change(name: str, value: str | None, kind: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, value, incremental_operation=kind)
        only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))

    change("retention.ms", "2000", AlterConfigOpType.SET)
    change("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    assert described()["retention.ms"] == ("2000", False) and described()["segment.bytes"] == ("65536", False)
    assert set(described()["cleanup.policy"][0].split(",")) == {"delete", "compact"}
    change("cleanup.policy", "compact", AlterConfigOpType.SUBTRACT)
    change("retention.ms", None, AlterConfigOpType.DELETE)
    assert described()["cleanup.policy"][0] == "delete" and described()["retention.ms"][1]
    bad = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "soon"})
    assert code_of(lambda: alter(bad)) == KafkaError.INVALID_CONFIG
    node = only(admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]))
    assert node["log.fsync"].value == "interval" and node["log.fsync"].is_read_only


def test_offsets_are_listed_and_records_deleted(kafka: str, admin: AdminClient, topic: str) -> None:
    fill(kafka, topic, 10)
    at = TopicPartition(topic, 0)

    def listed(spec: OffsetSpec) -> int:
        return int(only(admin.list_offsets({at: spec}, isolation_level=IsolationLevel.READ_COMMITTED)).offset)

    assert listed(OffsetSpec.earliest()) == 0 and listed(OffsetSpec.latest()) == 10
    assert listed(OffsetSpec.max_timestamp()) == 9 and listed(OffsetSpec.for_timestamp(1_000_004)) == 4
    assert only(admin.delete_records([TopicPartition(topic, 0, 6)])).low_watermark == 6
    assert listed(OffsetSpec.earliest()) == 6 and listed(OffsetSpec.latest()) == 10
    assert code_of(lambda: only(admin.delete_records([TopicPartition(topic, 0, 60)]))) == KafkaError.OFFSET_OUT_OF_RANGE


def test_the_cluster_and_topics_are_described(kafka: str, admin: AdminClient, topic: str) -> None:
    cluster = admin.describe_cluster().result(WAIT_S)
    assert [f"{one.host}:{one.port}" for one in cluster.nodes] == [kafka]
    assert cluster.controller.id == 0 and cluster.cluster_id
    listed = admin.list_topics(timeout=WAIT_S)
    assert topic in listed.topics and "__consumer_offsets" in listed.topics


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_groups_life(kafka: str, admin: AdminClient, topic: str, group: str, protocol: str) -> None:
    fill(kafka, topic, 10)
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + WAIT_S
    while (message := consumer.poll(1)) is None and time.monotonic() < deadline:
        pass
    assert message is not None and message.error() is None
    consumer.commit(message=message, asynchronous=False)
    found = only(admin.describe_consumer_groups([group]))
    (member,) = found.members
    assert found.state == ConsumerGroupState.STABLE
    assert found.type == (ConsumerGroupType.CLASSIC if protocol == "classic" else ConsumerGroupType.CONSUMER)
    assert sorted(one.partition for one in member.assignment.topic_partitions) == [0, 1, 2]
    assert member.host == "/" + kafka.rpartition(":")[0]
    listing = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(WAIT_S)
    assert group in [one.group_id for one in listing.valid] and not listing.errors
    assert code_of(lambda: only(admin.delete_consumer_groups([group]))) == KafkaError.NON_EMPTY_GROUP
    consumer.close()
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])]
    (stored,) = only(admin.list_consumer_group_offsets(asked)).topic_partitions
    assert stored.offset in (1, 10)  # closing commits what was handed out
    moved = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 5)])]
    only(admin.alter_consumer_group_offsets(moved))
    (stored,) = only(admin.list_consumer_group_offsets(asked)).topic_partitions
    assert stored.offset == 5
    only(admin.delete_consumer_groups([group]))
    assert code_of(lambda: only(admin.delete_consumer_groups([group]))) == KafkaError.GROUP_ID_NOT_FOUND
