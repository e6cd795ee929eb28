"""Several brokers in one process, as nodes of a cluster: simulated disks and a simulated store, calls that pass bytes.

A node can die by a power cut: its tasks end, its disk keeps what the cut leaves, its session is over. A shard can be
given to another leader.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import msgspec
import pytest

from goqueue.base.cluster_settings import ClusterSettings
from goqueue.base.encoding import decode, encode
from goqueue.base.errors import GoQueueError, NotLeader, NotLoaded, PeerLost
from goqueue.base.features import KNOWN
from goqueue.base.ids import TopicPartition
from goqueue.base.metadata import Commit
from goqueue.base.node_settings import NodeSettings
from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.core.cluster.records import SHARDS
from goqueue.core.cluster.records import encode as encode_record
from goqueue.core.txn.errors import ConcurrentTransactions
from goqueue.core.txn.staged import kept_with
from goqueue.drive.cluster_member import ClusterPorts
from goqueue.drive.peers import NODE_PORT, Peers, PeerVerb
from goqueue.node_services import NodeServices, Ports
from goqueue.sim.disk import CrashMode, SimDisk
from goqueue.sim.metadata import SimMetadata, SimMetadataStore
from goqueue.sim.time import VirtualClock, VirtualLoop, in_place, run_virtually
from goqueue.wire.node_frames import Hello
from tests.service.brokers import settings

_NODE: Final = contextvars.ContextVar[int | None]("node", default=None)  # whose task it is
_LATENCY_S: Final = 0.001
_WAIT_S: Final = 60.0


class NumberedEntropy:
    """Another one for every start of every node."""

    def __init__(self, start: int) -> None:
        self._count = start << 64

    def token(self, size: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(max(size, 16), "big")[-size:]


class Nodes:
    """`broker(n)` is that of a node that lives."""

    def __init__(self, loop: VirtualLoop, count: int = 3, factor: int = 3, shards: int = 6) -> None:
        self.store = SimMetadataStore()
        self.brokers: dict[int, Broker] = {}
        self.calls: list[tuple[int, int, str]] = []  # from, to, verb: those that arrived
        self.before_call: Callable[[int, int, str], Awaitable[None]] | None = None
        self.after_call: Callable[[int, int, str], Awaitable[None]] | None = None  # before its answer is back
        self.racks: dict[int, str] = {}  # of nodes that are started from now on
        self.features: dict[int, Mapping[str, int]] = {}  # of those that do not know what this version knows
        self.boots: dict[int, str] = {}  # of their machines, of nodes that are started from now on
        self.fsync = "always"
        self.wrong_ms: dict[int, int] = {}  # by how much clocks of nodes that are started from now on are ahead
        self._loop = loop
        self._count, self._factor, self._shards = count, factor, shards
        self._disks = {node: SimDisk() for node in range(count)}
        self._clients: dict[int, SimMetadata] = {}
        self._verbs: dict[int, Mapping[str, PeerVerb]] = {}
        self._tasks: dict[int, set[asyncio.Task[Any]]] = {}
        self._starts = 0
        self._held: dict[int, asyncio.Event] = {}  # fetches from these wait
        loop.set_task_factory(self._new_task)

    def _new_task(self, loop: asyncio.AbstractEventLoop, coro: Any, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=loop, context=context)
        if (node := _NODE.get()) is not None:
            self._tasks.setdefault(node, set()).add(task)
            task.add_done_callback(self._tasks[node].discard)
        return task

    def run_at(self, node: int, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """As a task of the node, which ends with it."""
        context = contextvars.copy_context()
        context.run(_NODE.set, node)
        return context.run(self._loop.create_task, work)

    # --- start, die, stop ------------------------------------------------------------------------------------

    async def start_all(self) -> None:
        await asyncio.gather(*(self.start(node) for node in range(self._count)))
        await self.until_led()

    async def start(self, node: int) -> None:
        self._clients[node] = self.store.client()
        self.brokers[node] = await self._started(node, self._clients[node], self._disks[node], f"node{node}:7000")

    async def start_copy(self, node: int, address: str) -> None:
        """Of a node that lives: with what is on its disk, on another."""
        await self._started(node, self.store.client(), self._disks[node].crash("kept"), address)

    async def _started(self, node: int, client: SimMetadata, disk: SimDisk, address: str) -> Broker:
        self._starts += 1
        clock, entropy = VirtualClock(self._loop), NumberedEntropy(self._starts)
        clock.step(self.wrong_ms.get(node, 0))
        ports = Ports(disk, in_place, clock, entropy)
        addresses = {NODE_PORT: address, "kafka": f"node{node}:9092"}
        door, features = self._open_door(node), self.features.get(node, KNOWN)
        boot = self.boots.get(node, "")
        cluster = ClusterPorts(client, addresses, door, boot, features=features)
        services = NodeServices(self._settings(node), ports, cluster=cluster)
        broker = Broker(services)
        await self.run_at(node, broker.start())
        return broker

    async def alone(self, node: int, story: Callable[[Broker], Awaitable[None]]) -> None:
        """What the node does on its disk before there is a cluster."""
        alone = msgspec.structs.replace(settings(fsync="always"), node=NodeSettings(id=node, shards=self._shards))
        ports = Ports(self._disks[node], in_place, VirtualClock(self._loop), NumberedEntropy((1 << 20) + node))
        broker = Broker(NodeServices(alone, ports))
        await broker.start()
        await story(broker)
        await broker.stop()

    def _settings(self, node: int) -> Settings:
        cluster = ClusterSettings(
            store="etcd://sim:1",
            rack=self.racks.get(node, ""),
            nodes=self._count,
            replication_factor=self._factor,
        )
        return msgspec.structs.replace(
            settings(fsync=self.fsync), node=NodeSettings(id=node, shards=self._shards), cluster=cluster
        )

    def _open_door(self, node: int) -> Callable[[Hello, Mapping[str, PeerVerb]], Awaitable[None]]:
        async def open_door(me: Hello, verbs: Mapping[str, PeerVerb]) -> None:
            self._verbs[node] = verbs

        return open_door

    def kill(self, node: int, mode: CrashMode = "dropped") -> None:
        """A power cut."""
        disk = self._disks[node]
        disk.crash_at = disk.steps
        self._verbs.pop(node, None)
        self.brokers.pop(node, None)
        for task in list(self._tasks.get(node, ())):
            task.cancel()
        for session in self._clients[node]._sessions:
            self.store.end_session(session)
        self._disks[node] = disk.crash(mode, self._starts)

    def hide_changes(self, node: int, is_hidden: bool) -> None:
        """It does not hear of what becomes of the metadata."""
        self._clients[node].watches_stale = is_hidden
        self.store.wake()

    def end_session(self, node: int) -> None:
        """Of a node that lives and is not told."""
        self._clients[node].lose_sessions()

    async def stop_all(self) -> None:
        for node, broker in list(self.brokers.items()):
            await self.run_at(node, broker.stop())
            self._verbs.pop(node, None)

    # --- between them ----------------------------------------------------------------------------------------

    @contextmanager
    def held_fetches(self, leader: int) -> Iterator[Callable[[], None]]:
        """Nobody gets what that node leads, until what this gives is called, or to the end."""
        self._held[leader] = released = asyncio.Event()
        try:
            yield released.set
        finally:
            released.set()
            del self._held[leader]

    async def call(self, by: Hello, node: int, verb: str, body: bytes, within_s: float) -> bytes:
        if self.before_call is not None and verb not in ("ping", "fetch"):
            await self.before_call(by.node_id, node, verb)
        if verb == "fetch" and node in self._held:
            await self._held[node].wait()
        await asyncio.sleep(_LATENCY_S)
        served = self._verbs.get(node)
        if served is None or by.node_id not in self._verbs:
            raise PeerLost(f"Node {node} is not there.")
        self.calls.append((by.node_id, node, verb))
        answer = self.run_at(node, _encoded(served[verb](by, body)))
        done, _ = await asyncio.wait([answer], timeout=within_s)
        if not done or answer.cancelled() or answer.exception() is not None:
            answer.cancel()
            raise PeerLost(f"Node {node} does not answer.")
        if self.after_call is not None and verb not in ("ping", "fetch"):
            await self.after_call(by.node_id, node, verb)
        await asyncio.sleep(_LATENCY_S)
        is_error, told = answer.result()
        if is_error:
            raise decode(told, GoQueueError)
        return bytes(told)

    # --- shards ----------------------------------------------------------------------------------------------

    @property
    def any(self) -> Broker:
        return next(iter(self.brokers.values()))

    def leader_of(self, at: TopicPartition) -> Broker:
        return self.brokers[self.any.node.shard_map.leader_of(at)]

    def keeper_of(self, given_id: str) -> Broker:
        return self.brokers[self.any.node.shard_map.leader_of_id(kept_with(given_id))]

    def led_by(self, node: int) -> list[int]:
        image = self.any.metadata.image
        return [shard for shard in image.shards() if image.shard(shard).leader == node]

    def id_at(self, node: int, prefix: str = "p") -> str:
        """An id that the node keeps."""
        leader = self.any.node.shard_map.leader_of_id
        return next(name for number in range(10_000) if leader(name := f"{prefix}{number}") == node)

    def place_at(self, node: int, topic: str) -> TopicPartition:
        """A partition that the node leads."""
        leader, count = self.any.node.shard_map.leader_of, len(self.any.topics.require(topic).partitions)
        places = (TopicPartition(topic, number) for number in range(count))
        return next(at for at in places if leader(at) == node)

    async def move(self, shard: int, node: int) -> None:
        """Another leader; returns when it serves."""
        while node not in self.any.metadata.image.shard(shard).in_sync:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        self.appoint(shard, node)
        await self.until_led()

    def appoint(self, shard: int, node: int) -> None:
        """Another leader, as far as the metadata says."""
        key, image = f"{SHARDS}{shard}", self.any.metadata.image
        record = image.shard(shard)
        moved = msgspec.structs.replace(record, leader=node, epoch=record.epoch + 1)
        self.store.commit(Commit({key: encode_record(moved)}, modified={key: image.modified(key)}))

    async def until_led(self) -> None:
        """Every shard is served by a node that lives."""
        await until(self._all_led)

    def _all_led(self) -> bool:
        image = self.store.state.read()
        shards = [key for key in image.entries if key.startswith(SHARDS)]
        if not shards or not self.brokers:
            return False
        for broker in self.brokers.values():
            led = broker.metadata.image
            if any(not self._is_served(led.shard(shard).leader, shard) for shard in led.shards()):
                return False
        return True

    def _is_served(self, node: int, shard: int) -> bool:
        broker = self.brokers.get(node)
        if broker is None or not broker.node.shard_map.is_led(shard):
            return False
        return all(partition.state.is_served for _, partition in broker.table.in_shard(shard))

    async def create(self, topic: str, partitions: int, config: Mapping[str, object] | None = None) -> None:
        """Every node knows it when this returns."""
        await self.any.topics.create(topic, partitions, config or {})
        await self.until_known(topic)

    async def until_known(self, topic: str) -> None:
        await until(lambda: all(one.topics.find(topic) is not None for one in self.brokers.values()))
        await self.until_led()


async def _encoded(answer: Awaitable[bytes]) -> tuple[bool, bytes]:
    try:
        return False, await answer
    except GoQueueError as error:
        return True, encode(error)


async def until(is_so: Callable[[], bool], within_s: float = _WAIT_S, step_s: float = 0.01) -> None:
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(step_s)


async def patiently(work: Callable[[], Awaitable[Any]], within_s: float = _WAIT_S) -> Any:
    """As a client does that looks for the leader again."""
    async with asyncio.timeout(within_s):
        while True:
            try:
                return await work()
            except (NotLeader, NotLoaded, PeerLost, ConcurrentTransactions, KeyError):
                await asyncio.sleep(0.05)


def run_nodes(
    story: Callable[[Nodes], Awaitable[None]],
    patch: pytest.MonkeyPatch,
    count: int = 3,
    factor: int = 3,
    is_started: bool = True,
) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        async with _running(loop, patch, count, factor) as nodes:
            if is_started:
                await nodes.start_all()
            await story(nodes)

    run_virtually(scenario)


@asynccontextmanager
async def _running(loop: VirtualLoop, patch: pytest.MonkeyPatch, count: int, factor: int) -> AsyncIterator[Nodes]:
    nodes = Nodes(loop, count, factor)

    async def call(self: Peers, node: int, verb: str, body: bytes, within_s: float, lane: str = "calls") -> bytes:
        return await nodes.call(self._me(), node, verb, body, within_s)

    with patch.context() as context:
        context.setattr(Peers, "call", call)
        yield nodes
        await nodes.stop_all()
