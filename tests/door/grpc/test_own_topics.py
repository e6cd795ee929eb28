"""The broker's own topics can be changed by nobody, through no method."""

from __future__ import annotations

import time

import pytest

from goqueue.drive.own_topics import OWN_TOPICS
from goqueue.format.records import NewRecord, build
from goqueue.wire import goqueue_pb2 as pb
from tests.door.grpc.stubs import Stubs, messages, refused

OWN = sorted(OWN_TOPICS)


@pytest.mark.parametrize("topic", OWN)
@pytest.mark.asyncio
async def test_the_brokers_own_topics_are_not_written_to(goqueue: Stubs, topic: str) -> None:
    batch = build([NewRecord(None, b"intruder", (), time.time_ns() // 1_000_000)])
    producer = await goqueue.transactions.InitProducer(pb.InitProducerRequest())
    await goqueue.transactions.BeginTransaction(pb.BeginTransactionRequest(producer=producer))
    inside = pb.PublishInTransactionRequest(producer=producer, topic=topic, messages=messages("intruder"))
    wrong = [
        goqueue.publisher.Publish(pb.PublishRequest(topic=topic, messages=messages("intruder"))),
        goqueue.batches.PublishBatch(pb.PublishBatchRequest(topic=topic, batch=batch)),
        goqueue.transactions.PublishInTransaction(inside),
        goqueue.topics.DeleteTopic(pb.DeleteTopicRequest(name=topic)),
        goqueue.topics.UpdateTopic(pb.UpdateTopicRequest(name=topic, num_partitions=9)),
        goqueue.topics.UpdateTopic(pb.UpdateTopicRequest(name=topic, config={"cleanup.policy": "delete"})),
        goqueue.topics.CreateTopic(pb.CreateTopicRequest(name=topic)),
        goqueue.letters.StartRedrive(pb.StartRedriveRequest(topic=topic, to=topic)),
    ]
    for call in wrong:
        status = (await refused(call))[0]
        assert status in ("PERMISSION_DENIED", "NOT_FOUND", "ALREADY_EXISTS", "INVALID_ARGUMENT"), status
    await goqueue.transactions.AbortTransaction(pb.AbortTransactionRequest(producer=producer))
