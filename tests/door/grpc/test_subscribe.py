"""Messages under leases over a stream: acks, nacks, credit, and what happens when a stream ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest

from bench.node_process import NodeProcess
from goqueue.wire import goqueue_pb2 as pb
from tests.door.grpc.stubs import Stubs, refused, stubs, unique

pytestmark = pytest.mark.timeout(120)


@pytest.mark.asyncio
async def test_acked_messages_do_not_come_again_and_the_group_has_moved(goqueue: Stubs) -> None:
    topic, group = await goqueue.topic(), unique("g")
    await goqueue.publish(topic, "a", "b", "c")
    stream = await goqueue.subscribe(group, topic)
    taken = await stream.take(3)
    assert [one.value for one in taken] == [b"a", b"b", b"c"]
    assert not (await stream.ack(taken)).failures
    (lag,) = (await goqueue.groups.GetOffsets(pb.GetOffsetsRequest(group=group))).offsets
    assert (lag.committed, lag.lag) == (3, 0)
    stream.call.cancel()


@pytest.mark.asyncio
async def test_a_message_that_comes_later_is_pushed(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    stream = await goqueue.subscribe(unique("g"), topic)
    waiting = asyncio.create_task(stream.take(1))
    await goqueue.publish(topic, "late")
    assert (await waiting)[0].value == b"late"
    stream.call.cancel()


@pytest.mark.asyncio
async def test_a_nacked_message_comes_again_and_a_rejected_one_is_a_dead_letter(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    await goqueue.publish(topic, "again", "dead")
    stream = await goqueue.subscribe(unique("g"), topic)
    again, dead = await stream.take(2)
    assert not (await stream.say(reject=pb.RejectRequest(receipts=[dead.receipt], reason="broken"))).failures
    assert not (await stream.say(nack=pb.NackRequest(receipts=[again.receipt], delay_ms=0))).failures
    deliveries = (await stream.next("deliveries")).deliveries
    assert [(one.attempt, one.failures, one.messages[0].value) for one in deliveries] == [(2, 1, b"again")]
    page = await goqueue.letters.ListDeadLetters(pb.ListDeadLettersRequest(topic=topic))
    (letter,) = page.letters
    assert (letter.value, letter.reason, letter.error, letter.origin.topic) == (b"dead", "REJECTED", "broken", topic)
    stream.call.cancel()


@pytest.mark.asyncio
async def test_a_lease_is_extended_and_given_back(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    await goqueue.publish(topic, "a")
    stream = await goqueue.subscribe(unique("g"), topic, lease_ms=60_000)
    (one,) = await stream.take(1)
    assert not (await stream.say(extend=pb.ExtendRequest(receipts=[one.receipt], lease_ms=90_000))).failures
    assert not (await stream.say(extend=pb.ExtendRequest(receipts=[one.receipt], lease_ms=0))).failures
    assert (await stream.take(1))[0].value == b"a"
    stream.call.cancel()


@pytest.mark.asyncio
async def test_no_more_messages_come_than_credit_was_given(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    await goqueue.publish(topic, *map(str, range(10)))
    stream = await goqueue.subscribe(unique("g"), topic, credit=3)
    assert len(await stream.take(3)) == 3
    reading = asyncio.create_task(stream.call.read())
    await asyncio.sleep(0.3)
    assert not reading.done(), "more came than the credit allows"
    await stream.call.write(pb.SubscribeRequest(credit=pb.Credit(messages=2)))
    found = await reading
    assert sum(len(one.messages) for one in found.deliveries.deliveries) == 2
    stream.call.cancel()


@pytest.mark.parametrize("end", ["cancel", "close", "half"])
@pytest.mark.asyncio
async def test_what_a_stream_holds_goes_to_others_when_it_ends(
    grpc_node: NodeProcess, goqueue: Stubs, end: str
) -> None:
    topic, group = await goqueue.topic(), unique("g")
    await goqueue.publish(topic, "a", "b")
    async with stubs(grpc_node.grpc) as others:
        first = await others.subscribe(group, topic, lease_ms=3_600_000)
        assert len(await first.take(2)) == 2
        if end == "cancel":
            first.call.cancel()
        elif end == "half":
            await first.call.done_writing()
            assert await first.call.code() == grpc.StatusCode.OK
        else:
            await others.channel.close()
        second = await goqueue.subscribe(group, topic)
        assert [one.value for one in await second.take(2)] == [b"a", b"b"]
        second.call.cancel()


@pytest.mark.asyncio
async def test_a_deadline_ends_the_stream_and_gives_leases_back(goqueue: Stubs) -> None:
    topic, group = await goqueue.topic(), unique("g")
    await goqueue.publish(topic, "a")
    call = goqueue.subscriber.Subscribe(timeout=1.0)
    wanted = pb.Subscription(group=group, topics=[topic], credit=5, lease_ms=3_600_000)
    await call.write(pb.SubscribeRequest(subscription=wanted))
    assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    second = await goqueue.subscribe(group, topic)
    assert (await second.take(1))[0].value == b"a"
    second.call.cancel()


@pytest.mark.asyncio
async def test_members_of_a_shared_group_share_and_are_listed(goqueue: Stubs) -> None:
    topic, group = await goqueue.topic(), unique("g")
    one = await goqueue.subscribe(group, topic, credit=1, client_id="one")
    two = await goqueue.subscribe(group, topic, credit=1, client_id="two")
    await goqueue.publish(topic, "a", "b")
    values = {(await one.take(1))[0].value, (await two.take(1))[0].value}
    assert values == {b"a", b"b"}
    shown = await goqueue.groups.GetGroup(pb.GetGroupRequest(group=group))
    assert {member.client_id for member in shown.members} == {"one", "two"} and shown.mode == "shared"
    one.call.cancel()
    two.call.cancel()

    async def nobody() -> bool:
        return not (await goqueue.groups.GetGroup(pb.GetGroupRequest(group=group))).members

    for _ in range(200):
        if await nobody():
            break
        await asyncio.sleep(0.02)
    assert await nobody()


@pytest.mark.asyncio
async def test_a_member_of_a_partitioned_group_is_told_what_it_gains_and_loses(goqueue: Stubs) -> None:
    topic, group = await goqueue.topic(partitions=2), unique("g")
    one = await goqueue.subscribe(group, topic, mode="partition")
    two_call = asyncio.create_task(goqueue.subscribe(group, topic, mode="partition"))
    told = await one.next("assignment")
    assert [list(part.partitions) for part in told.revoked]
    two = await two_call
    gained = await two.next("assignment")
    assert [len(part.partitions) for part in gained.assignment] == [1]
    one.call.cancel()
    two.call.cancel()


@pytest.mark.asyncio
async def test_a_stale_receipt_is_told_and_the_stream_goes_on(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    await goqueue.publish(topic, "a", "b")
    stream = await goqueue.subscribe(unique("g"), topic)
    taken = await stream.take(2)
    await stream.ack(taken)
    (first, second) = (await stream.ack(taken)).failures
    assert (first.receipt, first.error.code) == (taken[0].receipt, "stale-receipt") and second.error.code
    assert (await stream.say(ack=pb.AckRequest())).error.code == "invalid-field"
    assert (await stream.say(credit=pb.Credit(messages=-1))).error.field == "credit"
    stream.call.cancel()


@pytest.mark.asyncio
async def test_unary_answers(goqueue: Stubs) -> None:
    topic = await goqueue.topic()
    await goqueue.publish(topic, "a", "b", "c", "d")
    stream = await goqueue.subscribe(unique("g"), topic, lease_ms=60_000)
    receipts = [one.receipt for one in await stream.take(4)]
    calls = goqueue.subscriber
    assert not (await calls.Ack(pb.AckRequest(receipts=receipts[:1]))).failures
    assert not (await calls.Nack(pb.NackRequest(receipts=receipts[1:2], delay_ms=60_000))).failures
    assert not (await calls.Reject(pb.RejectRequest(receipts=receipts[2:3]))).failures
    assert not (await calls.Extend(pb.ExtendRequest(receipts=receipts[3:], lease_ms=90_000))).failures
    mixed = await calls.Ack(pb.AckRequest(receipts=[receipts[0], receipts[3]]))
    assert [one.receipt for one in mixed.failures] == [receipts[0]]
    assert (await refused(calls.Ack(pb.AckRequest(receipts=receipts[:1]))))[:2] == (
        "FAILED_PRECONDITION",
        "stale-receipt",
    )
    assert (await refused(calls.Ack(pb.AckRequest(receipts=["nonsense"]))))[1] == "invalid-receipt"
    stream.call.cancel()


@pytest.mark.parametrize(
    ("wanted", "word"),
    [
        (pb.SubscribeRequest(), "invalid-field"),
        (pb.SubscribeRequest(credit=pb.Credit(messages=1)), "invalid-field"),
        (pb.SubscribeRequest(subscription=pb.Subscription(group="g")), "invalid-field"),
        (pb.SubscribeRequest(subscription=pb.Subscription(topics=["t"])), "invalid-name"),
        (pb.SubscribeRequest(subscription=pb.Subscription(group="g", topics=["none-such"])), "unknown-topic"),
        (pb.SubscribeRequest(subscription=pb.Subscription(group="g", topics=["t"], mode="odd")), "invalid-field"),
        (pb.SubscribeRequest(subscription=pb.Subscription(group="g", topics=["t"], begin="odd")), "invalid-field"),
        (pb.SubscribeRequest(subscription=pb.Subscription(group="g", topics=["t"], credit=-1)), "invalid-field"),
        (pb.SubscribeRequest(subscription=pb.Subscription(group="g", topics=["t"], lease_ms=-1)), "invalid-field"),
    ],
    ids=str,
)
@pytest.mark.asyncio
async def test_a_wrong_subscription_ends_the_stream_with_a_word(
    goqueue: Stubs, wanted: pb.SubscribeRequest, word: str
) -> None:
    call = goqueue.subscriber.Subscribe()
    await call.write(wanted)

    async def read() -> None:
        assert await call.read() is not None

    assert (await refused(read()))[1] == word


@pytest.mark.asyncio
async def test_a_stream_ends_with_a_word_when_its_node_stops(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        async with stubs(node.grpc) as others:
            topic = await others.topic()
            stream = await others.subscribe("g", topic)
            idle = await others.subscribe("idle", topic, credit=0)
            publishing = others.publisher.PublishStream()
            other = await others.topic()
            await publishing.write(pb.PublishRequest(topic=other, messages=[pb.Message(value=b"a")]))
            assert list((await publishing.read()).offsets) == [0]
            stopping = asyncio.create_task(asyncio.to_thread(node.stop))
            for call in (stream.call, idle.call, publishing):
                assert await call.code() == grpc.StatusCode.UNAVAILABLE
            assert await stopping == 0
