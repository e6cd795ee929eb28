"""An owner of staged sets, as a streaming query is one, against a whole broker in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from goqueue.base.commands import Browse, InputMessage, Isolation, PublishBatch
from goqueue.base.ids import TopicPartition
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.txn.records import TxnState
from goqueue.core.txn.staged import NamedWriter
from goqueue.service.staged import StagedSetEnded
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, settings
from tests.txn.world import transactional_batch

OWNER = "query/7 ü"
Story = Callable[[Broker], Awaitable[None]]


def tell(story: Story, disk: SimDisk | None = None, chosen: Settings | None = None, at_s: float = 0.0) -> SimDisk:
    """One life of a broker; answers with its disk."""
    disk = disk or SimDisk()

    async def scenario(loop: VirtualLoop) -> None:
        loop._virtual.now_s = at_s
        async with broker_on(disk, loop, chosen or settings()) as broker:
            await story(broker)

    run_virtually(scenario)
    return disk


class Writer:
    """One staged writer; it writes as Kafka's clients do, or as REST's."""

    def __init__(self, broker: Broker, state: TxnState) -> None:
        self._broker = broker
        self._sequences: dict[TopicPartition, int] = {}
        self._published = 0
        self.key = (state.transactional_id, state.producer_id, state.epoch)

    @property
    def named(self) -> NamedWriter:
        return NamedWriter(*self.key, sum(self._sequences.values()) + self._published)

    async def write(self, topic: str, partition: int, *values: str, add: bool = True) -> None:
        at = TopicPartition(topic, partition)
        if add:
            await self._broker.transactions.add_partitions(*self.key, [at])
        sequence = self._sequences.get(at, 0)
        batch = transactional_batch(values, self.key[1], self.key[2], sequence)
        await self._broker.publish.batch(PublishBatch(at, batch))
        self._sequences[at] = sequence + len(values)

    async def publish(self, topic: str, *values: str) -> None:
        messages = [InputMessage(None, value.encode()) for value in values]
        await self._broker.txn_publish.publish(PublishInTransaction(*self.key, [TopicMessages(topic, messages)]))
        self._published += len(values)


async def stage(broker: Broker, batch: int, writer: str = "0", attempt: int = 0, owner: str = OWNER) -> Writer:
    return Writer(broker, await broker.staged.stage(owner, batch, writer, attempt))


async def commit(broker: Broker, batch: int, *writers: Writer, owner: str = OWNER) -> StagedSetEnded:
    return await broker.staged.commit(owner, batch, [one.named for one in writers])


def last_batch(broker: Broker, owner: str = OWNER) -> int | None:
    committed = broker.staged.owner(owner).committed
    return None if committed is None else committed.last_batch


def open_writers(broker: Broker, owner: str = OWNER) -> list[str]:
    return [state.transactional_id for state in broker.staged.owner(owner).open]


async def read(broker: Broker, topic: str, isolation: Isolation = Isolation.READ_COMMITTED) -> list[str]:
    """All values of a topic that a reader gets to, partition by partition."""
    found: list[str] = []
    for partition in range(len(broker.topics.require(topic).partitions)):
        offsets = {partition: 0}
        while page := await broker.browsing.read(Browse(topic, offsets, 1_000, isolation=isolation)):
            if not page.messages:
                break
            found += [(one.value or b"").decode() for one in page.messages]
            offsets = dict(page.next_offsets)
    return found


async def seen(broker: Broker, *topics: str) -> Counter[str]:
    return Counter([value for topic in topics for value in await read(broker, topic)])


def stuck(broker: Broker, topics: Sequence[str]) -> list[str]:
    """Partitions whose readers of committed data cannot reach the end."""
    return [
        f"{topic} {one.at.partition}: {one.state.last_stable_offset} of {one.state.high_watermark}"
        for topic in topics
        for one in broker.topics.require(topic).partitions
        if one.state.last_stable_offset < one.state.high_watermark
    ]
