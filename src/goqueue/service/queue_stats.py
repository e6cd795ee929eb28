"""How queues stand, in numbers: what became of messages, and how priorities are served."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

import msgspec

from goqueue.base.commands import Stored
from goqueue.base.ids import Millis, Offset
from goqueue.base.leases import receipt_ends
from goqueue.base.limits import PAGE_BYTES_MAX
from goqueue.base.priority import NAMES
from goqueue.core.dead_letter import KEEPER
from goqueue.core.delivery.lane import Lease, TrackedMessage
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.questions import LaneCounts
from goqueue.core.delivery.states import MessageState
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.drive.partition import Partition
from goqueue.format.records import Record
from goqueue.service.lane_readers import LaneReaders
from goqueue.service.positions import Positions
from goqueue.service.topics import Topics

_PEEK_STEP: Final = 8


class Reliability(msgspec.Struct, frozen=True):
    """One group in one topic. Counts are since the group began there; the others are now."""

    group: str
    topic: str
    acked: int
    nacked: int
    rejected: int
    expired_leases: int
    dead_letters: dict[str, int]
    ready: int
    in_flight: int
    waiting: int


class LaneNumbers(msgspec.Struct, frozen=True):
    """One lane of one partition as a group sees it. `last_served` and `oldest_waiting` are milliseconds."""

    group: str
    topic: str
    partition: int
    lane: str
    ready: int
    in_flight: int
    waiting: int
    enqueued: int
    dequeued: int
    last_served: Millis | None
    oldest_waiting: Millis | None


class HeldMessage(msgspec.Struct, frozen=True):
    """A message that somebody holds, and the receipt of that."""

    partition: int
    offset: Offset
    lane: str
    member_id: str
    attempt: int
    failures: int
    since_ms: Millis
    until_ms: Millis
    receipt: str


class OpenOffset(NamedTuple):
    """The first message of a partition that a group is not done with."""

    group: str
    partition: Partition
    offset: Offset


class QueueStats:
    """The verbs. They run on the loop: what they read changes under other threads."""

    def __init__(self, runner: DeliveryShards, topics: Topics, positions: Positions, feeds: LaneReaders) -> None:
        self._runner = runner
        self._topics = topics
        self._positions = positions
        self._feeds = feeds

    async def look(self, group: str | None = None, topic: str | None = None) -> None:
        """Looks through logs that hold priorities and were not looked through since the start."""
        for delivery, partition in list(self._views(group, topic)):
            feed = self._feeds.of(partition, delivery.view.group)
            if feed.index is None and not delivery.is_plain:
                await feed.look(delivery.base)

    def reliability(self, group: str | None = None, topic: str | None = None) -> list[Reliability]:
        """By group and topic; only what is named, if something is."""
        found: dict[tuple[str, str], list[tuple[Delivery, Partition]]] = {}
        for delivery, partition in self._views(group, topic):
            found.setdefault(delivery.view[:2], []).append((delivery, partition))
        return [self._sum(names, found[names]) for names in sorted(found)]

    def _sum(self, names: tuple[str, str], parts: list[tuple[Delivery, Partition]]) -> Reliability:
        tallies = [delivery.tally for delivery, _ in parts]
        dead: Counter[str] = Counter()
        for tally in tallies:
            dead.update(tally.dead)
        return Reliability(
            *names,
            sum(tally.acked for tally in tallies),
            sum(tally.nacked for tally in tallies),
            sum(tally.rejected for tally in tallies),
            sum(tally.expired for tally in tallies),
            dict(dead),
            sum(self._positions.backlog(delivery.view, partition) for delivery, partition in parts),
            sum(delivery.count(MessageState.LEASED) for delivery, _ in parts),
            sum(delivery.count(MessageState.WAITING) for delivery, _ in parts),
        )

    def leases(self, group: str, topic: str, limit: int) -> list[HeldMessage]:
        """What consumers of the group hold of the topic."""
        found: list[HeldMessage] = []
        for delivery, _ in self._views(group, topic):
            found += (
                _held(delivery, offset, held, held.lease)
                for offset, held in delivery.leases(limit - len(found))
                if held.lease is not None
            )
        return found

    async def peek(self, group: str, topic: str, limit: int) -> list[Stored]:
        """What could be handed out next, of each partition by priority, as much as a page has; nothing is taken."""
        found: list[Stored] = []
        left = PAGE_BYTES_MAX
        for delivery, partition in list(self._views(group, topic)):
            for number in range(len(NAMES)):
                async for one in self._next_of(delivery, partition, number, limit):
                    if len(found) >= limit or left <= 0:
                        return found
                    left -= len(one.key or b"") + len(one.value or b"")
                    place = topic, partition.at.partition, one.offset, one.timestamp_ms
                    found.append(Stored(*place, one.key, one.value, one.headers))
        return found

    async def _next_of(
        self, delivery: Delivery, partition: Partition, number: int, limit: int
    ) -> AsyncIterator[Record]:
        """Of one lane, a few at a time: each may be large."""
        feed = self._feeds.of(partition, delivery.view.group)
        for offset in delivery.ready_again(number, limit):
            if (again := (await feed.at([offset]))[offset]) is not None:
                yield again
        begin, is_end = delivery.look_from(number), False
        while not is_end:
            fresh, begin = await feed.of_lane(number, begin, _PEEK_STEP)
            is_end = len(fresh) < _PEEK_STEP
            for one in fresh:
                yield one

    async def lanes(self, group: str | None = None, topic: str | None = None) -> list[LaneNumbers]:
        """Lanes that hold or held something. The oldest message is looked up in the log."""
        await self.look(group, topic)
        found: list[LaneNumbers] = []
        for delivery, partition in list(self._views(group, topic)):
            for one in self.lanes_of(delivery, partition):
                oldest = await self._oldest(delivery, partition, NAMES.index(one.lane)) if one.ready else None
                found.append(msgspec.structs.replace(one, oldest_waiting=oldest))
        return found

    def all_lanes(self) -> list[LaneNumbers]:
        """The same without the oldest message, at once."""
        return [one for delivery, partition in self._views(None, None) for one in self.lanes_of(delivery, partition)]

    def open_offsets(self) -> list[OpenOffset]:
        """Where the oldest message may be that is not done, of every partition that has one."""
        return [
            OpenOffset(delivery.view.group, partition, position)
            for delivery, partition in self._views(None, None)
            if (position := self._positions.position(delivery)) < partition.high_watermark
        ]

    def lanes_of(self, delivery: Delivery, partition: Partition) -> Iterator[LaneNumbers]:
        lanes = delivery.lane_counts()
        for number, name in enumerate(NAMES):
            unseen = self._positions.unseen_of(delivery.view, partition, number)
            if number not in lanes and not unseen:
                continue
            lane = lanes.get(number, LaneCounts())
            yield LaneNumbers(
                *delivery.view,
                name,
                lane.ready + unseen,
                lane.leased,
                lane.waiting,
                lane.finished + lane.tracked + unseen,
                lane.handed,
                lane.served_ms,
                None,
            )

    async def _oldest(self, delivery: Delivery, partition: Partition, number: int) -> Millis | None:
        """When the first message that could be handed out was published."""
        feed = self._feeds.of(partition, delivery.view.group)
        times = [
            record.timestamp_ms
            for record in (await feed.at(delivery.ready_again(number, 1))).values()
            if record is not None
        ]
        fresh, _ = await feed.of_lane(number, delivery.look_from(number), 1)
        return min([*times, *(record.timestamp_ms for record in fresh)], default=None)

    def _views(self, group: str | None, topic: str | None) -> Iterator[tuple[Delivery, Partition]]:
        """Of all that there is, what can be asked now: a shard that is still loaded does not hide the others."""
        found = self._runner.loaded() if group is topic is None else self._runner.all()
        for delivery in sorted(found, key=lambda one: one.view):
            view = delivery.view
            known = self._topics.find(view.topic)
            if known is None or view.group == KEEPER or view.partition >= len(known.partitions):
                continue
            if group in (None, view.group) and topic in (None, view.topic):
                yield delivery, known.partitions[view.partition]


def _held(delivery: Delivery, offset: Offset, held: TrackedMessage, lease: Lease) -> HeldMessage:
    head, tail = receipt_ends(delivery.view.at, held.handed, lease.nonce)
    receipt, lane = f"{head}{offset}{tail}", NAMES[held.lane]
    place = delivery.view.partition, offset, lane, lease.owner, held.handed, held.failed
    return HeldMessage(*place, lease.since_ms, lease.until_ms, receipt)
