"""Record batches as bytes, in and out."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from goqueue.format.batch import split
from goqueue.format.records import NewRecord, build, decode
from goqueue.wire import goqueue_pb2 as pb
from tests.door.grpc.stubs import Stubs, messages, refused

pytestmark = pytest.mark.timeout(120)


def batch(*values: str) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return build([NewRecord(None, value.encode(), (), now_ms) for value in values])


def values_of(data: bytes) -> list[str]:
    return [(record.value or b"").decode() for one in split(data) for record in decode(one)]


@pytest.mark.asyncio
async def test_batches_go_in_and_out_as_they_are_and_stand_beside_messages(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    first = await goqueue.batches.PublishBatch(pb.PublishBatchRequest(topic=topic, batch=batch("a", "b"), id=4))
    assert (first.id, first.base_offset, first.last_offset, first.append_time_ms) == (4, 0, 1, -1)
    await goqueue.publisher.Publish(pb.PublishRequest(topic=topic, messages=messages("c")))
    found = await goqueue.batches.FetchBatches(pb.FetchBatchesRequest(topic=topic))
    assert values_of(found.batches) == ["a", "b", "c"]
    assert (found.next_offset, found.high_watermark, found.start_offset) == (3, 3, 0)
    assert values_of((await goqueue.batches.FetchBatches(pb.FetchBatchesRequest(topic=topic, offset=2))).batches) == [
        "c"
    ]


@pytest.mark.asyncio
async def test_a_stream_of_batches_is_answered_in_order_and_outlives_a_broken_one(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    call = goqueue.batches.PublishBatchStream()
    sent = [batch("a"), b"broken", batch("b", "c")]
    for number, data in enumerate(sent, 1):
        await call.write(pb.PublishBatchRequest(topic=topic, batch=data, id=number))
    await call.done_writing()
    answers = [answer async for answer in call]
    assert [(one.id, one.error.code) for one in answers] == [(1, ""), (2, "corrupt-batch"), (3, "")]
    assert (answers[2].base_offset, answers[2].last_offset) == (1, 2)


@pytest.mark.asyncio
async def test_a_fetch_waits_for_what_comes_and_a_stream_goes_on(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    waiting = asyncio.create_task(_fetched(goqueue, topic))
    stream = goqueue.batches.FetchBatchStream(pb.FetchBatchesRequest(topic=topic))
    for value in "abc":
        await goqueue.publish(topic, value)
        found = await stream.read()
        assert values_of(found.batches) == [value]
    assert values_of((await waiting).batches)[0] == "a"
    stream.cancel()


async def _fetched(goqueue: Stubs, topic: str) -> Any:
    return await goqueue.batches.FetchBatches(pb.FetchBatchesRequest(topic=topic, wait_ms=30_000))


@pytest.mark.asyncio
async def test_a_fetch_is_answered_before_its_deadline(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    request = pb.FetchBatchesRequest(topic=topic, wait_ms=30_000)
    found = await goqueue.batches.FetchBatches(request, timeout=2.0)
    assert (found.batches, found.next_offset) == (b"", 0)


@pytest.mark.asyncio
async def test_wrong_batches_and_places_are_told(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    publish, fetch = goqueue.batches.PublishBatch, goqueue.batches.FetchBatches
    wrong = [
        (publish(pb.PublishBatchRequest(topic=topic)), "INVALID_ARGUMENT", "invalid-batch"),
        (publish(pb.PublishBatchRequest(topic=topic, batch=b"x" * 100)), "INVALID_ARGUMENT", "corrupt-batch"),
        (publish(pb.PublishBatchRequest(topic=topic, partition=4, batch=batch("a"))), "NOT_FOUND", "unknown-partition"),
        (publish(pb.PublishBatchRequest(topic=topic, partition=-4, batch=batch("a"))), "INVALID_ARGUMENT", None),
        (fetch(pb.FetchBatchesRequest(topic=topic, offset=9)), "OUT_OF_RANGE", "offset-out-of-range"),
        (fetch(pb.FetchBatchesRequest(topic=topic, offset=-9)), "INVALID_ARGUMENT", "invalid-field"),
        (fetch(pb.FetchBatchesRequest(topic="none-such")), "NOT_FOUND", "unknown-topic"),
    ]
    for call, status, word in wrong:
        found = (await refused(call))[:2]
        assert found[0] == status and word in (None, found[1]), (found, status, word)
