"""REST members in virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from goqueue.base.commands import InputMessage, PublishMessages
from goqueue.base.ids import TopicPartition
from goqueue.broker import Broker
from goqueue.core.groups.requests import RestJoin
from goqueue.service.consume import Poll, PollResult
from goqueue.service.readers import MemberReading
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, settings


class Member:
    """A REST member that does as it is told."""

    def __init__(
        self, broker: Broker, name: str, topics: tuple[str, ...] = ("t",), style: str = "cooperative", **reading: object
    ) -> None:
        self.broker, self.name, self.topics, self.style = broker, name, topics, style
        self.reading = MemberReading(**reading)  # type: ignore[arg-type]
        self.generation = -1
        self.assignment: list[tuple[str, list[int]]] = []
        self.session_ms: int | None = None

    async def join(self) -> Member:
        request = RestJoin("g", self.name, "unused", "client", self.topics, self.style, session_ms=self.session_ms)  # type: ignore[arg-type]
        joined = await self.broker.consuming.join(request, self.reading)
        self.generation, self.assignment = joined.generation, joined.assignment
        return self

    async def polled(self, wait_ms: int = 0, limit: int = 100) -> PollResult:
        polled = await self.broker.consuming.poll(Poll("g", self.name, self.generation, limit, wait_ms))
        self.generation = polled.generation
        return polled

    async def poll(self, wait_ms: int = 0, limit: int = 100) -> list[str]:
        return [(one.stored.value or b"").decode() for one in (await self.polled(wait_ms, limit)).messages]

    async def beat(self) -> list[tuple[str, list[int]]]:
        """A heartbeat, and giving back if it says so; answers with what was gained."""
        consuming = self.broker.consuming
        beat = await consuming.heartbeat("g", self.name, self.generation)
        self.generation, self.assignment = beat.generation, beat.assignment
        if beat.revoke:
            beat = await consuming.revoke("g", self.name, self.generation, beat.revoke)
            self.generation, self.assignment = beat.generation, beat.assignment
        return beat.gained

    async def leave(self) -> None:
        await self.broker.consuming.leave("g", self.name)

    @property
    def partitions(self) -> list[int]:
        return [number for _, numbers in self.assignment for number in numbers]


async def put(broker: Broker, *values: str, partition: int = 0, topic: str = "t") -> None:
    messages = [InputMessage(None, value.encode(), partition=partition) for value in values]
    await broker.publish.messages(PublishMessages(topic, messages))


def committed(broker: Broker, partition: int = 0, topic: str = "t") -> int | None:
    found = broker.groups.offsets("g").get(TopicPartition(topic, partition))
    return None if found is None else found.offset


def story(scenario: Callable[[Broker, VirtualLoop], Awaitable[None]], partitions: int = 1, **log: object) -> None:
    async def run(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, settings(**log)) as broker:
            await broker.topics.create("t", partitions, {})
            await scenario(broker, loop)

    run_virtually(run)
