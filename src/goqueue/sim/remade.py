"""Topics of a simulated cluster that are made again or cut short: nothing of what was before comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.errors import GoQueueError, NotFound, UnknownTopic
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.service.storage import Storage
from goqueue.sim.cluster import SimCluster, SimNode
from goqueue.sim.violation import Violation
from goqueue.sim.workload import read_from

_PAUSE_S: Final = 0.1


class RemadeTopic:
    """One after the other under one name: what is in it says in which of them it was written."""

    def __init__(self, cluster: SimCluster, at: TopicPartition) -> None:
        self._cluster = cluster
        self._at = at
        self._life = 0
        self._ids: set[str] = set()

    async def run(self) -> None:
        while True:
            topic_id = await self._make()
            for number in range(self._cluster.chance.randint(3, 10)):
                await self._write_and_look(topic_id, f"{self._life}:{number}")
                await asyncio.sleep(_PAUSE_S)
            await self._delete()
            self._life += 1

    async def _make(self) -> str:
        """A node may still believe in the one before: then it is asked again."""
        while True:
            topic_id = await self._asked(self._ready(), self._made)
            if topic_id is not None and topic_id not in self._ids:
                self._ids.add(topic_id)
                return str(topic_id)
            await asyncio.sleep(_PAUSE_S)

    async def _made(self, broker: Broker) -> str:
        if broker.topics.find(self._at.topic) is None:
            await broker.topics.create(self._at.topic, 1, {})
        return broker.topics.require(self._at.topic).record.id

    async def _delete(self) -> None:
        """Until it is gone for whoever is asked."""
        while True:
            node = self._ready()
            try:
                if node is not None:
                    await node.ask(lambda broker: broker.topics.delete(self._at.topic))
                    return
            except NotFound:
                return
            except GoQueueError:
                pass
            await asyncio.sleep(_PAUSE_S)

    async def _write_and_look(self, topic_id: str, value: str) -> None:
        command = PublishMessages(self._at.topic, [InputMessage(b"k", value.encode(), partition=0)])
        await self._asked(
            self._cluster.leader_of(self._at), self._in_that(topic_id, lambda broker: broker.publish.messages(command))
        )
        values = await self._asked(
            self._cluster.leader_of(self._at), self._in_that(topic_id, lambda broker: read_from(broker, self._at, 0))
        )
        strange = [one for one in (values or {}).values() if not one.startswith(f"{self._life}:")]
        if strange:
            raise Violation(f"in the topic made as number {self._life} there is {strange[:3]}")

    def _in_that(
        self, topic_id: str, question: Callable[[Broker], Awaitable[Any]]
    ) -> Callable[[Broker], Awaitable[Any]]:
        """Asked only where the topic is the one that is meant."""

        async def ask(broker: Broker) -> Any:
            topic = broker.topics.find(self._at.topic)
            if topic is None or topic.record.id != topic_id:
                raise UnknownTopic("This node knows another one.")
            return await question(broker)

        return ask

    def _ready(self) -> SimNode | None:
        ready = [node for node in self._cluster.nodes if node.is_ready]
        return self._cluster.chance.choice(ready) if ready else None

    async def _asked(self, node: SimNode | None, question: Callable[[Broker], Awaitable[Any]]) -> Any:
        """None if it fails."""
        try:
            return None if node is None else await node.ask(question)
        except GoQueueError:
            return None


class TrimmedTopic:
    """Written to, and cut short now and then."""

    def __init__(self, cluster: SimCluster, at: TopicPartition) -> None:
        self._cluster = cluster
        self._at = at
        self._count = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._cluster.chance.uniform(0.05, 0.3))
            if (leader := self._cluster.leader_of(self._at)) is not None:
                await self._write_or_trim(leader)

    async def _write_or_trim(self, leader: SimNode) -> None:
        self._count += 1
        value = str(self._count).encode()
        command = PublishMessages(self._at.topic, [InputMessage(b"k", value, partition=0)])
        try:
            if self._cluster.chance.random() < 0.2:
                await leader.ask(self._trim)
            else:
                await leader.ask(lambda broker: broker.publish.messages(command))
        except GoQueueError:
            pass

    async def _trim(self, broker: Broker) -> None:
        storage = Storage(broker.topics, broker.cleaner, broker.space, "")
        mark = broker.topics.require(self._at.topic).partition(0).high_watermark
        await storage.delete_records(self._at.topic, 0, max(0, mark - self._cluster.chance.randint(0, 5)))
