"""A wrong argument is an error before anything is sent, with its field's name and what it may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.client import Batching, Client, GoQueueClientError, Producer, Retries, WrongType
from tests.client.brokers import Broker


def consumer(client: Client, **options: Any) -> None:
    client.consumer("g", ["t"], **options)


def publish(client: Client, value: Any = "v", **fields: Any) -> None:
    client.publish("t", value, **fields)


WRONG: list[tuple[Callable[[Client], object], str, str]] = [
    (lambda c: publish(c, acks="al"), "acks", "none, leader or all, not 'al'"),
    (lambda c: Producer(c, acks=1), "acks", "none, leader or all, not 1"),  # type: ignore[arg-type]
    (lambda c: consumer(c, mode="sharedd"), "mode", "partition or shared"),
    (lambda c: consumer(c, lanes="strickt"), "lanes", "weighted or strict"),
    (lambda c: consumer(c, from_="first"), "from_", "earliest or latest"),
    (lambda c: c.read("t", isolation="dirty"), "isolation", "read_committed or read_uncommitted"),  # type: ignore[arg-type]
]
WRONG_TYPES: list[tuple[Callable[[Client], object], str, str]] = [
    (lambda c: publish(c, 5), "value", "text, bytes or None, not 5"),
    (lambda c: publish(c, key=1.5), "key", "text, bytes or None"),
    (lambda c: publish(c, headers={"h": 5}), "headers.h", "text, bytes or None"),
    (lambda c: publish(c, headers={5: "h"}), "headers", "text"),
    (lambda c: publish(c, partition="0"), "partition", "a whole number, not '0'"),
    (lambda c: publish(c, partition=True), "partition", "a whole number"),
    (lambda c: publish(c, priority=1.5), "priority", "critical, high, normal, low, background or 0 to 4"),
    (lambda c: publish(c, timestamp=1.5), "timestamp", "milliseconds since 1970"),
    (lambda c: publish(c, delay=[1]), "delay", "milliseconds, text like"),
    (lambda c: publish(c, ttl=1.5), "ttl", "milliseconds, text like"),
    (lambda c: publish(c, repeat="1s"), "repeat", "a mapping"),
    (lambda c: c.publish_many("t", [5]), "value", "text, bytes or None"),  # type: ignore[list-item]
    (lambda c: c.read("t", limit="9"), "limit", "a whole number"),  # type: ignore[arg-type]
    (lambda c: c.read("t", timeout="9"), "timeout", "a number of seconds, 0 or more"),  # type: ignore[arg-type]
    (lambda c: c.read("t", partition="0/../1"), "partition", "a whole number"),  # type: ignore[arg-type]
    (lambda c: c.read("t", from_=[]), "from", "milliseconds since 1970"),  # type: ignore[arg-type]
    (lambda c: c.create_topic("t", "3"), "partitions", "a whole number"),  # type: ignore[arg-type]
    (lambda c: c.create_topic("t", config={"retention.ms": [1]}), "config.retention.ms", "text, a number or None"),  # type: ignore[dict-item]
    (lambda c: c.topic(5), "topic", "text"),  # type: ignore[arg-type]
    (lambda c: c.cancel_delayed("t", "0", 1), "partition", "a whole number"),  # type: ignore[arg-type]
    (lambda c: c.reset_offsets("g", "t", offset="1"), "offset", "a whole number"),  # type: ignore[arg-type]
    (lambda c: c.reset_offsets("g", "t", to="latest", dry_run=1), "dry_run", "True or False"),  # type: ignore[arg-type]
    (lambda c: c.stage("o", 1, "w", timeout_s="9"), "timeout_s", "a number of seconds"),  # type: ignore[arg-type]
    (lambda c: next(c.tail("t", patience="9")), "patience", "a number of seconds"),  # type: ignore[arg-type]
    (lambda c: consumer(c, prefetch="9"), "prefetch", "a whole number"),
    (lambda c: consumer(c, auto_commit="yes"), "auto_commit", "True or False"),
    (lambda c: consumer(c, retries=3), "retries", "a Retries"),
    (lambda c: consumer(c, patience=None), "patience", "a number of seconds"),
    (lambda c: Producer(c, batching=5), "batching", "a Batching"),  # type: ignore[arg-type]
    (lambda c: Producer(c, block_seconds="9"), "block_seconds", "a number of seconds"),  # type: ignore[arg-type]
    (lambda c: Batching(linger_ms="9"), "linger_ms", "a number"),  # type: ignore[arg-type]
    (lambda c: Batching(messages_max=1.5), "messages_max", "a whole number"),  # type: ignore[arg-type]
    (lambda c: Retries(seconds_max="9"), "seconds_max", "a number of seconds"),  # type: ignore[arg-type]
    (lambda c: Client(timeout="9"), "timeout", "a number of seconds"),  # type: ignore[arg-type]
    (lambda c: Client(5), "url", "text"),  # type: ignore[arg-type]
]
MISFORMED: list[tuple[Callable[[Client], object], str, str]] = [
    (lambda c: c.publish_many("t", "abc"), "messages", "a list of messages"),
    (lambda c: publish(c, headers=["a"]), "headers", "pairs of a name and a value"),
    (lambda c: c.consumer("g", 5), "topics", "a list of topics"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "field", "allowed"), [*WRONG, *WRONG_TYPES, *MISFORMED])
def test_a_wrong_argument_names_its_field_and_what_it_may_be(
    call: Callable[[Client], object], field: str, allowed: str
) -> None:
    broker = Broker()
    with Client(transport=broker.transport()) as client, pytest.raises(GoQueueClientError) as caught:
        call(client)
    assert (caught.value.code, caught.value.field) == ("invalid-field", field)
    assert allowed in caught.value.detail
    assert broker.requests == []


@pytest.mark.parametrize(("call", "field", "allowed"), WRONG_TYPES)
def test_a_wrong_type_is_a_type_error_too(call: Callable[[Client], object], field: str, allowed: str) -> None:
    with Client(transport=Broker().transport()) as client, pytest.raises(TypeError) as caught:
        call(client)
    assert isinstance(caught.value, WrongType)
