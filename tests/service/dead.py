"""Messages that die, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.ids import TopicPartition
from goqueue.base.leases import Delivered, Take
from goqueue.broker import Broker
from goqueue.core.dead_letter import EVERYTHING, DeadLetterFilter, StoredDeadLetter
from goqueue.core.redrive import RedriveTask
from tests.service.brokers import fetch_all


async def take(broker: Broker, topic: str = "t", limit: int = 1_000, group: str = "g") -> list[Delivered]:
    partitions = [one.at for one in broker.topics.require(topic).partitions]
    return await broker.leasing.take(Take(group, partitions, "worker", limit))


async def bury(broker: Broker, messages: Sequence[InputMessage], topic: str = "t", reason: str = "no good") -> None:
    """Publishes messages and rejects them."""
    await broker.publish.messages(PublishMessages(topic, messages))
    await reject_all(broker, topic, reason)


async def reject_all(broker: Broker, topic: str = "t", reason: str = "no good") -> int:
    taken = await take(broker, topic)
    await broker.leasing.reject([one.receipt for one in taken], reason)
    await buried(broker, topic)
    return len(taken)


async def buried(broker: Broker, topic: str) -> None:
    for delivery in broker.deliveries.all():
        if delivery.view.topic == topic:
            await broker.transfer.finish(delivery.view)


async def letters(broker: Broker, chosen: DeadLetterFilter = EVERYTHING, topic: str = "t") -> list[StoredDeadLetter]:
    return (await broker.letters.page(topic, chosen, None, 1_000)).letters


async def values(broker: Broker, topic: str) -> list[str]:
    found: list[str] = []
    for partition in broker.topics.require(topic).partitions:
        if partition.at.partition == 0:
            found += [(one.value or b"").decode() for one in await fetch_all(broker, topic, 0)]
    return found


async def over(broker: Broker, task: RedriveTask) -> RedriveTask:
    """Waits until the redrive has ended."""
    while broker.redrives.find(task.id).is_live:  # noqa: ASYNC110 (virtual time)
        await asyncio.sleep(0.01)
    return broker.redrives.find(task.id)


def at(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)
