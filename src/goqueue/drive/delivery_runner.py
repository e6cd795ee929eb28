"""Runs all queue views on one host: writes what they decide, and tells who wants to hear of it.

The records are one log of small steps. Every so many bytes each view is written whole, and the log before that is
dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, Protocol

from goqueue.base.clock import SteadyClock
from goqueue.base.errors import GoQueueError, NotLoaded
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import MIB
from goqueue.core.delivery.deliveries import Deliveries, Woken
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.records import Forgotten, Record, ViewId, decode_record, encode_record
from goqueue.drive.host import Host
from goqueue.drive.host_parts import Checkpoint, Codec, Sink
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition

logger = logging.getLogger(__name__)

DELIVERIES_TOPIC: Final = "__goqueue_deliveries"
DELIVERIES_CONFIG: Final = {"cleanup.policy": "", "segment.bytes": str(16 * MIB)}
CHECKPOINT_BYTES: Final = 8 * MIB
_NOBODYS: Final = ""  # no group has that name

CODEC: Final = Codec[Record](
    "queue views",
    lambda record, _: (None, encode_record(record), ()),
    lambda stored: decode_record(stored.value or b""),
)
OnView = Callable[[ViewId], None]
DropHead = Callable[[Partition, Offset], Awaitable[None]]  # makes everything durable, then drops the log's head


class DeliveryEvents(Protocol):
    """Hears what happens to queue views."""

    @property
    def loaded(self) -> Callable[[], None]:
        """The views are others: read from the log, at the start or after it could not be made durable."""
        ...

    @property
    def written(self) -> Callable[[ViewId, Sequence[Record]], None]:
        """These are appended and applied, not yet durable."""
        ...

    @property
    def ready(self) -> OnView:
        """Something can be handed out."""
        ...

    @property
    def dead(self) -> OnView:
        """Copies have to be made."""
        ...

    @property
    def moved(self) -> OnView:
        """The group's position may have moved."""
        ...


class DeliveryRunner(Sink[Deliveries, Record]):
    """`load` brings the views back; `resume` lets their leases end."""

    def __init__(
        self,
        policy_of: Callable[[ViewId], Policy],
        events: DeliveryEvents,
        clock: SteadyClock,
        offload: Offload,
        drop_head: DropHead,
    ) -> None:
        self._policy_of = policy_of
        self._events = events
        self.ready, self.moved = events.ready, events.moved
        self._clock = clock
        checkpoint = Checkpoint(CHECKPOINT_BYTES, Deliveries.snapshot, drop_head)
        self.host: Host[Deliveries, Record] = Host(
            lambda: Deliveries(policy_of), CODEC, self, clock, offload, checkpoint
        )
        self._to_forget: list[Callable[[ViewId], bool]] = []  # that could not be written yet
        self._is_resumed = False

    # --- views ---------------------------------------------------------------------------------------------

    @property
    def views(self) -> Mapping[ViewId, Delivery]:
        """Raises while they are not loaded."""
        return self.host.machine.views

    def view(self, view: ViewId) -> Delivery:
        """The view; a new one is known once something of it is written."""
        return self.host.machine.view(view)

    def at(self, at: TopicPartition) -> Iterator[Delivery]:
        """Every group's view of one partition."""
        return self.host.machine.at(at)

    def of(self, group: str) -> list[Delivery]:
        return self.host.machine.of(group)

    @property
    def is_loaded(self) -> bool:
        return self.host.is_loaded

    def knows(self, view: ViewId) -> bool:
        """Whether there is such a view, as far as can be told."""
        return not self.is_loaded or view in self.views

    def is_current(self, delivery: Delivery) -> bool:
        """False if the view was forgotten, or loaded again."""
        return self.host.is_loaded and self.views.get(delivery.view) is delivery

    # --- writing -------------------------------------------------------------------------------------------

    def write(self, delivery: Delivery, records: Sequence[Record]) -> None:
        """Appends and applies what a view decided; durable after `wait_durable`. Refused, it changes nothing."""
        if not records:
            return
        if self._to_forget:
            self._forget_all()
        known = self.host.machine.views.get(delivery.view)
        if known is not delivery and (known is not None or not delivery.is_new):
            raise NotLoaded("The queue view is not the one it was; try again.")
        self.host.write(records)

    def confirm(self, at: TopicPartition) -> None:
        """Writes something that changes nothing."""
        self.host.write([Forgotten(ViewId(_NOBODYS, at.topic, at.partition))])

    def forget(self, chosen: Callable[[ViewId], bool]) -> None:
        """The group or the topic is gone. Where that cannot be written now, it is written before anything else."""
        self._to_forget.append(chosen)
        try:
            if self.is_loaded:
                self._forget_all()
        except GoQueueError as error:
            logger.error("queue views could not be forgotten yet", extra={"error": error.message})

    def _forget_all(self) -> None:
        gone = [view for view in self.views if any(chosen(view) for chosen in self._to_forget)]
        if gone:
            self.host.write([Forgotten(view) for view in gone])
        self._to_forget.clear()

    async def wait_durable(self) -> None:
        if not self.host.is_durable:
            await self.host.wait_durable()

    # --- what the host tells -------------------------------------------------------------------------------

    def loaded(self, machine: Deliveries) -> None:
        """A log that takes no more writes can still be asked."""
        if not self._is_resumed:
            self._events.loaded()
            return
        try:
            self._events.loaded()
            self._end_leases(machine)
        except GoQueueError as error:
            logger.error("queue views could not be brought up to date", extra={"error": error.message})
        machine.resume()

    def written(self, machine: Deliveries, records: Sequence[Record], now: Millis) -> None:
        """What may come again at once is ready now."""
        for view, moves in [(records[0].view, records)] if len(records) == 1 else _by_view(records):
            self._events.written(view, moves)
            delivery = machine.views.get(view)
            if delivery is not None and delivery.wrote(now):
                self._events.dead(view)

    def perform(self, effect: Any) -> None:
        assert isinstance(effect, Woken)
        self.ready(effect.view)
        self.moved(effect.view)

    # --- start and stop ------------------------------------------------------------------------------------

    async def load(self, partition: Partition) -> int:
        """Brings the views back; how many records there were."""
        return await self.host.load(partition)

    def resume(self) -> None:
        """From now on leases end. Those that ran out while the node was down are nobody's failure."""
        self._is_resumed = True
        self._end_leases(self.host.machine)
        self.host.machine.resume()
        self.host.tell(lambda machine, now: machine.tick(now))

    def _end_leases(self, machine: Deliveries) -> None:
        now = self._clock.now_ms()
        for delivery in list(machine.views.values()):
            self.write(delivery, delivery.recovered(now, self._policy_of(delivery.view)))

    async def stop(self) -> None:
        await self.host.stop()


def _by_view(records: Sequence[Record]) -> Iterator[tuple[ViewId, list[Record]]]:
    return ((view, list(moves)) for view, moves in groupby(records, lambda record: record.view))
