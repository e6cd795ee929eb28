"""When what was published may be acknowledged: it is as safe as the node promises.

That holds in the epoch in which it was stored. Who led, did not for a while, and leads again may have lost it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from goqueue.base.commands import Acks, PublishResult
from goqueue.base.errors import GoQueueError, LeaderChanged, ReplicasTimedOut, TooFewHaveIt
from goqueue.base.ids import Epoch, Millis, TopicPartition
from goqueue.drive.partition import Partition
from goqueue.drive.schedules import Schedules
from goqueue.service.elsewhere import together
from goqueue.service.topics import Topics

REPLICAS_MS: Final = 30_000  # how long replicas are waited for, if the caller does not say


class StoredIn:
    """Which logs have what was published to a partition: of its batches some records may wait in the schedule's."""

    def __init__(self) -> None:
        # Of those that may not be safe yet. A topic that is made again under its name has other partitions.
        self._schedules: WeakKeyDictionary[Partition, Partition] = WeakKeyDictionary()

    def also(self, partition: Partition, schedule: Partition) -> None:
        """Records of its next batch wait there."""
        self._schedules[partition] = schedule

    def of(self, partition: Partition) -> list[Partition]:
        schedule = self._schedules.get(partition) if self._schedules else None
        return [partition] if schedule is None else [partition, schedule]

    def settled(self, partition: Partition) -> None:
        """Somebody has waited: what is safe is not waited for again."""
        schedule = self._schedules.get(partition)
        if schedule is not None and schedule.is_durable:
            del self._schedules[partition]


class Acknowledging:
    """The verbs of `Publish` that wait."""

    def __init__(self, topics: Topics, schedules: Schedules) -> None:
        self._topics = topics
        self._schedules = schedules
        self._logs = StoredIn()

    def is_durable(self, at: TopicPartition, acks: Acks = Acks.ALL) -> bool:
        """Nothing that was appended still waits to be made safe."""
        logs = self._logs.of(self._topics.require(at.topic).partition(at.partition))
        return all(one.is_written if acks is Acks.LEADER else one.is_durable for one in logs)

    async def wait_durable(
        self, at: TopicPartition, acks: Acks = Acks.ALL, wait_ms: Millis = REPLICAS_MS, epoch: Epoch | None = None
    ) -> None:
        """Returns when all that was appended to the partition is as safe as the node promises; `ReplicasTimedOut` if
        it takes longer, `TooFewHaveIt` if too few are in sync by then. `epoch` is that of the append, if that was not
        just now."""
        topic = self._topics.require(at.topic)
        partition, minimum = topic.partition(at.partition), topic.config.min_insync_replicas
        waits = [wait_for(log, acks, minimum, epoch, wait_ms) for log in self._logs.of(partition)]
        await (waits[0] if len(waits) == 1 else together(waits))
        self._logs.settled(partition)

    async def settle(self, name: str) -> None:
        """Of a topic's partitions that this node leads: all that was published so far is as safe as the node promises,
        also what waits for its time."""
        topic = self._topics.require(name)
        led = [partition for partition in topic.partitions if partition.is_led]
        schedules = {self._schedules.at(partition.at).partition for partition in led}
        for log in (*led, *schedules):
            await wait_for(log, Acks.ALL, topic.config.min_insync_replicas, None)


async def wait_all(
    touched: Mapping[Partition, Sequence[int]], results: list[PublishResult | None], acks: Acks, minimum: int
) -> None:
    """Of partitions that were written just now, each with the places of its messages; one round of the group commit
    serves them. Where it fails, nothing was promised."""
    epochs = [partition.leader_epoch for partition in touched]
    for (partition, places), epoch in zip(touched.items(), epochs, strict=True):
        try:
            await wait_for(partition, acks, minimum, epoch)
        except GoQueueError as error:
            for at in places:
                results[at] = error


async def wait_for(
    partition: Partition, acks: Acks, minimum: int, epoch: Epoch | None, wait_ms: Millis = REPLICAS_MS
) -> None:
    """`acks=leader` asks for no replicas. Without any there is nobody to wait for but the disk. `minimum` are to be in
    sync when it is acknowledged, as when it was appended. No `epoch`: it was appended just now."""
    if acks is Acks.LEADER:
        await partition.wait_written()
    elif not partition.is_replicated:
        await partition.wait_durable()
    elif epoch is not None and partition.leader_epoch != epoch:
        raise LeaderChanged("Another node led the partition meanwhile; this may have been done or not.")
    else:
        if not (partition.is_led and partition.is_durable):
            await wait_for_replicas(partition, wait_ms)
        if acks is Acks.ALL and partition.has_too_few(minimum):
            raise TooFewHaveIt("Too few replicas are in sync by now; it is stored, and readers may see it.")


async def wait_for_replicas(partition: Partition, wait_ms: Millis) -> None:
    try:
        async with asyncio.timeout(wait_ms / 1000):
            await partition.wait_durable()
    except TimeoutError:
        message = "Too few replicas had it in time; it is stored, and readers may see it later."
        raise ReplicasTimedOut(message) from None
