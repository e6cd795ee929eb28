"""Kafka's door of node 0, whose image of the metadata says that nodes 1 and 2 are there too and lead shards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from goqueue.base.metadata import Commit
from goqueue.base.settings import DataSettings
from goqueue.broker import Broker
from goqueue.core.cluster.records import (
    CONTROLLER,
    MEMBERS,
    NODES,
    SHARDS,
    ControllerRecord,
    MemberRecord,
    NodeRecord,
    ShardRecord,
    TopicRecord,
    encode,
)
from goqueue.edge.doors import DoorAddresses
from goqueue.edge.kafka.budget import Budget
from goqueue.edge.kafka.calls import ConnectionEnd, KafkaPeer
from goqueue.edge.kafka.connection import Answered, Later
from goqueue.node import Node
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.door.kafka.raw import api_of, request_bytes, response_of
from tests.service.brokers import broker_on, settings, sharded

SHARDS_OF: Final = {0: 0, 1: 1, 2: 2, 3: 1}  # who leads each
EPOCH: Final = 7
LOCAL: Final = ("127.0.0.1", 9092)
TOPIC: Final = "t"
_STARTS: Final = {node: f"start-{node}" for node in range(3)}


Story = Callable[["Door"], Awaitable[None]]
Run = Callable[[Story], None]


class Door:
    """Takes requests as bytes, as the listener would."""

    def __init__(self, broker: Broker, chosen: Any) -> None:
        self.broker = broker
        self._dispatch = Node(chosen)._kafka_door(broker, DoorAddresses(), Budget(1 << 30))

    async def ask(self, request: object, version: int | None = None, peer: KafkaPeer | None = None) -> Any:
        """By a client of its own, or by this one."""
        api = api_of(request)
        version = api.max_version if version is None else version
        told = await self._answered(request, version, peer)
        assert told is not None
        return response_of(api, version, b"".join(told)[4:])[1]

    async def tell(self, request: object, version: int) -> None:
        """What has no answer."""
        assert await self._answered(request, version, None) is None

    async def _answered(self, request: object, version: int, peer: KafkaPeer | None) -> Answered:
        frame = memoryview(request_bytes(request, version, 1))[4:]
        answer = self._dispatch(frame, peer or KafkaPeer("127.0.0.1"), LOCAL, ConnectionEnd())
        return await answer.answer if isinstance(answer, Later) else answer

    def led_by(self, node: int) -> int:
        """A partition of the topic."""
        topic = self.broker.topics.require(TOPIC)
        return next(one.at.partition for one in topic.partitions if one.leader == node)

    def id_led_by(self, node: int) -> str:
        """A group or a transactional id."""
        leader = self.broker.node.shard_map.leader_of_id
        return next(name for number in count() if leader(name := f"id{number}") == node)

    async def change_shard(self, number: int, **changes: object) -> None:
        record = msgspec.structs.replace(self.broker.metadata.image.shard(number), **changes)
        await self.broker.metadata.commit(Commit({f"{SHARDS}{number}": encode(record)}))

    async def end_node(self, node: int) -> None:
        await self.broker.metadata.commit(Commit(deletes=[f"{NODES}{node}"]))


def record_of(node: int) -> NodeRecord:
    return NodeRecord("1", f"start-{node}", {"kafka": f"host{node}:{9000 + node}"}, rack=f"rack{node}")


def shard_of(number: int) -> ShardRecord:
    leader = SHARDS_OF[number]
    return ShardRecord(
        leader, EPOCH, (leader, (leader + 1) % 3, (leader + 2) % 3), (leader, (leader + 1) % 3), (), _STARTS
    )


async def _join(broker: Broker) -> None:
    """The topic is there before; then the node finds itself in a cluster."""
    made = await broker.topics.create(TOPIC, 4, {})
    placed = TopicRecord(TOPIC, made.id, 4, {}, made.created_ms, shards=(0, 1, 2, 3))
    await broker.metadata.commit(Commit({f"topics/{TOPIC}": encode(placed)}))
    topic = broker.topics.require(TOPIC)
    topic.record = placed
    puts: dict[str, msgspec.Struct] = {f"{NODES}{node}": record_of(node) for node in range(3)}
    puts |= {f"{SHARDS}{number}": shard_of(number) for number in SHARDS_OF}
    puts |= {f"{MEMBERS}{node}": MemberRecord(f"disk-{node}", f"rack{node}") for node in range(3)}
    puts[CONTROLLER] = ControllerRecord(2, "start-2")
    await broker.metadata.commit(Commit({key: encode(one) for key, one in puts.items()}))


def _give_up(broker: Broker) -> None:
    """What another node leads, as a node does that carries out what its image says."""
    broker.node.shard_map.lead_only({shard for shard, leader in SHARDS_OF.items() if leader == 0})
    for topic in broker.topics.everything():
        for partition in topic.partitions:
            if partition.leader != 0:
                partition.lead(None)


def at_node_0(tmp_path: Path, story: Story, *, in_cluster: bool = True) -> None:
    chosen = sharded(len(SHARDS_OF), settings())
    chosen = msgspec.structs.replace(chosen, data=DataSettings(str(tmp_path / "data")))

    async def scenario(loop: VirtualLoop) -> None:
        async with broker_on(SimDisk(), loop, chosen) as broker:
            if in_cluster:
                await _join(broker)
                _give_up(broker)
            else:
                await broker.topics.create(TOPIC, 4, {})
            await story(Door(broker, chosen))

    run_virtually(scenario)
