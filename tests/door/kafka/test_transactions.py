"""Transactional producers of the stock C client and of the asyncio client; what administrators see of them."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as At
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.node_process import NodeProcess
from goqueue.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from goqueue.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from goqueue.wire.messages.describe_transactions import DescribeTransactionsRequest
from goqueue.wire.messages.end_txn import EndTxnRequest
from goqueue.wire.messages.init_producer_id import InitProducerIdRequest
from goqueue.wire.messages.list_transactions import ListTransactionsRequest
from goqueue.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.door.kafka.raw import Line, unique
from tests.kafka_messages import place_of, value_of

pytestmark = pytest.mark.usefixtures("watched")

WAIT_S = 30
FENCED, OLD_FENCED, UNSTABLE, NO_MAPPING = 90, 47, 88, 49


def producer(kafka: str, name: str, timeout_ms: int = 60_000) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": kafka,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 1,
            "log_level": 0,
        }
    )
    made.init_transactions(WAIT_S)
    return made


Read = Callable[..., list[str]]


@pytest.fixture
def read(kafka: str, topic: str) -> Iterator[Read]:
    """Everything that a reader gets from the topic's first partition within a moment."""
    made: list[Consumer] = []

    def look(count: int, isolation: str = "read_committed", seconds: float = 10) -> list[str]:
        consumer = Consumer(
            {"bootstrap.servers": kafka, "group.id": unique("g"), "isolation.level": isolation, "log_level": 0}
        )
        made.append(consumer)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[str] = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and len(found) < max(1, count):
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append((message.value() or b"").decode())
        return found

    yield look
    for one in made:
        one.close()


def test_committed_messages_are_read_and_aborted_ones_never(kafka: str, topic: str, read: Read) -> None:
    sending = producer(kafka, unique("x"))
    for name, ends in (("a", "commit"), ("b", "abort"), ("c", "commit")):
        sending.begin_transaction()
        for number in range(3):
            sending.produce(topic, f"{name}{number}", partition=0)
        sending.flush(WAIT_S)
        (sending.commit_transaction if ends == "commit" else sending.abort_transaction)(WAIT_S)
    assert read(6) == ["a0", "a1", "a2", "c0", "c1", "c2"]
    assert len(read(9, "read_uncommitted")) == 9


def test_an_open_transaction_holds_readers_back_up_to_its_time(kafka: str, topic: str, read: Read) -> None:
    sending = producer(kafka, unique("x"), 1_500)
    sending.begin_transaction()
    sending.produce(topic, "late", partition=0)
    assert sending.flush(WAIT_S) == 0
    plain = Producer({"bootstrap.servers": kafka})
    plain.produce(topic, "plain", partition=0)
    plain.flush(WAIT_S)
    assert read(1, seconds=0.5) == []
    assert read(1, seconds=5) == ["plain"], "the time is up"
    with pytest.raises(KafkaException) as failed:
        sending.commit_transaction(WAIT_S)
    assert failed.value.args[0].fatal() or failed.value.args[0].txn_requires_abort()


