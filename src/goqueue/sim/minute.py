"""A stretch of time of a simulated cluster under load and faults, and what has to hold afterwards."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from goqueue.base.errors import GoQueueError, NotLeader
from goqueue.base.ids import TopicPartition
from goqueue.base.log_settings import Fsync
from goqueue.broker import Broker
from goqueue.sim.cluster import ClusterPlan, SimCluster
from goqueue.sim.delayed import DelayedProducer
from goqueue.sim.faults import Faults
from goqueue.sim.invariants import Invariants
from goqueue.sim.registering import SchemaRegistrar
from goqueue.sim.remade import RemadeTopic, TrimmedTopic
from goqueue.sim.time import VirtualLoop, run_virtually
from goqueue.sim.transactions import TransactionalProducer, check_transactions
from goqueue.sim.violation import Violation
from goqueue.sim.workload import (
    IdempotentProducer,
    LeaseLedger,
    LogReader,
    Worker,
    check_log,
    check_replicas,
    read_from,
)

PARTITIONS: Final = 3
WORKERS: Final = 2
QUEUE, ATOMIC, LATER, AGAIN, SHORT = "t", "atomic", "later", "again", "short"  # topics
_SEGMENT_MS: Final = 2_500  # so that there are sealed ones
_PROGRESS_S: Final = 18.0
_TRIES: Final = 20  # a tenth of a second apart
_SKEWS_MS: Final = ((0,), (250, -240, 0), (-200, 240, 100))  # within what a cluster allows for


class Minute(msgspec.Struct, frozen=True):
    """What is run."""

    seed: int
    fsync: Fsync = "interval"
    seconds: float = 10.0


class SimClient(Protocol):
    """Works until it is cancelled."""

    def run(self) -> Coroutine[Any, Any, None]: ...


class Counted(SimClient, Protocol):
    @property
    def count(self) -> int:
        """Of what it got done."""
        ...


class MinuteOutcome(NamedTuple):
    """`broken` is empty if everything that was promised held."""

    broken: str
    told: list[str]
    digest: str
    events: int


def has_moves(seed: int) -> bool:
    """Whether there is a fourth node, so that shards move, and nodes join and leave."""
    return bool(seed & 2)


def run_minute(minute: Minute) -> MinuteOutcome:
    """In virtual time; the same every time."""
    return run_virtually(lambda loop: _Run(loop, minute).outcome())


class _Run:
    def __init__(self, loop: VirtualLoop, minute: Minute) -> None:
        self._minute = minute
        skews_ms = _SKEWS_MS[minute.seed % len(_SKEWS_MS)]
        plan = ClusterPlan(4 if has_moves(minute.seed) else 3, fsync=minute.fsync, skews_ms=skews_ms)
        self._cluster = cluster = SimCluster(loop, minute.seed, plan)
        self._faults = Faults(cluster, minute.seed)
        self._places = [TopicPartition(QUEUE, number) for number in range(PARTITIONS)]
        self._atomic = [TopicPartition(ATOMIC, number) for number in range(PARTITIONS)]
        self._producers = {at: IdempotentProducer(cluster, at, 1_000 + at.partition) for at in self._places}
        self._readers = {at: LogReader(cluster, at) for at in self._places}
        self._ledger = LeaseLedger()
        self._workers = [Worker(cluster, self._ledger, self._places, f"worker {number}") for number in range(WORKERS)]
        self._transactional = TransactionalProducer(cluster, self._atomic, "mover")
        self._delayed = DelayedProducer(cluster, TopicPartition(LATER, 0))
        self._registrar = SchemaRegistrar(cluster)
        self._remade = RemadeTopic(cluster, TopicPartition(AGAIN, 0))
        self._trimmed = TrimmedTopic(cluster, TopicPartition(SHORT, 0))

    async def outcome(self) -> MinuteOutcome:
        broken = ""
        try:
            await self._live()
        except Exception as error:
            broken = repr(error) if isinstance(error, Violation) else f"{error!r} in {_place_of(error)}"
        trace = self._cluster.trace
        return MinuteOutcome(broken, self._faults.told, trace.digest, trace.count)

    async def _live(self) -> None:
        cluster = self._cluster
        await cluster.start()
        await self._make_topics()
        clients = [cluster.loop.create_task(run) for run in self._runs()]
        try:
            await _unless_broken(self._through_faults(), clients)
        finally:
            for client in clients:
                client.cancel()
        await asyncio.sleep(self._delayed.longest_s + 2)
        await self._check_healed()
        await self._check()

    async def _through_faults(self) -> None:
        await self._faults.run(self._minute.seconds)
        await self._check_healed()
        await self._check_progress()

    def _runs(self) -> list[Coroutine[Any, Any, None]]:
        clients: list[SimClient] = [Invariants(self._cluster), *self._counted, *self._readers.values(), *self._workers]
        clients += [self._remade, self._trimmed]
        return [one.run() for one in clients]

    @property
    def _counted(self) -> list[Counted]:
        return [*self._producers.values(), self._transactional, self._delayed, self._registrar]

    async def _make_topics(self) -> None:
        for name, count in ((QUEUE, PARTITIONS), (ATOMIC, PARTITIONS), (LATER, 1), (SHORT, 1)):
            await self._cluster.nodes[0].ask(_creating(name, count))
        places = [*self._places, *self._atomic, TopicPartition(LATER, 0), TopicPartition(SHORT, 0)]
        await self._cluster.until(lambda: all(self._cluster.leader_of(at) is not None for at in places))

    # --- what has to hold --------------------------------------------------------------------------------------

    async def _check_healed(self) -> None:
        try:
            await self._cluster.until(lambda: self._cluster.is_healed)
        except TimeoutError:
            raise Violation("the cluster is not whole a minute after the faults") from None

    async def _check_progress(self) -> None:
        """What was lost on its way is waited for by who asked, until its own deadline."""
        before = [one.count for one in self._counted]
        try:
            await self._cluster.until(lambda: not self._stuck(before), _PROGRESS_S)
        except TimeoutError:
            raise Violation(f"after the faults these do not get on: {self._stuck(before)}") from None
        await self._check_healed()

    def _stuck(self, before: list[int]) -> list[str]:
        counted = zip(before, self._counted, strict=True)
        return [type(one).__name__ for count, one in counted if one.count <= count]

    async def _check(self) -> None:
        for at in self._places:
            values = await self._read(at)
            check_log(values, [self._producers[at]])
            for offset, value in self._readers[at].seen.items():
                if values.get(offset) != value:
                    raise Violation(f"{at} {offset} was read as {value} and is {values.get(offset)}")
        check_transactions([await self._read(at) for at in self._atomic], self._transactional)
        await self._registrar.check()
        self._delayed.check(await self._read(TopicPartition(LATER, 0)))
        for at in (*self._places, *self._atomic, *(TopicPartition(name, 0) for name in (LATER, SHORT, AGAIN))):
            check_replicas(self._cluster, at)

    async def _read(self, at: TopicPartition) -> dict[int, str]:
        """Of committed data. A leader may just hand over to the preferred one: then that one is asked."""
        told = "nobody leads it"
        for _ in range(_TRIES):
            leader = self._cluster.leader_of(at)
            try:
                if leader is not None:
                    return await leader.ask(lambda broker: read_from(broker, at, 0))
            except NotLeader as error:
                told = repr(error)
            except GoQueueError as error:
                raise Violation(f"{at} cannot be read after the faults: {error!r}") from None
            await asyncio.sleep(0.1)
        raise Violation(f"{at} cannot be read after the faults: {told}")


def _place_of(error: Exception) -> str:
    """Where it was raised that nobody expected."""
    frames = traceback.extract_tb(error.__traceback__)
    return ", ".join(f"{frame.name}:{frame.lineno}" for frame in frames[-4:])


def _creating(name: str, count: int) -> Callable[[Broker], Awaitable[object]]:
    return lambda broker: broker.topics.create(name, count, {"segment.ms": _SEGMENT_MS})


async def _unless_broken(work: Coroutine[Any, Any, None], clients: list[asyncio.Task[None]]) -> None:
    """A client ends only by finding something wrong."""
    task = asyncio.get_running_loop().create_task(work)
    done, _ = await asyncio.wait([task, *clients], return_when=asyncio.FIRST_COMPLETED)
    task.cancel()
    for one in done - {task}:
        one.result()
    await task
