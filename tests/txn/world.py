"""Transactional producers and readers of committed data against a broker in virtual time; all they do is recorded."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from goqueue.base.commands import Fetch, Fetched, FetchFrom, Isolation, PublishBatch
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.txn.errors import ConcurrentTransactions
from goqueue.format.batch import HEADER_BYTES, TRANSACTIONAL_BIT, assemble, read_header, split
from goqueue.format.records import NewRecord, build, decode
from goqueue.sim.disk import PowerCut, SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.service.brokers import broker_alone, settings
from tests.txn.history import FINAL, History, Outcome

T = TypeVar("T")
TOPIC = "t"
PARTITIONS = 2
TIMEOUT_MS = 5_000
ALWAYS = settings(fsync="always")


def transactional_batch(values: Sequence[str], producer_id: int, epoch: int, sequence: int) -> bytes:
    made = build([NewRecord(b"k", value.encode(), (), 1_767_225_600_000) for value in values])
    header = read_header(made)
    header = msgspec.structs.replace(
        header,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=header.attributes | TRANSACTIONAL_BIT,
    )
    return assemble(header, memoryview(made)[HEADER_BYTES:])


class Client:
    """A transactional producer. With `bumps` it takes a new epoch for each transaction."""

    _numbers = itertools.count()

    def __init__(self, broker: Broker, history: History, name: str = "p", bumps: bool = False) -> None:
        self._broker = broker
        self._history = history
        self._name = name
        self._bumps = bumps
        self._sequences: dict[int, int] = {}
        self.producer_id = self.epoch = -1
        self.txn = ""

    async def init(self) -> None:
        state = await again(lambda: self._broker.transactions.init(self._name, TIMEOUT_MS))
        self.producer_id, self.epoch = state.producer_id, state.epoch
        self._sequences = {}

    def begin(self) -> None:
        self.txn = f"{self._name}-{next(self._numbers)}"

    async def add(self, *partitions: int) -> None:
        places = [TopicPartition(TOPIC, number) for number in partitions]
        await again(lambda: self._broker.transactions.add_partitions(self._name, self.producer_id, self.epoch, places))

    async def write(self, partition: int, *values: str, add: bool = True) -> bytes:
        """Answers with the batch, for a test that sends it again."""
        for value in values:
            self._history.wrote(self.txn, partition, value)
        if add:
            await self.add(partition)
        sequence = self._sequences.get(partition, 0)
        batch = transactional_batch(values, self.producer_id, self.epoch, sequence)
        await self.send(partition, batch)
        self._sequences[partition] = sequence + len(values)
        return batch

    async def send(self, partition: int, batch: bytes) -> None:
        await self._broker.publish.batch(PublishBatch(TopicPartition(TOPIC, partition), batch))

    async def commit(self) -> None:
        await self._end(commit=True)
        self._history.ended(self.txn, Outcome.COMMITTED)

    async def abort(self) -> None:
        await self._end(commit=False)
        self._history.ended(self.txn, Outcome.ABORTED)

    async def _end(self, commit: bool) -> None:
        state = await again(
            lambda: self._broker.transactions.end(self._name, self.producer_id, self.epoch, commit, self._bumps)
        )
        if self._bumps:
            self.producer_id, self.epoch, self._sequences = state.producer_id, state.epoch, {}


async def again(ask: Callable[[], Awaitable[T]]) -> T:
    """Clients come again where the broker is at it."""
    for _ in range(200):
        try:
            return await ask()
        except ConcurrentTransactions:
            await asyncio.sleep(0.05)
    return await ask()


# --- readers -------------------------------------------------------------------------------------------------


class Reader:
    """Reads committed data of all partitions as Kafka's clients do: told what is aborted, it leaves that out."""

    def __init__(self, broker: Broker, history: History, name: str) -> None:
        self._broker = broker
        self._history = history
        self._name = name
        self._offsets = dict.fromkeys(range(PARTITIONS), 0)

    async def poll(self, bytes_max: int = 1 << 20) -> bool:
        """False if there was nothing new."""
        parts = [FetchFrom(TopicPartition(TOPIC, one), at, bytes_max) for one, at in self._offsets.items()]
        asked = Fetch(parts, PARTITIONS * bytes_max, isolation=Isolation.READ_COMMITTED)
        found: list[tuple[object, int, str]] = []
        moved = False
        for answer in await self._broker.fetching.fetch(asked):
            if answer.error is not None:
                raise answer.error
            number = answer.at.partition
            at = self._offsets[number]
            kept, after = kept_of(answer)
            moved = moved or after > at
            self._offsets[number] = max(at, after)
            found += [
                (number, one.offset, _text(one.value)) for batch in kept for one in decode(batch) if one.offset >= at
            ]
        self._history.polled(self._name, found)
        return moved

    async def read_all(self, bytes_max: int = 1 << 20) -> None:
        while await self.poll(bytes_max):
            pass


