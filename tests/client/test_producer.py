"""The producer with a thread: batches, order, back-pressure, failures, repeating, closing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from goqueue.client import (
    Batching,
    BufferFull,
    Client,
    ConnectionFailed,
    GoQueueClientError,
    NotStored,
    Placed,
    Producer,
    ProducerClosed,
    Retries,
)
from goqueue.client.calls import Acks
from tests.client.brokers import Broker, offset_of, problem

AT_ONCE = Batching(linger_ms=0)
FOR_EVER = 3_600_000.0  # a linger that only a full batch or a flush ends
EAGER = Retries(pause_first=0.0, pause_max=0.0)
REFUSED = httpx.ConnectError("refused")


@contextmanager
def producing(
    broker: Broker,
    batching: Batching = AT_ONCE,
    retries: Retries = EAGER,
    acks: Acks = "all",
    block_seconds: float = 30.0,
) -> Iterator[Producer]:
    with (
        Client(transport=broker.transport()) as client,
        Producer(client, acks=acks, batching=batching, retries=retries, block_seconds=block_seconds) as producer,
    ):
        yield producer


def test_a_message_gets_its_place() -> None:
    broker = Broker()
    with producing(broker, acks="leader") as producer:
        future = producer.send("orders", "a", key="k", headers={"h": "x"}, priority=0)
        assert future.result(30) == Placed(0, 0)
    assert broker.acks == ["leader"]
    assert b'"key":"k"' in broker.requests[0].content
    assert b'"priority":0' in broker.requests[0].content


def test_a_lone_message_leaves_after_its_linger() -> None:
    with producing(Broker(), Batching()) as producer:
        assert producer.send("orders", "a").result(30) == Placed(0, 0)


def test_a_full_batch_leaves_by_itself() -> None:
    broker = Broker()
    with producing(broker, Batching(linger_ms=FOR_EVER)) as producer:
        futures = [producer.send("orders", str(number)) for number in range(100)]
        assert [offset_of(future.result(30)) for future in futures] == list(range(100))
        assert len(broker.batches) == 1
        producer.send("orders", "late")
    assert broker.batches[1:] == [["late"]], "closing sends what still lingers"


def test_flush_sends_what_lingers_and_waits_for_it() -> None:
    broker = Broker()
    with producing(broker, Batching(linger_ms=FOR_EVER)) as producer:
        futures = [producer.send("orders", "a"), producer.send("other", "b")]
        assert producer.flush(30)
        assert all(future.done() for future in futures)
        assert producer.flush(0), "nothing is left"


def test_flush_says_when_its_time_ran_out() -> None:
    broker = Broker()
    broker.gate.clear()
    with producing(broker) as producer:
        producer.send("orders", "a")
        assert not producer.flush(0)
        broker.gate.set()


def test_order_is_kept_however_batches_are_cut() -> None:
    broker = Broker()
    values = [str(number) for number in range(1000)]
    with producing(broker, Batching(messages_max=7, bytes_max=100, linger_ms=0)) as producer:
        futures = [producer.send("orders", value) for value in values]
    assert broker.stored["orders"] == values
    assert [offset_of(future.result(0)) for future in futures] == list(range(1000))
    assert max(map(len, broker.batches)) <= 7


def test_a_refused_message_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(NotStored) as left, producing(Broker(), Batching(linger_ms=FOR_EVER)) as producer:
        good, bad, after = [producer.send("orders", value) for value in ("a", "bad", "b")]
    assert (good.result(0), after.result(0)) == (Placed(0, 0), Placed(0, 1))
    with pytest.raises(GoQueueClientError) as caught:
        bad.result(0)
    assert caught.value.code == "message-too-large"
    assert "1 of 3 messages to 'orders' not stored" in caplog.text
    assert (left.value.count, left.value.code) == (1, "not-stored")
    assert [error.code for error in left.value.failures] == ["message-too-large"]


def test_a_refused_request_fails_its_messages_and_no_others() -> None:
    broker = Broker(problem(404, "unknown-topic"))
    with (
        pytest.raises(NotStored, match="2 messages were not stored"),
        producing(broker, Batching(messages_max=2, linger_ms=FOR_EVER)) as producer,
    ):
        futures = [producer.send("orders", value) for value in "abcd"]
    assert [type(future.exception(0)) for future in futures[:2]] == [GoQueueClientError, GoQueueClientError]
    assert futures[0].exception(0) is not futures[1].exception(0), "an error belongs to one message"
    assert [offset_of(future.result(0)) for future in futures[2:]] == [0, 1]


def test_leaving_the_block_raises_for_what_nobody_asked_about_and_only_for_that() -> None:
    broker = Broker(problem(404, "unknown-topic"))
    with pytest.raises(NotStored) as left, producing(broker, Batching(messages_max=3, linger_ms=FOR_EVER)) as producer:
        seen, asked, _ = [producer.send("orders", value) for value in "abc"]
        with pytest.raises(GoQueueClientError):
            seen.result(30)
        assert asked.exception(30) is not None
        assert asked.exception(30) is not None, "asking twice is one failure"
    assert left.value.count == 1


def test_an_exception_that_leaves_the_block_is_not_hidden_by_a_loss() -> None:
    with pytest.raises(KeyError), producing(Broker(problem(404, "unknown-topic"))) as producer:
        producer.send("orders", "a")
        producer.flush()
        raise KeyError("mine")


def test_many_losses_are_counted_and_the_first_hundred_kept() -> None:
    refused = [problem(404, "unknown-topic") for _ in range(5)]
    with pytest.raises(NotStored) as left, producing(Broker(*refused), Batching(linger_ms=FOR_EVER)) as producer:
        for number in range(500):
            producer.send("orders", str(number))
    assert (left.value.count, len(left.value.failures)) == (500, 100)
    producer.raise_not_stored()  # told once


def test_a_producer_that_is_closed_by_hand_can_be_asked() -> None:
    with Client(transport=Broker(problem(404, "unknown-topic")).transport()) as client:
        producer = Producer(client)
        producer.send("orders", "a")
        producer.close()
        with pytest.raises(NotStored):
            producer.raise_not_stored()


def test_what_never_arrived_is_repeated_in_order() -> None:
    broker = Broker(REFUSED, problem(503, "overloaded"), REFUSED)
    with producing(broker, Batching(messages_max=1, linger_ms=0)) as producer:
        futures = [producer.send("orders", value) for value in "abc"]
    assert broker.stored["orders"] == ["a", "b", "c"]
    assert [offset_of(future.result(0)) for future in futures] == [0, 1, 2]


def test_what_may_have_arrived_is_not_repeated() -> None:
    broker = Broker(httpx.ReadError("reset"))
    with producing(broker) as producer:
        failed = producer.send("orders", "a")
        with pytest.raises(ConnectionFailed) as caught:
            failed.result(30)
    assert caught.value.may_have_arrived
    assert len(broker.requests) == 1


def test_what_may_have_arrived_is_repeated_for_those_who_accept_doubles() -> None:
    broker = Broker(httpx.ReadError("reset"))
    with producing(broker, retries=Retries(pause_first=0.0, lost_answers=True)) as producer:
        assert producer.send("orders", "a").result(30) == Placed(0, 0)


def test_repeating_ends() -> None:
    broker = Broker(*[REFUSED] * 3)
    with producing(broker, retries=Retries(seconds_max=0.0)) as producer, pytest.raises(ConnectionFailed):
        producer.send("orders", "a").result(30)
    assert len(broker.requests) == 1


def test_a_full_buffer_holds_the_sender_back_and_then_says_so() -> None:
    broker = Broker()
    broker.gate.clear()
    with producing(broker, Batching(linger_ms=0, buffer_bytes_max=50)) as producer:
        taken = producer.send("orders", "x" * 30)
        with pytest.raises(BufferFull):
            producer.send("orders", "y" * 30, timeout=0.0)
        broker.gate.set()
        after = producer.send("orders", "z" * 30)  # waits until the first is stored
        assert (offset_of(taken.result(30)), offset_of(after.result(30))) == (0, 1)
    assert broker.stored["orders"] == ["x" * 30, "z" * 30]


def test_a_message_that_can_never_fit_is_refused() -> None:
    with producing(Broker(), Batching(buffer_bytes_max=50)) as producer:
        with pytest.raises(GoQueueClientError) as caught:
            producer.send("orders", "x" * 60)
        assert caught.value.code == "message-too-large"


def test_a_bad_topic_or_value_is_refused_at_once() -> None:
    with producing(Broker()) as producer:
        for topic, value in (("..", "a"), ("orders", "\ud800")):
            with pytest.raises(GoQueueClientError):
                producer.send(topic, value)


def test_a_closed_producer_takes_nothing_more() -> None:
    with producing(Broker()) as producer:
        producer.close()
        producer.close()
        with pytest.raises(ProducerClosed):
            producer.send("orders", "a")


def test_closing_with_a_limit_gives_up_what_is_still_waiting(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    broker = Broker(*[REFUSED] * 1000)
    with producing(
        broker, Batching(messages_max=1, linger_ms=0), Retries(pause_first=3600, pause_max=3600)
    ) as producer:
        futures = [producer.send("orders", value) for value in "ab"]
        producer.close(timeout=0.0)
        for future in futures:
            with pytest.raises((ProducerClosed, ConnectionFailed)):
                future.result(30)


def test_a_mistake_of_the_client_itself_reaches_the_caller() -> None:
    with producing(Broker(RuntimeError("bug"))) as producer:
        with pytest.raises(GoQueueClientError) as caught:
            producer.send("orders", "a").result(30)
        assert caught.value.code == "unexpected"
        assert producer.send("orders", "b").result(30) == Placed(0, 0)