def test_a_zombie_is_fenced(kafka: str, topic: str, read: Read) -> None:
    name = unique("x")
    zombie = producer(kafka, name)
    zombie.begin_transaction()
    zombie.produce(topic, "zombie", partition=0)
    zombie.flush(WAIT_S)
    heir = producer(kafka, name)
    with pytest.raises(KafkaException) as failed:
        zombie.commit_transaction(WAIT_S)
    assert failed.value.args[0].fatal()
    heir.begin_transaction()
    heir.produce(topic, "heir", partition=0)
    heir.commit_transaction(WAIT_S)
    assert read(1) == ["heir"]


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_go_with_the_transaction(kafka: str, topic: str, group: str, commit: bool) -> None:
    source = unique("in")
    feeding = Producer({"bootstrap.servers": kafka})
    AdminClient({"bootstrap.servers": kafka}).list_topics(source, timeout=WAIT_S)
    for number in range(5):
        feeding.produce(source, f"{number}", partition=0)
    feeding.flush(WAIT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([source])
    messages: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(messages) < 5 and time.monotonic() < deadline:
        messages += consumer.consume(5 - len(messages), 1)
    sending = producer(kafka, unique("x"))
    sending.begin_transaction()
    for message in messages:
        sending.produce(topic, message.value().upper(), partition=0)
    at = consumer.position(consumer.assignment())
    sending.send_offsets_to_transaction(at, consumer.consumer_group_metadata(), WAIT_S)
    with Line(kafka) as line:
        asked = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(source, partition_indexes=[0])]
        )
        told = line.ask(OffsetFetchRequest(groups=[asked], require_stable=True), 8).groups[0].topics[0].partitions[0]
        assert (told.error_code, told.committed_offset) == (UNSTABLE, -1)
        told = line.ask(OffsetFetchRequest(groups=[asked]), 8).groups[0].topics[0].partitions[0]
        assert (told.error_code, told.committed_offset) == (0, -1)
    (sending.commit_transaction if commit else sending.abort_transaction)(WAIT_S)
    (committed,) = consumer.committed([TopicPartition(source, 0)], WAIT_S)
    assert committed.offset == (5 if commit else -1001)
    consumer.close()


def test_the_end_for_readers_of_committed_data_is_the_last_stable_offset(kafka: str, topic: str) -> None:
    sending = producer(kafka, unique("x"))
    sending.begin_transaction()
    sending.produce(topic, "open", partition=0)
    sending.flush(WAIT_S)
    admin = AdminClient({"bootstrap.servers": kafka})
    at = TopicPartition(topic, 0)
    ends = {}
    for level in (0, 1):
        asked = {at: OffsetSpec.latest()}
        found = admin.list_offsets(asked, isolation_level=IsolationLevel(level), request_timeout=WAIT_S)
        ends[level] = found[at].result(WAIT_S).offset
    assert ends == {0: 1, 1: 0}
    sending.abort_transaction(WAIT_S)


def test_administrators_see_transactions(kafka: str, topic: str) -> None:
    name = unique("x")
    sending = producer(kafka, name)
    sending.begin_transaction()
    sending.produce(topic, "open", partition=1)
    sending.flush(WAIT_S)
    with Line(kafka) as line:
        (listed,) = line.ask(ListTransactionsRequest(transactional_id_pattern=f"{name}.*"), 2).transaction_states
        assert listed.transaction_state == "Ongoing"
        (told, unknown) = line.ask(DescribeTransactionsRequest([name, "nobody"])).transaction_states
        assert (told.error_code, told.transaction_state, told.producer_id) == (0, "Ongoing", listed.producer_id)
        assert [(one.topic, list(one.partitions)) for one in told.topics] == [(topic, [1])]
        assert unknown.error_code == 105
        (part,) = line.ask(DescribeProducersRequest([TopicRequest(topic, [1])])).topics[0].partitions
        assert [one.current_txn_start_offset for one in part.active_producers] == [0]
        told = line.ask(ListTransactionsRequest(state_filters=["Nonsense"]), 0)
        assert list(told.unknown_state_filters) == ["Nonsense"]
    sending.abort_transaction(WAIT_S)
    with Line(kafka) as line:
        (part,) = line.ask(DescribeProducersRequest([TopicRequest(topic, [1])])).topics[0].partitions
        assert [one.current_txn_start_offset for one in part.active_producers] == [-1]