def kept_of(answer: Fetched) -> tuple[list[memoryview], int]:
    """The batches that a reader of committed data decodes, and the offset behind all that it was given."""
    begun = sorted(answer.aborted, key=lambda one: one[1])
    shut_out: set[int] = set()
    kept: list[memoryview] = []
    after = answer.offset
    for batch in split(answer.batches):
        header = read_header(batch)
        while begun and begun[0][1] <= header.last_offset:
            shut_out.add(begun.pop(0)[0])
        after = max(after, header.next_offset)
        if header.is_control:
            shut_out.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in shut_out):
            kept.append(batch)
    return kept, after


def _text(value: bytes | None) -> str:
    return (value or b"").decode()


async def read_to_the_end(broker: Broker, history: History) -> None:
    """Once all time-outs are over, two readers: in one large poll, and a batch at a time."""
    await asyncio.sleep(TIMEOUT_MS / 1000 + 5)
    await Reader(broker, history, FINAL).read_all()
    await Reader(broker, history, "a batch at a time").read_all(bytes_max=1)


def stuck(broker: Broker) -> list[str]:
    """Partitions whose readers of committed data cannot reach the end."""
    return [
        f"{partition.at.partition}: {partition.state.last_stable_offset} of {partition.state.high_watermark}"
        for partition in broker.topics.require(TOPIC).partitions
        if partition.state.last_stable_offset < partition.state.high_watermark
    ]


# --- lives ---------------------------------------------------------------------------------------------------

Story = Callable[[Broker, History], Awaitable[None]]


async def make_topic(broker: Broker) -> None:
    if broker.topics.find(TOPIC) is None:
        await broker.topics.create(TOPIC, PARTITIONS, {})


def live(disk: SimDisk, story: Story, history: History, chosen: Settings = ALWAYS, at_s: float = 0.0) -> bool:
    """One life of a broker; it stops cleanly after the story, or the power goes (True)."""
    cut = False

    async def scenario(loop: VirtualLoop) -> None:
        nonlocal cut
        loop._virtual.now_s = at_s
        gone = loop.create_future()

        def on_power_cut() -> None:
            nonlocal cut
            cut = True
            if not gone.done():
                gone.set_result(None)

        disk.on_power_cut = on_power_cut

        async def life() -> None:
            broker = broker_alone(chosen, disk, VirtualClock(loop))
            await broker.start()
            await make_topic(broker)
            await story(broker, history)
            await broker.stop()

        living = asyncio.ensure_future(life())
        await asyncio.wait([living, gone], return_when=asyncio.FIRST_COMPLETED)
        if cut:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
        else:
            await living

    try:
        run_virtually(scenario)
    except PowerCut:
        assert cut
    return cut


def cut_power(disk: SimDisk) -> None:
    """With the next write or sync; what is not synced may be gone."""
    disk.crash_at = disk.steps


async def refused(work: Awaitable[object]) -> bool:
    """Whether the broker said no."""
    try:
        await work
    except GoQueueError:
        return True
    return False
