"""The producer on a loop: the same promises, and a sender that waits in line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from goqueue.client import (
    AsyncClient,
    AsyncProducer,
    Batching,
    BufferFull,
    ConnectionFailed,
    GoQueueClientError,
    NotStored,
    Placed,
    ProducerClosed,
    Retries,
)
from tests.client.brokers import Broker, offset_of, problem

pytestmark = pytest.mark.asyncio

AT_ONCE = Batching(linger_ms=0)
FOR_EVER = 3_600_000.0
EAGER = Retries(pause_first=0.0, pause_max=0.0)
REFUSED = httpx.ConnectError("refused")


class Held(Broker):
    """Holds answers back until `open` is set, without holding the loop."""

    def __init__(self, *script: httpx.Response) -> None:
        super().__init__(*script)
        self.open = asyncio.Event()
        self.arrived = 0

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.arrived += 1
        await self.open.wait()
        return self(request)


@asynccontextmanager
async def producing(
    broker: Broker, batching: Batching = AT_ONCE, retries: Retries = EAGER
) -> AsyncIterator[AsyncProducer]:
    handler = broker.answer if isinstance(broker, Held) else broker
    async with (
        AsyncClient(transport=httpx.MockTransport(handler)) as client,
        AsyncProducer(client, batching=batching, retries=retries) as producer,
    ):
        yield producer


async def test_a_message_gets_its_place() -> None:
    async with producing(Broker()) as producer:
        future = await producer.send("orders", b"a", key="k")
        assert await future == Placed(0, 0)


async def test_a_lone_message_leaves_after_its_linger() -> None:
    async with producing(Broker(), Batching()) as producer:
        assert await (await producer.send("orders", "a")) == Placed(0, 0)


async def test_a_full_batch_leaves_by_itself_and_closing_sends_the_rest() -> None:
    broker = Broker()
    async with producing(broker, Batching(linger_ms=FOR_EVER)) as producer:
        futures = [await producer.send("orders", str(number)) for number in range(101)]
        assert [offset_of(await future) for future in futures[:100]] == list(range(100))
        assert not futures[100].done()
    assert broker.batches[1:] == [["100"]]


async def test_flush_waits_for_every_topic() -> None:
    async with producing(Broker(), Batching(linger_ms=FOR_EVER)) as producer:
        futures = [await producer.send(topic, "v") for topic in ("a", "b", "a")]
        await producer.flush()
        assert [offset_of(future.result()) for future in futures] == [0, 0, 1]
        await producer.flush()


async def test_order_is_kept_however_batches_are_cut() -> None:
    broker = Broker()
    values = [str(number) for number in range(1000)]
    async with producing(broker, Batching(messages_max=7, bytes_max=100, linger_ms=0)) as producer:
        futures = [await producer.send("orders", value) for value in values]
    assert broker.stored["orders"] == values
    assert [offset_of(future.result()) for future in futures] == list(range(1000))


async def test_a_topic_has_one_request_on_its_way_and_topics_do_not_wait_for_each_other() -> None:
    broker = Held()
    async with producing(broker) as producer:
        for value in "ab":
            await producer.send("one", value)
            await producer.send("two", value)
        for _ in range(100):  # every other task gets its turn
            await asyncio.sleep(0)
        assert broker.arrived == 2
        broker.open.set()
    assert broker.stored == {"one": ["a", "b"], "two": ["a", "b"]}


async def test_a_refused_message_fails_alone() -> None:
    with pytest.raises(NotStored) as left:
        async with producing(Broker(), Batching(linger_ms=FOR_EVER)) as producer:
            good, bad, after = [await producer.send("orders", value) for value in ("a", "bad", "b")]
    assert left.value.count == 1
    assert (good.result(), after.result()) == (Placed(0, 0), Placed(0, 1))
    with pytest.raises(GoQueueClientError):
        bad.result()


async def test_leaving_the_block_raises_for_what_nobody_asked_about_and_only_for_that() -> None:
    broker = Broker(problem(404, "unknown-topic"))
    with pytest.raises(NotStored) as left:
        async with producing(broker, Batching(messages_max=5, linger_ms=FOR_EVER)) as producer:
            waited, late, asked, gathered, _ = [await producer.send("orders", value) for value in "abcde"]
            for future in (waited, late):
                with pytest.raises(GoQueueClientError):
                    await future
            assert asked.exception() is not None
            (outcome,) = await asyncio.gather(gathered, return_exceptions=True)
            assert outcome is not None and outcome is gathered.exception()
    assert left.value.count == 1


async def test_the_loss_of_a_message_that_was_given_up_is_told() -> None:
    broker = Held(problem(404, "unknown-topic"))
    with pytest.raises(NotStored):
        async with producing(broker) as producer:
            assert (await producer.send("orders", "a")).cancel()
            broker.open.set()


async def test_an_exception_that_leaves_the_block_is_not_hidden_by_a_loss() -> None:
    with pytest.raises(KeyError):
        async with producing(Broker(problem(404, "unknown-topic"))) as producer:
            await producer.send("orders", "a")
            await producer.flush()
            raise KeyError("mine")


async def test_what_never_arrived_is_repeated_in_order() -> None:
    broker = Broker(REFUSED, problem(503, "overloaded"), REFUSED)
    async with producing(broker, Batching(messages_max=1, linger_ms=0)) as producer:
        for value in "abc":
            await producer.send("orders", value)
    assert broker.stored["orders"] == ["a", "b", "c"]


async def test_what_may_have_arrived_is_not_repeated() -> None:
    broker = Broker(httpx.ReadTimeout("slow"))
    async with producing(broker) as producer:
        with pytest.raises(ConnectionFailed):
            await (await producer.send("orders", "a"))
    assert len(broker.requests) == 1


async def test_a_full_buffer_holds_senders_back_in_line() -> None:
    broker = Held()
    async with producing(broker, Batching(linger_ms=0, buffer_bytes_max=60)) as producer:
        await producer.send("orders", "x" * 30)
        with pytest.raises(BufferFull):
            await producer.send("orders", "y" * 30, timeout=0.0)
        large = asyncio.create_task(producer.send("orders", "z" * 40))
        await asyncio.sleep(0)
        small = asyncio.create_task(producer.send("orders", ""))  # has room, but must not overtake
        await asyncio.sleep(0)
        assert not small.done()
        broker.open.set()
        assert [offset_of(await (await task)) for task in (large, small)] == [1, 2]


async def test_a_cancelled_future_does_not_stop_the_others() -> None:
    broker = Held()
    async with producing(broker) as producer:
        futures = [await producer.send("orders", value) for value in "abc"]
        futures[1].cancel()
        broker.open.set()
    assert broker.stored["orders"] == ["a", "b", "c"]
    assert futures[2].result() == Placed(0, 2)


async def test_a_closed_producer_takes_nothing_more_and_frees_who_waits() -> None:
    broker = Held()
    async with producing(broker, Batching(linger_ms=0, buffer_bytes_max=50)) as producer:
        await producer.send("orders", "x" * 30)
        waiting = asyncio.create_task(producer.send("orders", "y" * 30))
        await asyncio.sleep(0)
        closing = asyncio.create_task(producer.close())
        with pytest.raises(ProducerClosed):
            await waiting
        broker.open.set()
        await closing
        with pytest.raises(ProducerClosed):
            await producer.send("orders", "a")


async def test_a_request_that_is_cancelled_with_its_loop_tells_its_messages() -> None:
    broker = Held()
    async with producing(broker) as producer:
        future = await producer.send("orders", "a")
        await asyncio.sleep(0)
        for task in producer._tasks:
            task.cancel()
        with pytest.raises(ProducerClosed):
            await future


async def test_a_mistake_of_the_client_itself_reaches_the_caller() -> None:
    async with producing(Broker(RuntimeError("bug"))) as producer:
        with pytest.raises(GoQueueClientError) as caught:
            await (await producer.send("orders", "a"))
        assert caught.value.code == "unexpected"
        assert await (await producer.send("orders", "b")) == Placed(0, 0)
