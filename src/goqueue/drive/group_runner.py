"""Runs the group coordinator: feeds it events and time, makes its records durable, then hands out its replies.

The records live in an internal compacted topic; a start replays them. One timer serves all groups.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError, ShuttingDown
from goqueue.base.ids import Millis
from goqueue.core.groups.coordinator import Coordinator
from goqueue.core.groups.records import decode_record, encode_record
from goqueue.core.groups.replies import GroupReply, GroupStep, Result
from goqueue.core.groups.settings import GroupSettings
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header
from goqueue.format.records import NewRecord, build, decode

logger = logging.getLogger(__name__)

GROUPS_TOPIC: Final = "__consumer_offsets"  # where Kafka's tools expect such things
GROUPS_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}

Question = Callable[[int, int], GroupStep]  # (ticket, now) -> step


async def _at_once() -> None:
    """Nothing was."""


class GroupRunner:
    """Made empty; `load` gives it its topic's partition and brings the groups back."""

    def __init__(self, settings: GroupSettings, topics: Callable[[], Mapping[str, int]], clock: Clock) -> None:
        self.coordinator = Coordinator(settings)
        self.settings = settings
        self._topics = topics
        self._clock = clock
        self._partition: Partition | None = None
        self._tickets = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Result]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._settling: set[asyncio.Task[None]] = set()
        self.on_step: Callable[[GroupStep], None] = lambda step: None  # told of everything that is decided
        self.also_wait_durable: Callable[[], Awaitable[None]] = _at_once  # what was written elsewhere because of it

    # --- start and stop ------------------------------------------------------------------------------------

    def replay(self, partition: Partition) -> int:
        """Blocks while it reads the records; run it off the loop. Returns how many there were."""
        count = 0
        for batch in partition.log.batches(partition.log.start_offset):
            for stored in decode(batch):
                if stored.key is not None and (record := decode_record(stored.key, stored.value)) is not None:
                    self.coordinator.apply(record)
                    count += 1
        return count

    def begin(self, partition: Partition) -> None:
        """From now on groups are served."""
        self._partition = partition
        self._perform(self.coordinator.recovered(self._clock.now_ms(), self._topics()))

    def stop(self) -> None:
        """Everybody who waits for a rebalance is told that the node stops."""
        if self._timer is not None:
            self._timer.cancel()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(ShuttingDown("The node is stopping; try again in a moment."))
        self._asked.clear()

    # --- questions -----------------------------------------------------------------------------------------

    def ask(self, question: Question) -> Result | asyncio.Future[Result]:
        """The answer, or where it will be: when it is safe, or when the others of the group have come."""
        ticket = next(self._tickets)
        asked: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._asked[ticket] = asked
        self._perform(question(ticket, self._clock.now_ms()))
        return asked.result() if asked.done() else asked

    def tell(self, news: Callable[[int], GroupStep]) -> None:
        """Something happened that nobody waits for an answer to."""
        self._perform(news(self._clock.now_ms()))

    def _perform(self, step: GroupStep) -> None:
        """Records first, then the replies that they carry."""
        error: GoQueueError | None = None
        if step.records:
            try:
                self._append(step)
            except GoQueueError as cause:
                logger.error("group records could not be written", extra={"error": cause.message})
                error = cause
                self._start_over(cause)
        partition = self._partition
        if error is None and step.records and partition is not None and not partition.is_durable:
            task = asyncio.ensure_future(self._wait_durable(partition, step.replies))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)
        else:
            self._hand_out(step.replies, error)
        self.on_step(step)
        self._reset_timer()

    def _start_over(self, why: GoQueueError) -> None:
        """What the coordinator believes is not on disk: back to what is. Everybody who waits has to ask again."""
        waiting, self._asked = self._asked, {}
        for asked in waiting.values():
            if not asked.done():
                asked.set_result(why)
        self.coordinator = Coordinator(self.settings)
        if self._partition is not None:
            self.replay(self._partition)
            self.coordinator.recovered(self._clock.now_ms(), self._topics())

    def _append(self, step: GroupStep) -> None:
        partition = self._partition
        if partition is None:
            raise ShuttingDown("Groups are not loaded yet; try again in a moment.")
        now = self._clock.now_ms()
        pairs = [encode_record(record) for record in step.records]
        batch = build([NewRecord(key, value, (), now) for key, value in pairs])
        partition.append(batch, read_header(batch), now, append_time=False)

    async def _wait_durable(self, partition: Partition, replies: list[GroupReply]) -> None:
        try:
            await partition.wait_durable()
            await self.also_wait_durable()
        except GoQueueError as error:
            self._hand_out(replies, error)
            self._start_over(error)
        else:
            self._hand_out(replies, None)

    def _hand_out(self, replies: list[GroupReply], error: GoQueueError | None) -> None:
        for reply in replies:
            asked = self._asked.pop(reply.ticket, None)
            if asked is not None and not asked.done():
                asked.set_result(reply.result if error is None else error)

    # --- time ----------------------------------------------------------------------------------------------

    def _reset_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.coordinator.next_deadline()
        if deadline is not None:
            delay_s = max(0, deadline - self._clock.now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def look_again(self) -> None:
        """Ticks if anything is due."""
        deadline = self.coordinator.next_deadline()
        if self._partition is not None and deadline is not None and deadline <= self._clock.now_ms():
            self._tick()

    def clock_moved(self, by_ms: Millis) -> None:
        self.coordinator.shift(by_ms, self._clock.now_ms())
        self._reset_timer()

    def _tick(self) -> None:
        self._timer = None
        self._perform(self.coordinator.tick(self._clock.now_ms()))
