"""What every message that was stored has, though the Kafka client's types say that it may be missing."""

from __future__ import annotations

from confluent_kafka import KafkaError, Message


def place_of(message: Message) -> tuple[int, int]:
    """Its partition and offset."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None and offset is not None
    return partition, offset


def key_of(message: Message) -> bytes:
    key = message.key()
    assert isinstance(key, bytes)
    return key


def value_of(message: Message) -> bytes:
    value = message.value()
    assert isinstance(value, bytes)
    return value


def headers_of(message: Message) -> list[tuple[str, str | bytes | None]]:
    headers = message.headers() or []
    assert isinstance(headers, list)
    return headers


def error_of(message: Message) -> KafkaError:
    error = message.error()
    assert error is not None
    return error
