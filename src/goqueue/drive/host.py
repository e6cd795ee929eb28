"""Runs one machine of `core/` on one internal partition.

Load: a new machine gets every stored record, off the event loop. Then each decision's records are appended as one batch
and applied; when they are as durable as the node promises, its replies are handed out and its effects performed, in
order. An append that is refused changes nothing: the callers get the error and the machine reverts. A sync that fails
after the append leaves a machine that knows more than the disk may: the host unloads it, tells everybody who waits, and
loads again by itself. One timer serves the machine's deadlines.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError, NotLoaded, ShuttingDown
from goqueue.base.ids import Millis, Offset
from goqueue.core.machine import ASKER, Decision, Machine, Reply
from goqueue.drive.background_tasks import BackgroundTasks
from goqueue.drive.checkpoint_writer import CheckpointWriter
from goqueue.drive.deadline_timer import DeadlineTimer
from goqueue.drive.host_parts import Answers, Checkpoint, Codec, Sink, perform_rest, replay
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header
from goqueue.format.records import NewRecord, build

logger = logging.getLogger(__name__)

R = TypeVar("R")
M = TypeVar("M", bound=Machine[Any])

_RETRY_S: Final = 1.0  # between loads that fail


class Host(Generic[M, R]):
    """Made empty; `load` gives it a partition. `epoch` counts the loads: a decision of an earlier one is refused."""

    def __init__(
        self,
        new: Callable[[], M],
        codec: Codec[R],
        sink: Sink[M, R],
        clock: Clock,
        offload: Offload,
        checkpoint: Checkpoint[M, R] | None = None,
    ) -> None:
        self.epoch = 0
        self._new = new
        self._codec = codec
        self._sink = sink
        self._clock = clock
        self._offload = offload
        self._machine: M | None = None
        self._partition: Partition | None = None
        self._answers = Answers()
        self._tasks = BackgroundTasks(codec.name)
        self._checkpoints = (
            None if checkpoint is None else CheckpointWriter(checkpoint, self._append, clock, self._tasks)
        )
        self._is_ahead = False  # something was appended since the load
        self.read_to: Offset = -1  # at least this much of the log did the load find
        self._timer = DeadlineTimer(clock, self._tick)
        self._stopped = False

    # --- load and unload -----------------------------------------------------------------------------------

    async def load(self, partition: Partition) -> int:
        """Brings a new machine up to the log, off the loop, and serves it; returns how many records there were."""
        machine, now, mark = self._new(), self._clock.now_ms(), partition.high_watermark
        count, decision = await self._offload(
            lambda: replay(machine, self._codec, partition, self._sink.restore(machine, partition), now)
        )
        self._machine, self._partition, self.read_to = machine, partition, mark
        self.epoch += 1
        self._is_ahead = False
        if self._checkpoints is not None:
            self._checkpoints.count_anew()
        self.tell(lambda *_: decision)
        self._sink.loaded(machine)
        return count

    def unload(self, error: GoQueueError | None = None) -> None:
        """Everybody who waits is told to ask again, and so is everybody who asks until the next load."""
        self._machine = None
        self._timer.stop()
        if self._checkpoints is not None:
            self._checkpoints.cancel()
        self._answers.tell_all(error or self._not_loaded())

    def _not_loaded(self) -> NotLoaded:
        return NotLoaded(f"The {self._codec.name} are not loaded; try again in a moment.")

    def _lost(self, epoch: int, partition: Partition, error: GoQueueError) -> None:
        """What the machine believes may not be on disk: back to what is."""
        if epoch == self.epoch and self._machine is not None and self._is_ahead:
            logger.error("records could not be made durable; loading again", extra=self._about(why=error.message))
            self.unload(error)
            self._tasks.spawn(self._load_again(partition))

    async def _load_again(self, partition: Partition) -> None:
        while not self._stopped:
            try:
                await self.load(partition)
                return
            except (GoQueueError, OSError) as error:
                logger.error("records could not be read; trying again", extra=self._about(why=str(error)))
                await asyncio.sleep(_RETRY_S)

    def stop_waiting(self) -> None:
        """Everybody who waits is told that the node stops, and time stands still."""
        self._stopped = True
        self._timer.stop()
        self._answers.tell_all(ShuttingDown("The node is stopping; try again in a moment."))

    async def stop(self) -> None:
        self.stop_waiting()
        await self._tasks.stop()

    # --- asking --------------------------------------------------------------------------------------------

    @property
    def mark(self) -> Offset:
        """How much of the log is safe."""
        return -1 if self._partition is None else self._partition.high_watermark

    @property
    def is_loaded(self) -> bool:
        return self._machine is not None

    @property
    def machine(self) -> M:
        """To ask what changes nothing; raises while nothing is loaded."""
        if self._machine is None:
            raise self._not_loaded()
        return self._machine

    def ask(self, question: Callable[[M, int, Millis], Decision[R]]) -> Any:
        """The reply, or a future of it: when it is durable, or when a later decision answers its ticket. What the
        question itself raises is raised; an error of storage is a reply."""
        if self._machine is None:
            raise self._not_loaded()
        ticket = self._answers.next_ticket()
        decision = question(self._machine, ticket, self._clock.now_ms())
        replies = decision.replies
        if len(replies) == 1 and replies[0].ticket in (ASKER, ticket):
            return self._answer_alone(ticket, decision)
        asked = self._answers.wait_for(ticket)
        decision.replies = [Reply(ticket, one.result) if one.ticket == ASKER else one for one in replies]
        try:
            self.commit(decision)
        except GoQueueError as error:
            self._answers.answer(ticket, error)
        return asked.result() if asked.done() else asked

    def _answer_alone(self, ticket: int, decision: Decision[R]) -> Any:
        """Of a decision that answers nobody else: mostly it is durable at once, and there is no future to make."""
        result = decision.replies[0].result
        try:
            is_durable = self._write_decided(decision)
        except GoQueueError as error:
            return error
        if not is_durable:
            decision.replies = [Reply(ticket, result)]
            result = self._answers.wait_for(ticket)
            self._tasks.spawn(self._follow_when_durable(decision))
        elif decision.effects:
            decision.replies = []
            try:
                self._follow(decision)
            except GoQueueError as error:
                logger.error("a decision was not carried out", extra=self._about(why=error.message))
        return result

    async def call(self, question: Callable[[M, int, Millis], Decision[R]]) -> Any:
        """The same for those who wait: the reply when it is there; an error is raised."""
        result = self.ask(question)
        if isinstance(result, asyncio.Future):
            result = await result
        if isinstance(result, GoQueueError):
            raise result
        return result

    def tell(self, news: Callable[[M, Millis], Decision[R]]) -> bool:
        """Something happened that nobody waits for an answer to. False if nothing is loaded to hear it, or what it
        decides could not be written."""
        if self._machine is None:
            return False
        try:
            self.commit(news(self._machine, self._clock.now_ms()))
        except GoQueueError as error:
            logger.error("a decision could not be written", extra=self._about(why=error.message))
            return False
        return True

    async def perform(self, decision: Decision[R], epoch: int | None = None) -> None:
        """Returns when the decision is durable and its effects are done, which go on if the caller goes away."""
        task = self.commit(decision, epoch)
        if task is not None:
            await asyncio.shield(task)

    def commit(self, decision: Decision[R], epoch: int | None = None) -> asyncio.Task[None] | None:
        """Appends and applies at once, or raises; replies and effects follow when it is durable. The task that sees to
        them, or None if all is done. `epoch` is that of the machine that decided, if that was not just now."""
        if self._write_decided(decision, epoch):
            return self._follow(decision)
        return self._tasks.spawn(self._follow_when_durable(decision))

    def _write_decided(self, decision: Decision[R], epoch: int | None = None) -> bool:
        """Appends and applies, or raises; whether replies and effects, if there are any, may follow at once."""
        self._check(epoch)
        if decision.at_once:
            self._answers.hand_out(decision.at_once)
        if not decision.records:
            self._reset_timer()
            return not decision.replies or self.is_durable  # it may rest on records that another leader lacks
        try:
            self.write(decision.records, epoch)
        except GoQueueError as error:
            self._answers.hand_out(decision.replies, error)
            raise
        return not (decision.replies or decision.effects) or self.is_durable

    # --- writing -------------------------------------------------------------------------------------------

    def write(self, records: Sequence[R], epoch: int | None = None) -> Offset:
        """All of them in one batch, or nothing: they are applied when it returns, and durable after `wait_durable`.
        The offset of the first."""
        machine = self._check(epoch)
        now = self._clock.now_ms()
        try:
            first = self._append(records, now)
        except Exception as error:
            self._refused(machine, records, error, now)
            raise
        for offset, record in enumerate(records, first):
            machine.apply(record, offset)
        self._reset_timer()
        self._sink.written(machine, records, now)
        return first

    def _check(self, epoch: int | None) -> M:
        if self._machine is None or (epoch is not None and epoch != self.epoch):
            raise self._not_loaded()
        return self._machine

    def _append(self, records: Sequence[R], now: Millis) -> Offset:
        partition, encode = self._partition, self._codec.encode
        assert partition is not None
        first = partition.log.end_offset
        batch = build([NewRecord(*encode(record, first + at), now) for at, record in enumerate(records)])
        partition.append(batch, read_header(batch), now, append_time=False)
        self._is_ahead = True
        if (checkpoints := self._checkpoints) is not None:
            checkpoints.bytes_since += len(batch)
            if checkpoints.bytes_since >= checkpoints.every_bytes:
                self._begin_checkpoint()
        return first

    def _refused(self, machine: M, records: Sequence[R], error: Exception, now: Millis) -> None:
        self._timer.rest()
        for ticket in machine.revert(records, now):
            self._answers.answer(ticket, error if isinstance(error, GoQueueError) else self._not_loaded())
        self._timer.stop()
        self._reset_timer()

    @property
    def is_durable(self) -> bool:
        return self._partition is None or self._partition.is_durable

    async def wait_durable(self) -> None:
        """All that was written so far is as durable as the node promises; raises if it is not known to be."""
        partition, epoch = self._partition, self.epoch
        if partition is None or partition.is_durable:
            return
        try:
            await partition.wait_durable()
        except ShuttingDown:
            raise
        except GoQueueError as error:
            self._lost(epoch, partition, error)
            raise
        self._check(epoch)

    # --- replies and effects -------------------------------------------------------------------------------

    async def _follow_when_durable(self, decision: Decision[R]) -> None:
        try:
            await self.wait_durable()
            await self._sink.wait_elsewhere(decision.records)
        except GoQueueError as error:
            self._answers.hand_out(decision.replies, error)
            raise
        if (task := self._follow(decision)) is not None:
            await task

    def _follow(self, decision: Decision[R]) -> asyncio.Task[None] | None:
        self._answers.hand_out(decision.replies)
        for at, effect in enumerate(decision.effects, 1):
            waits = self._sink.perform(effect)
            if waits is not None:
                return self._tasks.spawn(perform_rest(self._sink, waits, decision.effects[at:]))
        return None

    def _about(self, **extra: object) -> dict[str, object]:
        return {"machine": self._codec.name, **extra}

    # --- time ----------------------------------------------------------------------------------------------

    def _reset_timer(self) -> None:
        self._timer.plan(None if self._machine is None or self._stopped else self._machine.next_deadline())

    def _tick(self) -> None:
        self._timer.stop()
        self.tell(lambda machine, now: machine.tick(now))

    def look_again(self) -> None:
        """Ticks if anything is due."""
        if self._machine is not None and not self._stopped and self._timer.is_due(self._machine.next_deadline()):
            self._tick()

    def clock_moved(self, by_ms: Millis) -> None:
        """What the machine has to write to keep its deadlines is written, and a checkpoint if it has those."""
        self.shift(by_ms)
        self._begin_checkpoint()

    def shift(self, by_ms: Millis) -> None:
        """Deadlines come so much later."""
        self._timer.stop()
        self.tell(lambda machine, now: machine.shift(by_ms, now))

    def _begin_checkpoint(self) -> None:
        machine, partition = self._machine, self._partition
        if self._checkpoints is not None and machine is not None and partition is not None and not self._stopped:
            self._checkpoints.begin(machine, partition)
