"""Moves messages from one topic to another, whole, exactly once: into the dead letters, and out of them again.

That a message goes is written before its copy is made, with how long the target's log was then; that the copy is safe
is written after. A start finds those whose copies are not known to be safe, looks for them in that log from there on,
and makes only those that are missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol

from goqueue.base.commands import Headers
from goqueue.base.errors import Forbidden, GoQueueError, Invalid, NotFound, TooLarge, TopicExists
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.limits import MIB
from goqueue.core.delivery.lane import TrackedMessage
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.policy import DeadLetterTarget
from goqueue.core.delivery.records import ViewId
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.format.batch import HEADER_BYTES
from goqueue.format.records import NewRecord, Record, build
from goqueue.service.copy_targets import CopyTargets
from goqueue.service.lane_readers import LaneReaders
from goqueue.service.redriven import AllCopies
from goqueue.service.topics import Topics
from goqueue.service.trace_leases import TracedLeases

logger = logging.getLogger(__name__)

_AT_ONCE: Final = 500  # copies in one round
_RETRY_S: Final = 1.0
_REFUSED: Final = (Invalid, Forbidden, NotFound, TooLarge)  # trying again would not help

Dead = dict[Offset, TrackedMessage]


class Copies(Protocol):
    """How the copies of one kind of messages look, and what their target may do."""

    makes_topics: bool  # the target is made if it is not there
    puts_back: bool  # what the target refuses stays where it was

    def copy(self, view: ViewId, message: Record, held: TrackedMessage) -> NewRecord: ...

    def origin(self, headers: Headers) -> tuple[ViewId, Offset] | None:
        """Of which message something in the target is the copy."""
        ...

    def moved(self, view: ViewId, dead: Dead) -> None:
        """The copies are safe; the view may be gone meanwhile."""
        ...

    def refused(self, view: ViewId, count: int, why: GoQueueError) -> None: ...


class Transfer:
    """One task a view, while it has messages to move."""

    def __init__(
        self,
        runner: DeliveryShards,
        topics: Topics,
        targets: CopyTargets,
        feeds: LaneReaders,
        copies: AllCopies,
        traces: TracedLeases | None,
    ) -> None:
        self._runner = runner
        self._topics = topics
        self._targets = targets
        self._feeds = feeds
        self._copies_of = copies.of
        self._traces = traces
        self._tasks: dict[ViewId, asyncio.Task[None]] = {}
        self._unsure: set[ViewId] = set()  # some copies may be there already
        self._is_resumed = False

    def resume(self) -> None:
        """Nothing moves before this."""
        self._is_resumed = True
        self.recover(self._runner.all())

    def recover(self, loaded: Iterable[Delivery]) -> None:
        """These were read from the log: their copies may or may not be there."""
        for delivery in loaded:
            if delivery.has_dead:
                self._unsure.add(delivery.view)
                self.begin(delivery.view)

    def begin(self, view: ViewId) -> None:
        if self._is_resumed and view not in self._tasks:
            self._tasks[view] = asyncio.ensure_future(self._move_until_none(view))

    async def finish(self, view: ViewId) -> None:
        """Returns when nothing of the view is on its way."""
        if (task := self._tasks.get(view)) is not None:
            await asyncio.wait([task])

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _move_until_none(self, view: ViewId) -> None:
        """Gone from the table the moment it looked last: who dies after that starts another."""
        try:
            await self._move_all(view)
        finally:
            self._tasks.pop(view, None)

    async def _move_all(self, view: ViewId) -> None:
        while True:
            try:
                delivery = self._runner.find(view)
                if delivery is None or not delivery.has_dead or self._topics.find(view.topic) is None:
                    break  # a topic that is deleted takes the view with it in a moment
                if view in self._unsure:
                    await self._find_copies(delivery)
                    self._unsure.discard(view)
                await self._move(delivery)
            except (GoQueueError, OSError) as error:
                if not self._targets.is_here(view.at):
                    break  # whoever leads the partition now finds how far it got
                logger.error("dead letters wait", extra={"view": str(view), "error": str(error)})
                self._unsure.add(view)  # it is not known how far it got
                await asyncio.sleep(_RETRY_S)
        self._unsure.discard(view)

    # --- copies ----------------------------------------------------------------------------------------------

    async def _move(self, delivery: Delivery) -> None:
        """Some of them, all with one target."""
        await self._runner.wait_durable([delivery.view.at])  # that they go comes first
        topic = self._topics.find(delivery.view.topic)
        if topic is None or not delivery.has_dead:
            return
        dead_letter_target, chosen = delivery.next_dead(_AT_ONCE)
        copies = self._copies_of(delivery.view)
        messages = await self._feeds.of(topic.partition(delivery.view.partition), delivery.view.group).at(chosen)
        records = [
            self._copy(copies, delivery.view, message, chosen[offset])
            for offset, message in messages.items()
            if message is not None
        ]
        try:
            if records:
                await self._store(dead_letter_target, len(topic.partitions), records, copies.makes_topics)
        except _REFUSED as error:
            if not copies.puts_back:
                raise
            await self._put_back(delivery, dead_letter_target, chosen, copies, error)
            return
        self._done(delivery, chosen)

    def _copy(self, copies: Copies, view: ViewId, message: Record, held: TrackedMessage) -> NewRecord:
        copy = copies.copy(view, message, held)
        return copy if self._traces is None else self._traces.carry(view, message, copy)

    async def _store(
        self, dead_letter_target: DeadLetterTarget, partitions: int, records: list[NewRecord], makes_topic: bool
    ) -> None:
        if makes_topic and self._topics.find(dead_letter_target.topic) is None:
            with suppress(TopicExists):
                await self._topics.create(dead_letter_target.topic, partitions, {}, may_collide=True)
        found = self._topics.require(dead_letter_target.topic)
        at = TopicPartition(dead_letter_target.topic, dead_letter_target.partition % len(found.partitions))
        batches = _batches(records, found.config.max_message_bytes)
        stored = await self._targets.store(at, [build(batch) for batch in batches])
        if self._traces is not None:
            for base_offset, batch in zip(stored, batches, strict=True):
                self._traces.copied(at, base_offset, batch, is_burial=makes_topic)

    async def _put_back(
        self, delivery: Delivery, dead_letter_target: DeadLetterTarget, chosen: Dead, copies: Copies, why: GoQueueError
    ) -> None:
        """Some may be in the target before the one that it refused; the others stay where they were."""
        if self._topics.find(dead_letter_target.topic) is not None:
            await self._targets.settle(TopicPartition(dead_letter_target.topic, dead_letter_target.partition))
        await self._find_copies(delivery)
        if self._runner.is_current(delivery):
            left = list(delivery.dead_among(chosen))
            self._runner.write(delivery, delivery.put_back(left))
            copies.refused(delivery.view, len(left), why)

    def _done(self, delivery: Delivery, dead: Dead) -> None:
        self._copies_of(delivery.view).moved(delivery.view, dead)
        if self._runner.is_current(delivery):
            self._runner.write(delivery, delivery.interred(dead))
            self._runner.moved(delivery.view)

    # --- after a crash ---------------------------------------------------------------------------------------

    async def _find_copies(self, delivery: Delivery) -> None:
        """Notes those that are there already."""
        for at, begin in delivery.dead_targets().items():
            there = delivery.dead_among(await self._targets.copied(at, begin, delivery.view))
            if there:
                self._done(delivery, there)


def _batches(copies: list[NewRecord], size_max: int) -> list[list[NewRecord]]:
    """As few batches as fit."""
    most = min(size_max, MIB) - HEADER_BYTES
    batches: list[list[NewRecord]] = []
    size = most
    for copy in copies:
        size += copy.size_max
        if size > most:
            batches.append([])
            size = copy.size_max
        batches[-1].append(copy)
    return batches
