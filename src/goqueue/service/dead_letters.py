"""Redrive: dead letters go back to where they died, or elsewhere; at a rate, exactly once, over restarts.

A redrive looks at the letters that were there when it began, moves those that fit, and leaves those that must not go.
Each move is written down before and after its copy is made (`Transfer`); what a redrive moved is counted with that, so
that the count is right whatever happens. How far it looked is noted now and then; a start goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

import msgspec

from goqueue.base.access import AclOperation
from goqueue.base.commands import ANYONE, Caller
from goqueue.base.entropy import new_uuid
from goqueue.base.errors import DiskFull, GoQueueError, InvalidField, RedriveRunning, UnknownRedrive
from goqueue.base.ids import Offset
from goqueue.base.limits import REDRIVE_RATE_MAX
from goqueue.base.tenants import tenant_of
from goqueue.core.dead_letter import EVERYTHING, DeadLetterFilter, StoredDeadLetter
from goqueue.core.delivery.policy import DeadLetterTarget
from goqueue.core.redrive import (
    FORBIDDEN,
    IN_FLIGHT,
    NO_ORIGIN,
    UNKNOWN_TOPIC,
    Preview,
    RedriveRequest,
    RedriveTarget,
    RedriveTask,
    refusal,
)
from goqueue.drive.partition import Partition
from goqueue.drive.redrive_notes import RedriveNotes
from goqueue.drive.topic_table import Topic
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.environment import Environment
from goqueue.service.redrive_progress import RedriveRun, RedriveTracker
from goqueue.service.redriven import Redriven
from goqueue.service.topics import Topics
from goqueue.service.transfer import Transfer

logger = logging.getLogger(__name__)

HISTORY_MAX: Final = 100  # tasks that are remembered for each dead-letter topic
_AT_ONCE: Final = 500
_STRETCH: Final = 20
_NOTE_MS: Final = 1_000
_CANCEL_S: Final = 2.0

Go = tuple[StoredDeadLetter, DeadLetterTarget]


class Redrives:
    """The verbs."""

    def __init__(
        self,
        letters: DeadLetterView,
        transfer: Transfer,
        copies: Redriven,
        topics: Topics,
        notes: RedriveNotes,
        environment: Environment,
    ) -> None:
        self._letters = letters
        self._transfer = transfer
        self._copies = copies
        self._topics = topics
        self._notes = notes
        self._progress = RedriveTracker(letters, topics, environment.clock)
        self._clock = environment.clock
        self._entropy = environment.entropy
        self._tasks: dict[str, RedriveTask] = {}
        self._runs: dict[str, RedriveRun] = {}

    async def recover(self) -> None:
        """After a start: those that were under way go on."""
        for task in await self._notes.load():
            self._tasks[task.id] = task
            if task.is_live:
                self._launch(task)

    async def stop(self) -> None:
        """The next start goes on."""
        loops = [run.loop for run in self._runs.values() if run.loop is not None]
        for loop in loops:
            loop.cancel()
        if loops:
            await asyncio.wait(loops)

    # --- verbs -----------------------------------------------------------------------------------------------

    async def start(
        self,
        source: str,
        to: str | None = None,
        rate_per_s: int | None = None,
        filter: DeadLetterFilter = EVERYTHING,  # noqa: A002
        limit: int | None = None,
        share: tuple[str, int] | None = None,
        caller: Caller = ANYONE,
    ) -> RedriveTask:
        """Begins, and answers when the task is durable. One at a time for each dead-letter topic. With a `share` it is
        this node's part of a redrive with that id, which so many nodes carry out. Letters go only to topics that the
        caller may write to, whatever their headers tell."""
        asked = RedriveRequest(source, to, rate_per_s, filter, limit)
        self._check(asked)
        if any(task.is_live and task.source == source for task in self._tasks.values()):
            raise RedriveRunning(f"The dead letters of {source!r} are being redriven; wait, or cancel that redrive.")
        task = self._tasks_new(asked, caller, *(share or (new_uuid(self._entropy), 1)))
        self._tasks[task.id] = task
        try:
            await self._notes.save(task)
        except OSError:
            del self._tasks[task.id]
            raise
        self._launch(task)
        await self._forget_old(source)
        return task

    async def preview(self, asked: RedriveRequest, caller: Caller = ANYONE) -> Preview:
        """Counts what a redrive of that caller would move now, and moves nothing."""
        self._check(asked)
        reasons, skipped = dict[str, int](), dict[str, int]()
        topic = self._topics.find(asked.source)
        for partition in [] if topic is None else topic.partitions:
            if not self._letters.leads(partition):
                continue
            async for letter in self._letters.open(partition, 0):
                if asked.limit is not None and sum(reasons.values()) >= asked.limit:
                    break
                if asked.filter.fits(letter):
                    verdict = self._verdict(partition, letter, asked.to, caller)
                    counts, word = (skipped, verdict) if isinstance(verdict, str) else (reasons, letter.reason)
                    counts[word] = counts.get(word, 0) + 1
        movable = sum(reasons.values())
        return Preview(movable + sum(skipped.values()), movable, reasons, skipped)

    def tasks(self, source: str) -> list[RedriveTask]:
        """All that are remembered, the newest first."""
        return [self.find(one.id) for one in reversed(list(self._tasks.values())) if one.source == source]

    def find(self, task_id: str) -> RedriveTask:
        """How it stands."""
        task = self._tasks.get(task_id)
        if task is None:
            raise UnknownRedrive(f"There is no redrive {task_id[:100]!r}, or it is forgotten.", field="id")
        run = self._runs.get(task_id)
        return task if run is None else self._progress.of(run)

    def known(self, task_id: str) -> RedriveTask | None:
        """The same, or None."""
        return self.find(task_id) if task_id in self._tasks else None

    async def cancel(self, task_id: str) -> RedriveTask:
        """Ends it; what was moved stays moved. One that is over already stays as it is."""
        self.find(task_id)
        run = self._runs.get(task_id)
        if run is not None and run.loop is not None:
            run.task = self._tasks[task_id] = msgspec.structs.replace(self._progress.of(run), state="cancelling")
            await self._save(run)
            run.cancelled.set()
            await asyncio.wait([run.loop], timeout=_CANCEL_S)
        return self.find(task_id)

    def _check(self, asked: RedriveRequest) -> None:
        if asked.rate_per_s is not None and not 1 <= asked.rate_per_s <= REDRIVE_RATE_MAX:
            raise InvalidField(f"A rate is from 1 to {REDRIVE_RATE_MAX:,} messages a second.", field="rate")
        if asked.limit is not None and asked.limit < 1:
            raise InvalidField("A limit is at least 1.", field="limit")
        if asked.to is not None:
            if asked.to == asked.source:
                raise InvalidField("The dead letters are in that topic already; name another.", field="to")
            self._topics.require_users(asked.to, "to")
            if tenant_of(asked.to) != tenant_of(asked.source):
                raise InvalidField("Dead letters go to a topic of the same tenant.", field="to")

    def _tasks_new(self, asked: RedriveRequest, caller: Caller, task_id: str, nodes: int) -> RedriveTask:
        topic = self._topics.find(asked.source)
        partitions = [] if topic is None else [one for one in topic.partitions if self._letters.leads(one)]
        ends = {one.at.partition: one.high_watermark for one in partitions}
        return RedriveTask(
            task_id,
            asked.source,
            "" if topic is None else topic.record.id,
            self._clock.now_ms(),
            asked.to,
            asked.rate_per_s,
            asked.filter,
            asked.limit,
            total=sum(self._letters.count(one, 0, ends[one.at.partition]) for one in partitions),
            ends=ends,
            nodes=nodes,
            caller=caller,
        )

    async def _forget_old(self, source: str) -> None:
        old = [task.id for task in self._tasks.values() if task.source == source and not task.is_live][:-HISTORY_MAX]
        for task_id in old:
            del self._tasks[task_id]
            await self._notes.remove(task_id)

    # --- how it goes -----------------------------------------------------------------------------------------

    def _launch(self, task: RedriveTask) -> None:
        run = self._runs[task.id] = RedriveRun(task, self._clock.monotonic_ms())
        if task.state == "cancelling":
            run.cancelled.set()
        run.loop = asyncio.ensure_future(self._run(run))
        run.loop.add_done_callback(lambda _: self._runs.pop(task.id, None))

    async def _run(self, run: RedriveRun) -> None:
        try:
            state, failure = await self._carry_out(run)
        except (GoQueueError, OSError) as error:
            logger.error("a redrive failed", extra={"task": run.task.id, "error": str(error)})
            state, failure = "failed", str(error)
        task = self._progress.of(run)
        done = msgspec.structs.replace(
            task, state=state, failure=failure or task.failure, finished_ms=self._clock.now_ms(), eta_ms=None
        )
        run.task = self._tasks[done.id] = done
        await self._save(run)

    async def _carry_out(self, run: RedriveRun) -> tuple[str, str]:
        partitions = self._progress.partitions(run.task)
        for partition in partitions:
            await self._transfer.finish(self._letters.keeper(partition).view)  # what a life before began
        run.moved, run.looked_at = self._progress.moved(run.task), self._progress.looked_at(run.task)
        for partition in partitions:
            async for letters, cursor in self._slices(run.task, partition):
                if not await self._move_slice(run, partition, letters, cursor):
                    break
            self._letters.tell_sqs(partition)
            if run.cancelled.is_set() or self._room(run.task) == 0 or self._progress.lost(run.task):
                break
        if (lost := self._progress.lost(run.task)) and not run.cancelled.is_set():
            return "failed", lost
        return ("cancelled" if run.cancelled.is_set() else "completed"), ""

    async def _slices(
        self, task: RedriveTask, partition: Partition
    ) -> AsyncIterator[tuple[list[StoredDeadLetter], Offset]]:
        """Letters to look at, so many at once, and where the next begin."""
        end = task.ends.get(partition.at.partition, 0)
        found: list[StoredDeadLetter] = []
        async for letter in self._letters.open(partition, task.cursors.get(partition.at.partition, 0), end):
            found.append(letter)
            if len(found) == _AT_ONCE:
                yield found, letter.offset + 1
                found = []
        yield found, end

    async def _move_slice(
        self, run: RedriveRun, partition: Partition, letters: list[StoredDeadLetter], cursor: Offset
    ) -> bool:
        """Moves those that fit as fast as they may go; False if the redrive is to end."""
        waiting: list[StoredDeadLetter] = []
        for begin in range(0, len(letters), _STRETCH):
            waiting += [letter for letter in letters[begin : begin + _STRETCH] if run.task.filter.fits(letter)]
            if run.task.filter.fingerprint is not None:
                await asyncio.sleep(0)  # that takes longer than the rest
        while waiting:
            allowed = await self._allowed(run, len(waiting))
            if not allowed:
                return False
            going, passed = self._choose(run, partition, waiting, allowed)
            await self._go(run, partition, going)
            waiting = waiting[passed:]
            if waiting:
                _look_to(run, partition, waiting[0].offset)
        _look_to(run, partition, cursor)
        if self._clock.monotonic_ms() - run.noted_ms >= _NOTE_MS:
            await self._save(run)
        return not run.cancelled.is_set() and self._room(run.task) > 0

    async def _allowed(self, run: RedriveRun, wanted: int) -> int:
        """How many may go now; waits for the first. None once the redrive is cancelled or has moved enough."""
        wanted = min(wanted, self._room(run.task))
        while wanted and not run.cancelled.is_set() and not self._progress.lost(run.task):
            wait_ms = run.pace.wait_ms(wanted, self._clock.monotonic_ms())
            if not wait_ms and (allowed := run.pace.take(wanted, self._clock.monotonic_ms())):
                return allowed
            await _wait(run.cancelled, wait_ms / 1000)
        return 0

    def _room(self, task: RedriveTask) -> int:
        return _AT_ONCE if task.limit is None else max(0, task.limit - self._progress.moved(task))

    def _choose(
        self, run: RedriveRun, partition: Partition, letters: Sequence[StoredDeadLetter], allowed: int
    ) -> tuple[list[Go], int]:
        """Which go, and how many were looked at; those that must stay are counted."""
        going: list[Go] = []
        skipped = dict(run.task.skipped)
        passed = 0
        for letter in letters:
            if len(going) == allowed:
                break
            passed += 1
            if self._letters.has(partition, letter.offset):
                verdict = self._verdict(partition, letter, run.task.to, run.task.caller)
                if isinstance(verdict, str):
                    skipped[verdict] = skipped.get(verdict, 0) + 1
                else:
                    going.append((letter, verdict))
        run.task = msgspec.structs.replace(run.task, skipped=skipped)
        return going, passed

    def _verdict(
        self, partition: Partition, letter: StoredDeadLetter, to: str | None, caller: Caller
    ) -> DeadLetterTarget | str:
        """Where the letter goes, or why it stays."""
        name = to or letter.topic
        if name is None:
            return NO_ORIGIN
        topic = _writable(self._topics, name, caller)
        if isinstance(topic, str):
            return topic
        if self._letters.is_in_flight(partition, letter.offset):
            return IN_FLIGHT
        config = topic.config
        target = RedriveTarget(name, len(topic.partitions), config.compacts, config.queue_max_redrives)
        return refusal(letter, target) or _grave(topic, letter)

    async def _go(self, run: RedriveRun, partition: Partition, going: list[Go]) -> None:
        """Written down, one record for each target, and carried out."""
        graves: dict[tuple[str, int], tuple[DeadLetterTarget, list[Offset]]] = {}
        for letter, dead_letter_target in going:
            graves.setdefault((dead_letter_target.topic, dead_letter_target.partition), (dead_letter_target, []))[
                1
            ].append(letter.offset)
        for dead_letter_target, offsets in graves.values():
            self._letters.pull(partition, offsets, dead_letter_target, run.task.id)
        view = self._letters.keeper(partition).view
        self._copies.copied.pop(view, None)
        await self._transfer.finish(view)
        moved = run.task.moved + self._copies.copied.pop(view, 0)
        if self._progress.source(run.task) is not None:  # else the view is gone, and its count with it
            moved = self._progress.moved(run.task)
        failed, failure = self._copies.refusals.pop(view, (0, run.task.failure))
        run.task = msgspec.structs.replace(run.task, moved=moved, failed=run.task.failed + failed, failure=failure)

    # --- notes -----------------------------------------------------------------------------------------------

    async def _save(self, run: RedriveRun) -> None:
        run.noted_ms = self._clock.monotonic_ms()
        task = run.task if not run.task.is_live else self._progress.of(run)
        try:
            await self._notes.save(task)
        except (OSError, DiskFull) as error:  # a start goes on from the last note; what was moved is known otherwise
            logger.error("how far a redrive got could not be noted", extra={"task": task.id, "error": str(error)})


def _writable(topics: Topics, name: str, caller: Caller) -> Topic | str:
    """The topic, or why the caller's letters do not go there; one that it may not see is not there."""
    topic = topics.find(name)
    if topic is None or topic.is_internal or not topics.allows(caller, AclOperation.DESCRIBE, name):
        return UNKNOWN_TOPIC
    return topic if topics.allows(caller, AclOperation.WRITE, name) else FORBIDDEN


def _look_to(run: RedriveRun, partition: Partition, cursor: Offset) -> None:
    run.task = msgspec.structs.replace(run.task, cursors={**run.task.cursors, partition.at.partition: cursor})


def _grave(topic: Topic, letter: StoredDeadLetter) -> DeadLetterTarget:
    """Back to the partition where it was, if it was there; else where its key belongs."""
    count = len(topic.partitions)
    number = letter.origin_partition
    if letter.topic != topic.name or number is None or number >= count:
        number = topic.partitioner.choose(letter.key, None, count)
    return DeadLetterTarget(topic.name, number, topic.partitions[number].end_offset)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
