"""Several nodes in one process and in virtual time: whole brokers on simulated disks, with one store and one network.

A node that is killed stops in the middle of everything: its tasks end, its timers are gone, its disk takes no more
writes. What its next start finds is what a real one could find.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar

import msgspec

from goqueue.base.cluster_settings import ClusterSettings
from goqueue.base.errors import GoQueueError, PeerLost
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import KIB
from goqueue.base.log_settings import Fsync, LogSettings
from goqueue.base.node_settings import NodeSettings
from goqueue.base.settings import Settings, TopicSettings
from goqueue.broker import Broker
from goqueue.drive.cluster_member import ClusterPorts
from goqueue.drive.peers import NODE_PORT, PeerVerb
from goqueue.log.journal import JournalJob
from goqueue.node_services import NodeServices, Ports
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from goqueue.sim.metadata import SimMetadata, SimMetadataStore
from goqueue.sim.network import SimNetwork
from goqueue.sim.time import VirtualClock, VirtualLoop
from goqueue.sim.trace import Trace
from goqueue.wire.node_frames import Hello

T = TypeVar("T")
_RUNNING: ContextVar[Any] = ContextVar("running", default=None)  # the node whose work it is
SESSION_MS: Final = 3_000
_STOP_S: Final = 20.0
STORE_S: Final = 0.002  # until the store answers
_SCRUB_MS: Final = 2_000
_AGAIN_S: Final = 1.0  # after a start that failed
_SYNC_S: Final = 0.001  # of the journal: not so short that it would be done on the loop


class ClusterPlan(msgspec.Struct, frozen=True):
    """What is simulated."""

    nodes: int = 3
    shards: int = 3
    fsync: Fsync = "interval"
    skews_ms: tuple[Millis, ...] = (0,)  # by how much each node's clock is wrong

    @property
    def factor(self) -> int:
        return min(3, self.nodes)

    @property
    def has_moves(self) -> bool:
        """There is room for shards to move to."""
        return self.nodes > self.factor


class SimEntropy:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def token(self, size: int) -> bytes:
        return self._chance.randbytes(size)


class SimNode:
    """One machine: what survives a crash of its process, and the process."""

    def __init__(self, cluster: SimCluster, number: int) -> None:
        self.number = number
        self.disk = SimDisk()
        self.boots = 1
        self.clock = VirtualClock(cluster.loop)
        self.clock.step(cluster.plan.skews_ms[number % len(cluster.plan.skews_ms)])
        self.disk_s = 0.0  # what it takes to write and sync
        self.is_damaged = False  # something that it held was changed behind its back
        self.is_up = False
        self.is_ready = False
        self.broker: Broker | None = None
        self.client: SimMetadata | None = None
        self._cluster = cluster
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in their order, which a set would not keep

    # --- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """In the background: a new cluster waits for its nodes."""
        self.is_up = True
        self.run(self._serve()).add_done_callback(self._started)

    def _started(self, serving: asyncio.Task[bytes]) -> None:
        """A process that could not start ends, and is started again, as a supervisor does."""
        if self.is_up and not serving.cancelled() and isinstance(serving.exception(), OSError | GoQueueError):
            self.kill()
            self._cluster.loop.call_later(_AGAIN_S, self._start_again)

    def _start_again(self) -> None:
        if not self.is_up:
            self.start()

    async def _serve(self) -> bytes:
        cluster = self._cluster
        self.client = cluster.store.client()
        self.client.delay_s = STORE_S
        address = f"node-{self.number}"

        async def open_door(me: Hello, verbs: Mapping[str, PeerVerb]) -> None:
            cluster.network.open(address, self, self.number, verbs)

        ports = Ports(self.disk, self._on_disk, self.clock, SimEntropy(cluster.chance))
        others = ClusterPorts(self.client, {NODE_PORT: address}, open_door, f"boot {self.boots}", cluster.network.link)
        self.broker = Broker(NodeServices(cluster.settings(self.number), ports, cluster=others))
        await self.broker.start()
        self.is_ready = True
        return b""

    async def _on_disk(self, work: Callable[[], T]) -> T:
        """An `Offload` that takes the time that the disk takes."""
        await asyncio.sleep(self.disk_s)
        done, job = work(), getattr(work, "__self__", None)
        if isinstance(job, JournalJob):
            job.seconds = max(self.disk_s, _SYNC_S)  # by a clock that is the same every time
        return done

    def kill(self, power_cut: CrashMode | None = None) -> None:
        """`power_cut` says what the disk makes of what was not synced; without one the machine goes on."""
        self.resume()
        self.is_up = self.is_ready = False
        self.disk.crash_at = self.disk.steps
        client, self.broker, self.client = self.client, None, None
        self._cluster.forget(self)
        self._cluster.network.close(self.number)
        for task in list(self._tasks):
            task.cancel()
        if client is not None:
            client.is_cut_off = True
            self._cluster.end_sessions_later(client, lambda: True)
        self.disk = self.disk.crash(power_cut or "kept", self._cluster.chance.randrange(1 << 30))
        self.boots += power_cut is not None

    async def stop(self) -> None:
        """As planned: it hands over what it leads, and closes. One that takes too long is killed."""
        if self.broker is not None and self.is_ready:
            await asyncio.wait([self.run(self._stop(self.broker))], timeout=_STOP_S)
            self.kill()

    async def _stop(self, broker: Broker) -> None:
        if broker.node.member is not None:
            await broker.node.member.hand_over()
        self.is_ready = False
        await broker.stop()

    def pause(self) -> None:
        """It stands still: nothing of it runs, its connections stay, and the store gives it up after a while."""
        self._cluster.hold(self, True)
        if self.client is not None:
            self._cluster.end_sessions_later(self.client, lambda: self.is_paused)

    def resume(self) -> None:
        self._cluster.hold(self, False)

    @property
    def is_paused(self) -> bool:
        return self._cluster.is_held(self)

    def lose_disk(self) -> None:
        """After a kill: the next start finds an empty directory."""
        self.disk = SimDisk()
        self.is_damaged = False

    # --- its work --------------------------------------------------------------------------------------------

    def run(self, work: Awaitable[T]) -> asyncio.Task[T]:
        """As the node's own: it ends when the node is killed."""

        async def awaited() -> T:
            return await work

        context = copy_context()
        context.run(_RUNNING.set, self)
        begun = work if isinstance(work, Coroutine) else awaited()  # one that never begins is not to be warned of
        return self._cluster.loop.create_task(begun, context=context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def ask(self, question: Callable[[Broker], Awaitable[T]], within_s: float = 5.0) -> T:
        """As a client that reaches this node; `PeerLost` if it does not answer."""
        chance, network = self._cluster.chance, self._cluster.network
        await asyncio.sleep(chance.uniform(*network.delay_s))
        broker = self.broker
        if broker is None or not self.is_ready:
            raise PeerLost(f"Node {self.number} is down.")
        work = self.run(question(broker))
        done, _ = await asyncio.wait([work], timeout=within_s)
        if not done:
            work.cancel()
            raise PeerLost(f"Node {self.number} did not answer in time.")
        if work.cancelled():
            raise PeerLost(f"Node {self.number} went away.")
        answer = self._result(work)
        await asyncio.sleep(chance.uniform(*network.delay_s))
        return answer

    def _result(self, work: asyncio.Task[T]) -> T:
        try:
            answer = work.result()
        except PowerCut:
            raise PeerLost(f"Node {self.number} went away.") from None
        except GoQueueError as error:
            self._cluster.note(f"{self.number} says {error.code}")
            raise
        self._cluster.note(f"{self.number} answers", repr(answer).encode())
        return answer


class SimCluster:
    """All of it. `chance` decides everything that is not decided by the code under test."""

    def __init__(self, loop: VirtualLoop, seed: int, plan: ClusterPlan | None = None) -> None:
        self.loop = loop
        self.chance = random.Random(seed)
        self.plan = plan or ClusterPlan()
        self.trace = Trace()
        self.store = SimMetadataStore()
        self.network = SimNetwork(self.chance, self.note)
        self.on_acknowledged: Callable[[TopicPartition, Offset], None] = lambda *_: None  # as a leader says so
        self._clock = VirtualClock(loop)
        self._held: frozenset[SimNode] = frozenset()
        self.nodes = [SimNode(self, number) for number in range(self.plan.nodes)]
        loop.set_task_factory(_task_of)  # type: ignore[arg-type]

    def note(self, what: str, content: bytes = b"") -> None:
        self.trace.note(self.loop.time(), what, content)

    @property
    def skew_ms(self) -> Millis:
        """By how much clocks of two nodes differ."""
        return max(self.plan.skews_ms) - min(self.plan.skews_ms)

    @property
    def true_ms(self) -> Millis:
        """What a clock shows that is right."""
        return self._clock.now_ms()

    def settings(self, number: int) -> Settings:
        plan = self.plan
        return Settings(
            node=NodeSettings(id=number, shards=plan.shards),
            cluster=ClusterSettings(
                store="etcd://simulated:1", nodes=plan.nodes, replication_factor=plan.factor, session_ms=SESSION_MS
            ),
            log=LogSettings(
                fsync=plan.fsync, journal_bytes=64 * KIB, index_interval_bytes=256, scrub_interval_ms=_SCRUB_MS
            ),
            topics=TopicSettings(partitions=plan.shards),
        )

    async def start(self) -> None:
        for node in self.nodes:
            node.start()
        await self.until(lambda: all(node.is_ready for node in self.nodes))

    async def until(self, holds: Callable[[], bool], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    # --- who leads -------------------------------------------------------------------------------------------

    def leader_of(self, at: TopicPartition) -> SimNode | None:
        """The node that serves a partition, as far as anybody does."""
        for node in self.nodes:
            if node.broker is not None and node.is_ready:
                topic = node.broker.topics.find(at.topic)
                if topic is not None and topic.partitions[at.partition].state.is_served:
                    return node
        return None

    @property
    def is_healed(self) -> bool:
        """Every shard is led, none moves, and everybody is in sync and whole."""
        ready = [node.broker for node in self.nodes if node.broker is not None and node.is_ready]
        if len(ready) < len(self.nodes):
            return False
        image = ready[0].node.metadata.image
        records = [image.shard(shard) for shard in image.shards()]
        if any(node.damaged for node in image.nodes().values()):
            return False
        is_whole = all(
            record.leader >= 0 and not record.target and set(record.in_sync) == set(record.replicas)
            for record in records
        )
        return is_whole and sum(len(broker.node.shard_map.led or ()) for broker in ready) == len(records)

    # --- nodes that stand still, and the end of one ----------------------------------------------------------

    def hold(self, node: SimNode, is_held: bool) -> None:
        held = self._held | {node} if is_held else self._held - {node}
        self._held, was_held = held, node in self._held
        self.loop.holds = (lambda handle: _owner(handle) in held) if held else None
        if was_held:
            self.loop.release()

    def is_held(self, node: SimNode) -> bool:
        return node in self._held

    def forget(self, node: SimNode) -> None:
        """Timers of a process go with it."""
        for handle in self.loop.waiting:
            if _owner(handle) is node and not _is_step(handle):
                handle.cancel()

    def end_sessions_later(self, client: SimMetadata, is_silent: Callable[[], bool]) -> None:
        """The store waits for a keep-alive for as long as a session lasts."""

        async def end() -> None:
            await asyncio.sleep(SESSION_MS / 1000)
            if is_silent():
                client.lose_sessions()

        self.loop.create_task(end(), context=copy_context())


def _owner(handle: asyncio.Handle) -> Any:
    """The node whose callback it is."""
    return handle._context.get(_RUNNING)  # type: ignore[attr-defined]


def _is_step(handle: Any) -> bool:
    """A step of a task, which has to be cancelled by its task."""
    return isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)


def _task_of(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], **more: Any) -> asyncio.Task[T]:
    task = asyncio.Task(work, loop=loop, **more)
    context = more.get("context")
    node = _RUNNING.get() if context is None else context.get(_RUNNING)
    if node is not None:
        node.adopt(task)
    return task
