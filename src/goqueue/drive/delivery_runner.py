"""Runs all queue views: writes down what they decide, ticks them, brings them back after a start.

The records are one log of small steps. Every so many bytes each view writes itself down whole, and the log before
that is dropped. One timer serves all views.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final

from goqueue.base.clock import SteadyClock
from goqueue.base.errors import GoQueueError, ShuttingDown
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import CLOCK_STEP_MS_MIN, MIB
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.records import Forgotten, Opened, Record, ViewId, ViewSnapshot, decode_record, encode_record
from goqueue.core.delivery.states import IllegalMove
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header
from goqueue.format.records import NewRecord, build, decode

logger = logging.getLogger(__name__)

DELIVERIES_TOPIC: Final = "__goqueue_deliveries"
DELIVERIES_CONFIG: Final = {"cleanup.policy": "", "segment.bytes": str(16 * MIB)}
CHECKPOINT_BYTES: Final = 8 * MIB
_SNAPSHOTS_A_BATCH: Final = 200
_REST_MS: Final = 1_000  # before time is kept again after records could not be written: each try reads the log

Retire = Callable[[Partition, Offset], Awaitable[None]]  # makes everything safe, then drops the log's head


class DeliveryRunner:
    """Made empty; `replay` and `begin` bring the views back."""

    def __init__(self, policy_of: Callable[[ViewId], Policy], clock: SteadyClock, retire: Retire) -> None:
        self.views: dict[ViewId, Delivery] = {}
        self.on_ready: Callable[[ViewId], None] = lambda view: None  # something can be handed out
        self.on_dead: Callable[[ViewId], None] = lambda view: None  # copies have to be made
        self.on_moved: Callable[[ViewId], None] = lambda view: None  # the group's position may have moved
        self.on_records: Callable[[ViewId, Sequence[Record]], None] | None = None  # told what is traced
        self._policy_of = policy_of
        self._clock = clock
        self._retire = retire
        self._by_place: dict[TopicPartition, dict[str, Delivery]] = {}
        self._partition: Partition | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadlines: list[tuple[Millis, ViewId]] = []
        self._armed: dict[ViewId, Millis] = {}
        self._bytes_since = 0
        self._newest_ms: Millis = 0  # when the last record was written
        self._rests_until_ms: Millis = 0  # of the monotonic clock: records could not be written
        self._checkpoint: asyncio.Task[None] | None = None
        self._stopped = False

    # --- start and stop ------------------------------------------------------------------------------------

    def replay(self, partition: Partition) -> int:
        """Blocks while it reads the records; run it off the loop. Returns how many there were."""
        count = 0
        self._newest_ms = 0
        whole: set[ViewId] = set()
        for batch in partition.log.batches(partition.log.start_offset):
            for stored in decode(batch):
                self._newest_ms = max(self._newest_ms, stored.timestamp_ms)
                record = decode_record(stored.value or b"")
                if record is not None:
                    self._replay_one(record, whole)
                    count += 1
        return count

    def _replay_one(self, record: Record, whole: set[ViewId]) -> None:
        """Where a checkpoint cut the log, a view's last steps before its snapshot may speak of what is cut off."""
        if isinstance(record, Opened | ViewSnapshot):
            whole.add(record.view)
        try:
            self._apply(record)
        except (KeyError, IllegalMove):
            if record.view in whole:
                raise

    def begin(self, partition: Partition) -> None:
        """From now on what is decided can be written down; leases hold until `resume`."""
        self._partition = partition
        early_ms = self._newest_ms - self._clock.now_ms()
        if early_ms >= CLOCK_STEP_MS_MIN:
            logger.warning("the clock was set back while the node was down; leases follow it", extra={"ms": early_ms})
            self._shift(-early_ms)

    def resume(self) -> None:
        """From now on messages are handed out and leases end."""
        for delivery in list(self.views.values()):
            self.write(delivery, delivery.recovered(self._clock.now_ms(), self._policy_of(delivery.view)))

    async def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._checkpoint is not None:
            self._checkpoint.cancel()
            await asyncio.wait([self._checkpoint])

    def _apply(self, record: Record) -> None:
        if isinstance(record, Forgotten):
            self._drop(record.view)
        else:
            self.view(record.view).apply(record)

    # --- views ---------------------------------------------------------------------------------------------

    def view(self, view: ViewId) -> Delivery:
        """The view, new if there was none."""
        delivery = self.views.get(view)
        if delivery is None:
            delivery = self.views[view] = Delivery(view)
            self._by_place.setdefault(view.at, {})[view.group] = delivery
        return delivery

    def at(self, at: TopicPartition) -> Iterator[Delivery]:
        """Every group's view of one partition."""
        return iter(self._by_place.get(at, {}).values())

    def of(self, group: str) -> list[Delivery]:
        return [delivery for view, delivery in self.views.items() if view.group == group]

    def forget(self, chosen: Callable[[ViewId], bool]) -> None:
        """The group or the topic is gone."""
        gone = [view for view in self.views if chosen(view)]
        for view in gone:
            self._drop(view)
        if gone:
            self._append([Forgotten(view) for view in gone])

    def _drop(self, view: ViewId) -> None:
        self.views.pop(view, None)
        self._armed.pop(view, None)
        places = self._by_place.get(view.at, {})
        places.pop(view.group, None)
        if not places:
            self._by_place.pop(view.at, None)

    # --- writing -------------------------------------------------------------------------------------------

    def write(self, delivery: Delivery, records: Sequence[Record]) -> None:
        """Puts what a view decided into the log, at once; safe after `settle`."""
        if records:
            self._append(records)
            if self.on_records is not None:
                self.on_records(delivery.view, records)
            if delivery.has_dead:
                self.on_dead(delivery.view)
        self._arm(delivery)

    async def wait_durable(self) -> None:
        if self._partition is not None and not self._partition.is_durable:
            await self._partition.wait_durable()

    @property
    def is_durable(self) -> bool:
        return self._partition is None or self._partition.is_durable

    def _append(self, records: Sequence[Record]) -> None:
        partition = self._partition
        if partition is None:
            raise ShuttingDown("Queues are not loaded yet; try again in a moment.")
        now = self._clock.now_ms()
        batch = build([NewRecord(None, encode_record(record), (), now) for record in records])
        try:
            partition.append(batch, read_header(batch), now, append_time=False)
        except GoQueueError:
            self._start_over(partition)
            raise
        self._bytes_since += len(batch)
        if self._bytes_since >= CHECKPOINT_BYTES and self._checkpoint is None and not self._stopped:
            self._checkpoint = asyncio.ensure_future(self._write_whole(partition))

    def _start_over(self, partition: Partition) -> None:
        """What the views believe is not on disk: back to what is."""
        logger.error("queue records could not be written; going back to what is stored")
        self._rests_until_ms = self._clock.monotonic_ms() + _REST_MS
        self.views.clear()
        self._by_place.clear()
        self._armed.clear()
        self._deadlines.clear()
        self.replay(partition)
        for delivery in self.views.values():
            self._arm(delivery)

    async def _write_whole(self, partition: Partition) -> None:
        """Every view as it is, so that the log before can go."""
        try:
            self._bytes_since = 0
            begin = partition.log.end_offset
            views = list(self.views)
            for at in range(0, len(views), _SNAPSHOTS_A_BATCH):
                snapshots: list[ViewSnapshot] = [
                    self.views[view].snapshot() for view in views[at : at + _SNAPSHOTS_A_BATCH] if view in self.views
                ]
                if snapshots:
                    self._append(snapshots)
                await asyncio.sleep(0)
            await self._retire(partition, begin)
        except (GoQueueError, OSError) as error:
            logger.error("queue views could not be written whole", extra={"error": str(error)})
        finally:
            self._checkpoint = None

    # --- time ----------------------------------------------------------------------------------------------

    def _arm(self, delivery: Delivery) -> None:
        deadline = delivery.next_deadline()
        if deadline is None or self._armed.get(delivery.view, deadline + 1) <= deadline:
            return
        self._armed[delivery.view] = deadline
        heappush(self._deadlines, (deadline, delivery.view))
        if self._deadlines[0][1] == delivery.view:
            self._reset_timer()

    def _reset_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deadlines and not self._stopped:
            rest_ms = self._rests_until_ms - self._clock.monotonic_ms()
            delay_s = max(0, self._deadlines[0][0] - self._clock.now_ms(), rest_ms) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def look_again(self) -> None:
        """Ticks if anything is due."""
        is_resting = self._clock.monotonic_ms() < self._rests_until_ms
        if self._deadlines and not (self._stopped or is_resting) and self._deadlines[0][0] <= self._clock.now_ms():
            self._tick()

    def clock_moved(self, by_ms: Millis) -> None:
        """The views are written whole, so that a start finds their deadlines by the new time."""
        self._shift(by_ms)
        if self._partition is not None and self.views and self._checkpoint is None and not self._stopped:
            self._checkpoint = asyncio.ensure_future(self._write_whole(self._partition))

    def _shift(self, by_ms: Millis) -> None:
        for delivery in self.views.values():
            delivery.shift(by_ms)
        self._deadlines = [(deadline + by_ms, view) for deadline, view in self._deadlines]
        self._armed = {view: deadline + by_ms for view, deadline in self._armed.items()}
        self._reset_timer()

    def _tick(self) -> None:
        self._timer = None
        now = self._clock.now_ms()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, view = heappop(self._deadlines)
            delivery = self.views.get(view)
            if self._armed.get(view) == deadline:
                del self._armed[view]
            if delivery is not None:
                self._tick_one(delivery, now)
        self._reset_timer()

    def _tick_one(self, delivery: Delivery, now: Millis) -> None:
        try:
            records, woken = delivery.tick(now, self._policy_of(delivery.view))
            self.write(delivery, records)
        except GoQueueError as error:
            logger.error("a queue's time could not be kept", extra={"view": str(delivery.view), "error": error.message})
            return
        if records or woken:
            self.on_ready(delivery.view)
            self.on_moved(delivery.view)
