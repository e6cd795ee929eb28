"""Runs the schedule: performs what its machine decides, answers what it asks, and keeps its index.

Messages are delivered when the firing that names them is durable; entries end when their messages are durable in the
target's log. Reading payloads, asking the index and searching logs is done off the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from goqueue.base.clock import AgreedClock, SteadyClock
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset
from goqueue.base.log_settings import Fsync
from goqueue.core.schedule.due import Due, DueBatch, delivered_record
from goqueue.core.schedule.effects import (
    EndDiscarded,
    Expired,
    FetchAhead,
    FireDue,
    LoadWindow,
    RebuildIndex,
    Recover,
    ScheduleCounts,
)
from goqueue.core.schedule.machine import ScheduleMachine
from goqueue.core.schedule.near import DueWindow
from goqueue.core.schedule.records import ScheduleRecord
from goqueue.drive.host import Host
from goqueue.drive.host_parts import Sink
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.schedule import Schedule, ScheduleEvents, ScheduleHost
from goqueue.drive.schedule_index import ScheduleIndex
from goqueue.drive.schedule_log import SCHEDULE_CODEC
from goqueue.drive.schedule_recovery import ScheduleRecovery
from goqueue.drive.schedule_store import ScheduleStore
from goqueue.drive.schedule_targets import DueTargets

logger = logging.getLogger(__name__)

_RETRY_S: Final = 1.0
_INDEX_S: Final = 0.2
_GATHER_S: Final = 0.5
_AHEAD_CHUNK: Final = 200
_CONFIRM_S: Final = 1.0
_ENDS: Final = 200  # a batch


class ScheduleParts(NamedTuple):
    """What all schedules of a node use."""

    targets: DueTargets
    events: ScheduleEvents
    clock: SteadyClock
    offload: Offload
    fsync: Fsync


class ScheduleRunner(Sink[ScheduleMachine, ScheduleRecord]):
    """Made empty, as one of so many on the node; `start` gives it its log. Verbs talk to its `schedule`."""

    def __init__(self, index: ScheduleIndex, parts: ScheduleParts, schedules: int = 1) -> None:
        targets, events, clock, offload, fsync = parts
        self.counts = ScheduleCounts()
        self._targets = targets
        self._events = events
        self._clock = clock
        self._fsync = fsync
        self._agreed = AgreedClock(clock)
        new = partial(ScheduleMachine, self.counts, schedules)
        self._host: ScheduleHost = Host(new, SCHEDULE_CODEC, self, self._agreed, offload)
        self.store = ScheduleStore(index, offload, fsync)
        self.schedule = Schedule(self._host, self.store, events, self._agreed)
        self._recovery = ScheduleRecovery(self.schedule, self._host, self.store, targets, offload)
        self._ahead: asyncio.Queue[list[Offset]] = asyncio.Queue()
        self._unindexed = asyncio.Event()
        self._unended: list[DueBatch] = []  # delivered, not known to be durable
        self._delivered = asyncio.Event()
        self._is_ready = asyncio.Event()
        self._failure: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.look_again = self._host.look_again
        self.clock_moved = self._host.clock_moved

    # --- start and stop ------------------------------------------------------------------------------------

    async def start(self, partition: Partition) -> None:
        """Finishes what the last run left; from then on entries become due."""
        await self._host.load(partition)
        for work in (self._confirm_for_ever(), self._keep_index(), self._fetch_ahead()):
            self._spawn(work)
        await self._is_ready.wait()
        if self._failure is not None:
            raise self._failure
        self.topic_deleted()

    def restore(self, machine: ScheduleMachine, partition: Partition) -> Offset:
        """Everything that waits is in the index, which reads what it does not know yet."""
        topic_id, number = self._targets.topic_id(partition.at.topic), partition.at.partition
        name, cuts = f"{topic_id}/{number}" if number else topic_id, partition.log.notes.cuts
        return self.store.open(machine, partition, f"{name}@{cuts}" if cuts else name)

    def unload(self, error: GoQueueError) -> None:
        """Another node has it: nothing is due here any more."""
        self._host.unload(error)

    async def stop(self) -> None:
        """What is pending stays on disk."""
        await self._host.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self.store.flush()
        except GoQueueError:
            logger.warning("the schedule's index is behind; the next start reads more of the log")
        await self.store.close()

    def topic_deleted(self) -> None:
        """Its entries go with it."""
        if self._is_ready.is_set():
            self._spawn(self.schedule.sweep(self._targets.has_topic))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.critical("the schedule stopped", exc_info=error)
            self._failure = error
            self._is_ready.set()

    # --- what the machine decided --------------------------------------------------------------------------

    def loaded(self, machine: ScheduleMachine) -> None:
        """What an earlier machine delivered is looked for anew."""
        self._unended = []

    def written(self, machine: ScheduleMachine, records: Sequence[ScheduleRecord], now: Millis) -> None:
        self._unindexed.set()

    def perform(self, effect: object) -> None:
        match effect:
            case DueBatch():
                self._deliver(effect)
            case FireDue():
                self._spawn(self._fire_due(self._host.machine, self._host.epoch))
            case FetchAhead():
                self._ahead.put_nowait(effect.offsets)
            case LoadWindow():
                self._spawn(self._load(effect.window))
            case Expired():
                self._events.expired(effect.members)
            case EndDiscarded():
                self._host.tell(lambda machine, now: machine.end_discarded())
            case RebuildIndex():
                self._spawn(self._rebuild())
            case Recover():
                self._spawn(self._recover(self._host.epoch))

    async def _recover(self, epoch: int) -> None:
        """What cannot be finished yet is tried again; nothing is due before, and the node serves meanwhile."""
        while self._host.epoch == epoch and self._host.is_loaded:
            try:
                await self.store.partition.wait_durable()  # a firing that may vanish must not deliver
                await self._recovery.discard_unconfirmed()
                await self._recovery.resume_firings()
                if self._fsync != "always":
                    await self._recovery.find_duplicates(self._clock.now_ms())
                self._host.tell(lambda machine, now: machine.recovered(now))
                return
            except GoQueueError as error:
                logger.error("the schedule's last run cannot be finished yet", extra={"error": error.message})
                self._is_ready.set()
                await asyncio.sleep(_RETRY_S)

    async def _load(self, window: DueWindow) -> None:
        found: list[Due] | None = None
        try:
            found = await self.store.window(window)
        except GoQueueError:
            logger.error("the next delayed messages wait for the index")
        self._host.tell(lambda machine, now: machine.window_loaded(found, now))
        self._is_ready.set()

    async def _rebuild(self) -> None:
        logger.error("the schedule's index differs from its log; it is made anew")
        try:
            pending = await self.store.rebuild()
        except GoQueueError:
            return  # it is made anew by the next flush
        self._host.tell(lambda machine, now: machine.recount(pending))

    # --- firing --------------------------------------------------------------------------------------------

    async def _fire_due(self, machine: ScheduleMachine, epoch: int) -> None:
        """In stretches, so that others get their turn and memory stays bounded."""
        while dues := machine.next_due():
            try:
                wanted = [due.offset for due in dues if machine.near.held(due.offset) is None]
                read = await self.store.payloads(wanted) if wanted else {}
                targets = {place: self._targets.target(*place) for place in {due.place for due in dues}}
                await self._host.perform(machine.fire(read, targets, self._agreed.now_ms()), epoch)
            except GoQueueError as error:
                logger.error("due messages wait: the schedule cannot be written", extra={"error": error.message})
                self._host.tell(lambda machine, now: machine.fire_failed(now))
            except Exception:
                logger.exception("due messages wait; it is tried again")
                self._host.tell(lambda machine, now: machine.fire_failed(now))
            await asyncio.sleep(0)

    def _deliver(self, batch: DueBatch) -> None:
        """Writes to the messages' own partition; what is refused there is tried again."""
        now, members = self._clock.now_ms(), batch.members
        try:
            number = self.store.number
            records = [delivered_record(number, due, entry, now) for due, entry in members]
            end_offset = self._targets.deliver(batch.topic_id, batch.partition, records)
        except GoQueueError as error:
            logger.error("due messages wait", extra={"topic_id": batch.topic_id, "error": error.message})
            self._host.tell(lambda machine, at: machine.refused(batch, at))
            return
        is_gone = end_offset is None
        self._host.tell(lambda machine, _: machine.delivered(batch, end_offset or 0, is_gone))
        self._unended.append(batch)
        if self._fsync == "always" or len(self._unended) == 1:
            self._delivered.set()
        if end_offset is not None and members:
            self._events.delivered(members, end_offset, [max(0, now - due.due_ms) for due, _ in members])

    async def _fetch_ahead(self) -> None:
        """Reads what is due soon, in the order of the log: neighbours there are read together."""
        while True:
            offsets = await self._ahead.get()
            await asyncio.sleep(_GATHER_S)
            while not self._ahead.empty():
                offsets += self._ahead.get_nowait()
            offsets.sort()
            for at in range(0, len(offsets), _AHEAD_CHUNK):
                read = await self.store.payloads(offsets[at : at + _AHEAD_CHUNK])
                if self._host.is_loaded:
                    for offset, entry in read.items():
                        if entry is not None:
                            self._host.machine.near.hold(offset, entry)

    # --- what was delivered ends when it is durable ----------------------------------------------------------

    async def _confirm_for_ever(self) -> None:
        """One round a second is enough, unless readers wait for the sync."""
        while True:
            await self._delivered.wait()
            self._delivered.clear()
            if self._fsync != "always":
                await asyncio.sleep(_CONFIRM_S)
            await self._confirm()
            if self._unended and not self._delivered.is_set():
                await asyncio.sleep(_CONFIRM_S)
                self._delivered.set()

    async def _confirm(self) -> None:
        for place in dict.fromkeys((batch.topic_id, batch.partition) for batch in self._unended):
            partition = self._targets.partition(*place)
            try:
                if partition is not None:
                    await partition.wait_durable()
            except GoQueueError:
                continue  # the log is read-only; the next start looks what is there
        durable = [batch for batch in self._unended if self._is_durable(batch)]
        while durable:
            some: list[DueBatch] = []
            while durable and (not some or sum(len(batch.ends) for batch in some) < _ENDS):
                some.append(durable.pop())
            try:
                self._host.commit(self._host.machine.confirm(some, self._agreed.now_ms()))
            except GoQueueError as error:
                logger.error("delivered messages wait for their ends", extra={"error": error.message})
                return
            ended = {batch.offset for batch in some}
            self._unended = [batch for batch in self._unended if batch.offset not in ended]
            await asyncio.sleep(0)

    def _is_durable(self, batch: DueBatch) -> bool:
        partition = self._targets.partition(batch.topic_id, batch.partition)
        return partition is None or self.store.is_durable(partition, batch.end_offset)

    # --- the index ---------------------------------------------------------------------------------------------

    async def _keep_index(self) -> None:
        while True:
            await self._unindexed.wait()
            self._unindexed.clear()
            await asyncio.sleep(_INDEX_S)
            try:
                await self.store.flush()
                await self.store.confirm()
            except GoQueueError:
                await asyncio.sleep(_RETRY_S)
                self._unindexed.set()