def test_each_version_is_answered_with_a_word_that_it_knows(kafka: str, topic: str) -> None:
    name = unique("x")
    with Line(kafka) as line:
        old = line.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 2)
        new = line.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 2)
        assert (old.error_code, new.producer_id, new.producer_epoch) == (0, old.producer_id, old.producer_epoch + 1)
        zombie = {"producer_id": old.producer_id, "producer_epoch": old.producer_epoch}
        ends = EndTxnRequest(transactional_id=name, committed=True, **zombie)
        assert [line.ask(ends, version).error_code for version in (0, 1, 2, 3)] == [47, 47, 90, 90]
        adds = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=old.producer_id,
            v3_and_below_producer_epoch=old.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0])],
        )
        for version, code in ((0, OLD_FENCED), (1, OLD_FENCED), (2, FENCED), (3, FENCED)):
            told = line.ask(adds, version).results_by_topic_v3_and_below[0].results_by_partition[0]
            assert told.partition_error_code == code
        for version, code in ((3, OLD_FENCED), (4, FENCED)):
            again = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, **zombie)
            assert line.ask(again, version).error_code == code
        nobody = EndTxnRequest(transactional_id="nobody", producer_id=1, producer_epoch=0)
        assert line.ask(nobody, 3).error_code == NO_MAPPING


@pytest.mark.asyncio
async def test_the_asyncio_client_commits_aborts_and_is_fenced(kafka: str, topic: str, read: Read) -> None:
    name = unique("x")
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # it leaves futures behind
    sending = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=name)
    await sending.start()
    async with sending.transaction():
        await sending.send_and_wait(topic, b"one", partition=0)
    await sending.begin_transaction()
    await sending.send_and_wait(topic, b"aborted", partition=0)
    await sending.abort_transaction()
    heir = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=name)
    await heir.start()
    with pytest.raises(ProducerFenced):
        async with sending.transaction():
            await sending.send_and_wait(topic, b"zombie", partition=0)
    async with heir.transaction():
        await heir.send_and_wait(topic, b"two", partition=0)
    await heir.stop()
    await sending.stop()
    del sending
    gc.collect()
    assert read(2) == ["one", "two"]


@pytest.mark.asyncio
async def test_the_asyncio_client_moves_a_group_in_a_transaction(kafka: str, topic: str, group: str) -> None:
    plain = AIOKafkaProducer(bootstrap_servers=kafka)
    await plain.start()
    for number in range(4):
        await plain.send_and_wait(topic, f"{number}".encode(), partition=2)
    await plain.stop()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka, group_id=group, enable_auto_commit=False, isolation_level="read_committed"
    )
    await consumer.start()
    consumer.assign([At(topic, 2)])
    sending = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=unique("x"))
    await sending.start()
    for ends in ("abort", "commit"):
        await sending.begin_transaction()
        await sending.send_and_wait(topic, b"out", partition=1)
        await sending.send_offsets_to_transaction({At(topic, 2): 4}, group)
        await (sending.abort_transaction() if ends == "abort" else sending.commit_transaction())
        assert await consumer.committed(At(topic, 2)) == (None if ends == "abort" else 4)
    consumer.assign([At(topic, 1)])
    consumer.seek(At(topic, 1), 0)
    message = await consumer.getone()
    assert (message.value, message.offset) == (b"out", 2), "behind the aborted one and its marker"
    await sending.stop()
    await consumer.stop()


def test_a_decided_transaction_survives_kill_9(node: NodeProcess) -> None:
    name = "killed"
    sending = producer(node.kafka, name)
    for number in range(3):
        sending.begin_transaction()
        for partition in range(3):
            sending.produce("t", f"{number}", partition=partition)
        if number < 2:
            sending.commit_transaction(WAIT_S)
    sending.flush(WAIT_S)
    node.kill()
    node.start()
    heir = producer(node.kafka, name)
    heir.begin_transaction()
    for partition in range(3):
        heir.produce("t", "heir", partition=partition)
    heir.commit_transaction(WAIT_S)
    consumer = Consumer(
        {"bootstrap.servers": node.kafka, "group.id": "g", "isolation.level": "read_committed", "log_level": 0}
    )
    consumer.assign([TopicPartition("t", partition, 0) for partition in range(3)])
    found: list[tuple[int, str]] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < 9 and time.monotonic() < deadline:
        found += [(place_of(message)[0], value_of(message).decode()) for message in consumer.consume(9, 0.5)]
    consumer.close()
    assert sorted(found) == [(partition, value) for partition in range(3) for value in ("0", "1", "heir")]
