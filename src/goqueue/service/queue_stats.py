"""How queues stand, in numbers: what became of messages, and how priorities are served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from goqueue.base.ids import Millis
from goqueue.base.priority import NAMES
from goqueue.core.dead_letter import KEEPER
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.questions import LaneCounts
from goqueue.core.delivery.states import MessageState
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.drive.partition import Partition
from goqueue.service.lane_readers import LaneReaders
from goqueue.service.positions import Positions
from goqueue.service.topics import Topics


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
        for delivery in sorted(self._runner.all(), key=lambda one: one.view):
            view = delivery.view
            known = self._topics.find(view.topic)
            if known is None or view.group == KEEPER or view.partition >= len(known.partitions):
                continue
            if group in (None, view.group) and topic in (None, view.topic):
                yield delivery, known.partitions[view.partition]
