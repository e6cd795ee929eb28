"""Several brokers in one process and in virtual time, which ask each other by bytes.

Each has a disk and metadata of its own; who leads which shard is told to all of them. A partition takes messages only
at the node that leads it, as that node knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest
from msgspec.structs import replace

from goqueue.base.commands import InputMessage, PublishMessages, PublishResult
from goqueue.base.encoding import decode, encode
from goqueue.base.errors import GoQueueError, NotLeader, PeerLost, PeerOutOfReach
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.metadata import Change, Entry, Revision
from goqueue.base.node_settings import NodeSettings
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.cluster.records import NODES, SHARDS, NodeRecord, ShardRecord
from goqueue.core.cluster.records import encode as record
from goqueue.drive.partition import Partition
from goqueue.drive.per_shard import ShardMap
from goqueue.format.batch import BatchHeader, Buffer
from goqueue.node_services import NodeServices, Ports
from goqueue.service.router import Router
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, in_place, run_virtually
from tests.service.brokers import SeededEntropy, settings

SHARD_COUNT = 6


class SaltedEntropy(SeededEntropy):
    """Of one node: no two of them say the same."""

    def __init__(self, node: int) -> None:
        super().__init__()
        self._count = node << 40


class Links:
    """The port between nodes as one of them sees it."""

    def __init__(self, nodes: Nodes, me: int) -> None:
        self._nodes = nodes
        self._me = me

    async def call(self, node: int, verb: str, body: bytes, within_s: float, lane: str = "calls") -> bytes:
        assert verb == "do" and node != self._me
        self._nodes.calls.append((self._me, node))
        if node in self._nodes.gone:
            raise PeerOutOfReach(f"Node {node} is not there.")
        serving = asyncio.ensure_future(self._serve(node, body))
        try:
            async with asyncio.timeout(within_s):
                answer = await serving
        except TimeoutError:
            raise PeerLost("It took too long.") from None
        finally:
            serving.cancel()
        if node in self._nodes.deaf:
            raise PeerLost("The answer did not come.")
        if isinstance(answer, GoQueueError):
            raise answer
        return answer

    async def _serve(self, node: int, body: bytes) -> bytes | GoQueueError:
        await asyncio.sleep(0.001)  # on its way
        if node in self._nodes.silent:
            await asyncio.sleep(3600)
        try:
            reply: bytes | GoQueueError = await self._nodes.router(node).carry_out(None, body)
        except GoQueueError as error:
            reply = decode(encode(error), GoQueueError)
        await asyncio.sleep(0.001)
        return reply


class Nodes:
    """`gone` cannot be reached, `silent` never answer, the answers of those that are `deaf` are lost."""

    def __init__(self, loop: VirtualLoop, count: int, chosen: Settings) -> None:
        self.loop = loop
        self.calls: list[tuple[int, int]] = []
        self.gone: set[int] = set()
        self.silent: set[int] = set()
        self.deaf: set[int] = set()
        self._revision = 1_000
        self.brokers = [self._broker(number, chosen) for number in range(count)]

    def _broker(self, number: int, chosen: Settings) -> Broker:
        mine = replace(chosen, node=NodeSettings(id=number, shards=SHARD_COUNT))
        ports = Ports(SimDisk(), in_place, VirtualClock(self.loop), SaltedEntropy(number))
        return Broker(NodeServices(mine, ports), calls=Links(self, number))

    def router(self, node: int) -> Router:
        routing = self.brokers[node].routing
        assert routing is not None
        return routing.router

    async def start(self) -> None:
        for number, broker in enumerate(self.brokers):
            await broker.start()
            for _ in range(100 * number):  # so that no two give the same
                await broker.producer_ids.next_id()
            self.router(number)._catch_up = _at_once  # type: ignore[assignment, method-assign]
            self.tell(broker, {f"{NODES}{one}": record(NodeRecord("", "")) for one in range(len(self.brokers))})
            shards = broker.node.shard_map
            shards.leads = partial(_leads, shards)  # type: ignore[method-assign]

    async def stop(self) -> None:
        for broker in self.brokers:
            self.lead(broker, dict.fromkeys(range(SHARD_COUNT), broker.node.settings.node.id))
            await broker.stop()

    # --- who leads -------------------------------------------------------------------------------------------

    def lead(self, broker: Broker, leaders: dict[int, int]) -> None:
        """One node hears who leads these shards."""
        records = {shard: ShardRecord(node, 1, (node,), (node,)) for shard, node in leaders.items()}
        self.tell(broker, {f"{SHARDS}{shard}": record(one) for shard, one in records.items()})

    def tell(self, broker: Broker, facts: dict[str, str]) -> None:
        """One node hears of these."""
        self._revision += 1
        puts = [Entry(key, value, 1, self._revision) for key, value in facts.items()]
        change = Change(broker.metadata.image.revision, puts)
        broker.metadata.image.apply(change)
        broker.node._metadata_changed(change)

    def spread(self) -> None:
        """All nodes lead as many shards."""
        for broker in self.brokers:
            self.lead(broker, {shard: shard % len(self.brokers) for shard in range(SHARD_COUNT)})

    def move(self, at: TopicPartition, node: int, told: list[int] | None = None) -> None:
        """Its shard is led there; all nodes hear of it, or those that are told."""
        shard = self.brokers[0].node.shard_map.of_partition(at)
        for number in range(len(self.brokers)) if told is None else told:
            self.lead(self.brokers[number], {shard: node})

    # --- what there is ---------------------------------------------------------------------------------------

    async def create(self, topic: str, partitions: int, config: dict[str, object] | None = None) -> None:
        for broker in self.brokers:
            await broker.topics.create(topic, partitions, config or {})
        shards = {broker.topics.require(topic).record.shards for broker in self.brokers}
        assert len(shards) == 1

    def places(self, topic: str) -> list[TopicPartition]:
        return [one.at for one in self.brokers[0].topics.require(topic).partitions]

    def leader(self, at: TopicPartition) -> int:
        return self.brokers[0].node.shard_map.leader_of(at)

    def led_by(self, node: int, topic: str) -> list[TopicPartition]:
        return [at for at in self.places(topic) if self.leader(at) == node]

    def name_at(self, node: int, prefix: str = "g") -> str:
        """An id that the node keeps."""
        shards = self.brokers[0].node.shard_map
        return next(f"{prefix}{number}" for number in range(1000) if shards.leader_of_id(f"{prefix}{number}") == node)

    def stored(self, topic: str) -> dict[int, dict[int, int]]:
        """How many messages each node has of each partition, where it has any."""
        return {
            number: {
                one.at.partition: one.high_watermark
                for one in broker.topics.require(topic).partitions
                if one.high_watermark
            }
            for number, broker in enumerate(self.brokers)
        }


async def _at_once(_: Revision) -> None:
    """Revisions of different stores say nothing about each other."""


def _leads(shards: ShardMap, at: TopicPartition) -> bool:
    try:
        return shards.leader_of(at) == shards.node
    except NotLeader:
        return False


async def send(broker: Broker, topic: str, *messages: InputMessage) -> list[PublishResult]:
    return await broker.routed(broker.publish).messages(PublishMessages(topic, messages))


def to(partition: int, value: str) -> InputMessage:
    return InputMessage(None, value.encode(), partition=partition)


@contextmanager
def only_leaders_append() -> Iterator[None]:
    """What partitions do by themselves once their nodes have roles."""
    append = Partition.append
    patch = pytest.MonkeyPatch()

    def checked(self: Partition, batch: Buffer, header: BatchHeader, now: int, append_time: bool) -> Offset:
        nodes = _RUNNING[-1]
        for number, broker in enumerate(nodes.brokers):
            topic = broker.topics.find(self.at.topic)
            is_its = topic is not None and not topic.is_internal and self in topic.partitions
            if is_its and not broker.node.shard_map.leads(self.at):
                raise NotLeader(f"Node {number} does not lead {self.at}.")
        return append(self, batch, header, now, append_time)

    patch.setattr(Partition, "append", checked)
    try:
        yield
    finally:
        patch.undo()


_RUNNING: list[Nodes] = []


def nodes_story(
    story: Callable[[Nodes], Awaitable[None]], count: int = 3, chosen: Settings | None = None, is_strict: bool = True
) -> None:
    """Runs it on nodes that lead two shards each, where the topic `t` has a partition in every shard. If it is not
    strict nodes also store what others lead: what a node does by itself is not looked at."""

    async def run(loop: VirtualLoop) -> None:
        nodes = Nodes(loop, count, chosen or settings())
        _RUNNING.append(nodes)
        try:
            await nodes.start()
            await nodes.create("t", SHARD_COUNT)
            nodes.spread()
            with only_leaders_append() if is_strict else nullcontext():
                await story(nodes)
            await nodes.stop()
        finally:
            _RUNNING.pop()

    run_virtually(run)
