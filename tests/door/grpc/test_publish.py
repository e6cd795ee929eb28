"""Messages in: each kind of call, what messages can say, and wrong input."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2

from goqueue.wire import goqueue_pb2 as pb
from tests.door.grpc.stubs import Stubs, messages, refused, unique


async def read(goqueue: Stubs, topic: str) -> list[pb.StoredMessage]:
    return list((await goqueue.subscriber.Read(pb.ReadRequest(topic=topic, limit=10_000))).messages)


@pytest.mark.asyncio
async def test_messages_are_read_as_they_were_published(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    sent = [
        pb.Message(key=b"k", value=b"one", headers=[pb.Header(name="a", value=b"1"), pb.Header(name="b")]),
        pb.Message(key=b"", value=b""),
        pb.Message(key=b"gone"),
        pb.Message(value=b"high", options=pb.MessageOptions(priority="high", timestamp_ms=1_794_000_000_000)),
    ]
    answer = await goqueue.publisher.Publish(pb.PublishRequest(topic=topic, messages=sent, id=5))
    assert (answer.id, list(answer.partitions), list(answer.offsets)) == (5, [0] * 4, [0, 1, 2, 3])
    found = await read(goqueue, topic)
    one, empty, gone, high = found
    assert (one.key, one.value) == (b"k", b"one")
    assert [(header.name, header.value, header.HasField("value")) for header in one.headers] == [
        ("a", b"1", True),
        ("b", b"", False),
    ]
    assert empty.HasField("key") and empty.HasField("value") and empty.value == b""
    assert gone.key == b"gone" and not gone.HasField("value")
    assert high.timestamp_ms == 1_794_000_000_000 and high.headers[0].name == "goqueue-priority"


@pytest.mark.asyncio
async def test_many_requests_get_one_answer(goqueue: Stubs) -> None:
    topic = await goqueue.topic()

    async def requests():  # type: ignore[no-untyped-def]
        for number in range(20):
            yield pb.PublishRequest(topic=topic, messages=messages(*(f"{number}-{one}" for one in range(10))))

    answer = await goqueue.publisher.PublishMany(requests())
    assert (answer.published, list(answer.failures)) == (200, [])
    assert [one.value.decode() for one in await read(goqueue, topic)] == [
        f"{number}-{one}" for number in range(20) for one in range(10)
    ]


@pytest.mark.asyncio
async def test_a_stream_answers_each_request_in_order_and_outlives_a_wrong_one(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    call = goqueue.publisher.PublishStream()
    for number in range(1, 11):
        wanted = topic if number != 5 else unique("nowhere")
        await call.write(pb.PublishRequest(topic=wanted, messages=messages(str(number)), id=number))
    await call.done_writing()
    answers = [answer async for answer in call]
    assert [answer.id for answer in answers] == list(range(1, 11))
    assert answers[4].error.code == "unknown-topic"
    assert [list(answer.offsets) for answer in answers if not answer.HasField("error")] == [[one] for one in range(9)]


@pytest.mark.asyncio
async def test_delayed_messages_wait_and_are_looked_at_and_cancelled(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    later = pb.Message(value=b"later", options=pb.MessageOptions(delay_ms=3_600_000))
    again = pb.Message(value=b"again", options=pb.MessageOptions(repeat=pb.Repeat(every_ms=3_600_000, times=2)))
    answer = await goqueue.publisher.Publish(pb.PublishRequest(topic=topic, messages=[*messages("now"), later, again]))
    assert list(answer.offsets) == [0, -1, -1]
    assert [one.index for one in answer.scheduled] == [1, 2]
    listed = await goqueue.delayed.ListDelayed(pb.ListDelayedRequest(topic=topic))
    assert listed.pending == 2 and {one.value for one in listed.delayed} == {b"later", b"again"}
    at = answer.scheduled[0]
    address = {"topic": topic, "partition": at.partition, "offset": at.offset}
    shown = await goqueue.delayed.GetDelayed(pb.GetDelayedRequest(**address))
    assert (shown.value, shown.state, shown.deliver_at_ms) == (b"later", "pending", at.deliver_at_ms)
    await goqueue.delayed.CancelDelayed(pb.CancelDelayedRequest(**address))
    assert (await goqueue.delayed.GetDelayed(pb.GetDelayedRequest(**address))).state == "cancelled"


WRONG = [
    (pb.PublishRequest(topic="", messages=messages("a")), "INVALID_ARGUMENT", "invalid-name"),
    (pb.PublishRequest(topic="nowhere-at-all", messages=messages("a")), "NOT_FOUND", "unknown-topic"),
    (pb.PublishRequest(topic="TOPIC"), "INVALID_ARGUMENT", "invalid-field"),
    (pb.PublishRequest(topic="TOPIC", messages=messages(*["a"] * 10_001)), "INVALID_ARGUMENT", "invalid-field"),
    (pb.PublishRequest.FromString(b"\n\x05TOPIC\x12\x00\x18\x09"), "INVALID_ARGUMENT", "invalid-field"),  # acks: 9
    (
        pb.PublishRequest(topic="TOPIC", messages=[pb.Message(options=pb.MessageOptions(partition=7))]),
        "NOT_FOUND",
        "unknown-partition",
    ),
    (
        pb.PublishRequest(topic="TOPIC", messages=[pb.Message(options=pb.MessageOptions(partition=-1))]),
        "INVALID_ARGUMENT",
        "invalid-field",
    ),
    (
        pb.PublishRequest(topic="TOPIC", messages=[pb.Message(options=pb.MessageOptions(priority="urgent"))]),
        "INVALID_ARGUMENT",
        "invalid-field",
    ),
    (
        pb.PublishRequest(topic="TOPIC", messages=[pb.Message(options=pb.MessageOptions(delay_ms=-5))]),
        "INVALID_ARGUMENT",
        "invalid-field",
    ),
]


@pytest.mark.parametrize(("request_", "status", "word"), WRONG, ids=lambda one: str(one)[:40])
@pytest.mark.asyncio
async def test_wrong_input_is_told_by_status_word_and_field(
    goqueue: Stubs, request_: pb.PublishRequest, status: str, word: str
) -> None:
    sent = pb.PublishRequest()
    sent.CopyFrom(request_)
    if sent.topic == "TOPIC":
        sent.topic = await goqueue.topic()
    found, reason, whole = await refused(goqueue.publisher.Publish(sent))
    assert (found, reason) == (status, word)
    assert whole.code == grpc.StatusCode[status].value[0]
    kinds = {detail.type_url.rpartition("/")[2] for detail in whole.details}
    assert kinds == {"google.rpc.ErrorInfo", "google.rpc.BadRequest"}


@pytest.mark.asyncio
async def test_the_field_of_a_wrong_message_is_named(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    wrong = [*messages("a"), pb.Message(options=pb.MessageOptions(priority="urgent"))]
    _, _, whole = await refused(goqueue.publisher.Publish(pb.PublishRequest(topic=topic, messages=wrong)))
    found = error_details_pb2.BadRequest()
    assert any(detail.Unpack(found) for detail in whole.details)
    assert found.field_violations[0].field == "messages[1].priority"


@pytest.mark.asyncio
async def test_a_trace_of_the_call_is_the_messages_trace(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    request = pb.PublishRequest(topic=topic, messages=messages("a"))
    await goqueue.publisher.Publish(request, metadata=(("traceparent", context),))
    (found,) = await read(goqueue, topic)
    headers = {header.name: header.value for header in found.headers}
    assert headers["traceparent"].startswith(b"00-0af7651916cd43dd8448eb211c80319c-")
