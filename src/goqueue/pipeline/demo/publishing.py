"""The shop's messages on their way into the node, with the times at which they happened.

They go over the Kafka door, as a shop's services would send them. Those that have to wait go over REST.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from goqueue.base.priority import HEADER
from goqueue.client import Client, NewMessage
from goqueue.pipeline.demo.ledger import Ledger
from goqueue.pipeline.demo.shop import Happening

_LINGER_MS: Final = 10
Told = Callable[[int], None]


def publish(kafka: str, url: str, hour: Iterable[list[Happening]], ledger: Ledger, told: Told) -> int:
    """Everything, in order of time; how many. `told` hears after every minute of the hour how many it were so far."""
    with Client(url) as client:
        return asyncio.run(_publish(kafka, client, hour, ledger, told))


async def _publish(kafka: str, client: Client, hour: Iterable[list[Happening]], ledger: Ledger, told: Told) -> int:
    producer = AIOKafkaProducer(bootstrap_servers=kafka, linger_ms=_LINGER_MS, enable_idempotence=True)
    await producer.start()
    count = 0
    try:
        for minute in hour:
            await _send(producer, [one for one in minute if not one.delay_ms], ledger)
            _delay(client, [one for one in minute if one.delay_ms], ledger)
            count += len(minute)
            told(count)
    finally:
        await producer.stop()
    return count


async def _send(producer: Any, some: Sequence[Happening], ledger: Ledger) -> None:
    sent = [
        await producer.send(
            one.topic,
            one.value,
            key=None if one.key is None else one.key.encode(),
            partition=one.partition,
            timestamp_ms=one.at_ms,
            headers=list(one.headers),
        )
        for one in some
    ]
    places = await asyncio.gather(*sent)
    ledger.note((one, place.partition, place.offset) for one, place in zip(some, places, strict=True))


def _delay(client: Client, some: Sequence[Happening], ledger: Ledger) -> None:
    for topic in sorted({one.topic for one in some}):
        mine = [one for one in some if one.topic == topic]
        placed = client.publish_many(topic, map(_new, mine))
        ledger.note((one, place.partition, None) for one, place in zip(mine, placed, strict=True))


def _new(one: Happening) -> NewMessage:
    """The lane is a field there, and the header is made of it."""
    headers = [(name, value) for name, value in one.headers if name != HEADER]
    return NewMessage(
        one.value, key=one.key, headers=headers, priority=one.lane, timestamp=one.at_ms, delay=one.delay_ms
    )
