"""Where groups stand: acks move a group's committed offset, and a committed offset acks all below it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from goqueue.base.errors import NotLoaded
from goqueue.base.ids import Offset, TopicPartition
from goqueue.base.priority import NAMES, NORMAL
from goqueue.core.dead_letter import KEEPER
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.records import ViewId
from goqueue.core.delivery.states import MessageState
from goqueue.core.groups.records import GroupGone, OffsetCommitted, Record
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.drive.lane_index import LaneIndex
from goqueue.drive.partition import Partition
from goqueue.service.lane_readers import LaneReaders
from goqueue.service.lane_search import LaneSearch
from goqueue.service.place_news import PlaceOffset
from goqueue.service.topics import Topics
from goqueue.service.view_news import ViewNews

_TELL_S: Final = 0.1
_TELL_AGAIN_S: Final = 1.0
_LANES: Final = range(len(NAMES))


class GroupsOfViews(Protocol):
    """Where groups stand, wherever they are kept."""

    def is_loaded(self, group: str, /) -> bool: ...

    def offsets(
        self, group: str, partitions: Sequence[TopicPartition], /
    ) -> Mapping[TopicPartition, OffsetCommitted]: ...

    def move(self, group: str, offsets: Mapping[TopicPartition, Offset], /) -> bool: ...


class Positions:
    """Keeps the two views of a group, per message and per offset, in step."""

    def __init__(
        self,
        runner: DeliveryShards,
        groups: GroupsOfViews,
        topics: Topics,
        feeds: LaneReaders,
        news: ViewNews | None = None,
    ) -> None:
        """`news` are for views at other nodes, where there are any."""
        self._between = news
        if news is not None:
            news.attach(self._told, self._forget)
        self._runner = runner
        self._groups = groups
        self._topics = topics
        self._feeds = feeds
        self._to_tell: dict[ViewId, None] = {}
        self._known: WeakKeyDictionary[Delivery, Offset] = WeakKeyDictionary()
        self._timer: asyncio.TimerHandle | None = None
        self._search = LaneSearch(runner, self.moved)

    async def stop(self) -> None:
        await self._search.stop()

    def recover(self, loaded: Iterable[Delivery]) -> None:
        """These were read: what a group committed is done, and what the logs lost is not known any more."""
        for delivery in loaded:
            view = delivery.view
            end = self._end(view)
            self._runner.write(delivery, delivery.cut_to(end))
            if self._between is None:
                self._pass_committed(view)
            else:
                self._between.later(view, self._pass_committed)

    def _pass_committed(self, view: ViewId) -> None:
        """What the group committed is done."""
        committed, delivery = self._groups.offsets(view.group, [view.at]).get(view.at), self._runner.find(view)
        if committed is not None and delivery is not None and delivery.base < committed.offset <= self._end(view):
            self._runner.write(delivery, delivery.pass_to(committed.offset))

    def begin(self, view: ViewId, partition: Partition, place: str, at: Offset | None = None) -> Offset:
        """Where a view that is new begins: at the group's offset, or where its consumer asks."""
        committed = self._groups.offsets(view.group, [view.at]).get(view.at)
        start, end = partition.start_offset, partition.high_watermark
        if committed is not None and start <= committed.offset <= end:
            return committed.offset
        if at is not None:
            return min(max(at, start), end)
        return self._feeds.of(partition, view.group).end if place == "latest" else start

    # --- acks move offsets -----------------------------------------------------------------------------------

    def moved(self, view: ViewId) -> None:
        """Something was done; the group is told a little later, once for many. The views themselves are durable."""
        if view.group == KEEPER:
            return  # no group that anybody can see
        self._to_tell[view] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TELL_S, self._tell_now)

    def catch_up(self) -> None:
        """Somebody is about to read offsets: they see everything that was done. Other threads see the last told."""
        if self._to_tell and asyncio._get_running_loop() is not None:
            self.tell()

    async def told(self, group: str) -> None:
        """Returns when a group knows what was done of it here, wherever it is kept."""
        self.catch_up()
        if self._between is not None:
            await self._between.moves_told(group)

    def tell(self) -> None:
        """Moves the groups' offsets, now. What cannot be asked or written now is told again."""
        views, self._to_tell = self._to_tell, {}
        moved: dict[str, dict[TopicPartition, Offset]] = {}
        for view in views:
            if not self._is_here(view):
                continue  # who leads the partition now tells
            if not (self._groups.is_loaded(view.group) and self._runner.is_loaded(view.at)):
                self._to_tell[view] = None
            elif (position := self._news(view)) is not None:
                moved.setdefault(view.group, {})[view.at] = position
        refused = [group for group, offsets in moved.items() if not self._groups.move(group, offsets)]
        for view in views if refused else ():
            if view.group in refused and self._is_here(view) and (delivery := self._runner.find(view)) is not None:
                self._known.pop(delivery, None)
                self._to_tell[view] = None
        if self._to_tell and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_TELL_AGAIN_S, self._tell_now)

    def _news(self, view: ViewId) -> Offset | None:
        """Where the group stands, if it was not told yet."""
        delivery = self._runner.find(view)
        if delivery is None:
            return None
        position = self.position(delivery)
        self._look_closer(delivery, position)
        if position <= self._last(delivery):  # only a commit moves a group back
            return None
        self._known[delivery] = position
        self._trim(delivery, position)
        return position

    def _tell_now(self) -> None:
        self._timer = None
        self.tell()

    def _last(self, delivery: Delivery) -> Offset:
        """What the group was told last."""
        view = delivery.view
        known = self._known.get(delivery)
        if known is None:
            committed = self._groups.offsets(view.group, [view.at]).get(view.at)
            is_sound = committed is not None and committed.offset <= self._end(view)
            known = self._known[delivery] = committed.offset if committed and is_sound else delivery.base
        return known

    def _trim(self, moved: Delivery, position: Offset) -> None:
        """What every group is past need not be known any more."""
        partition = self._partition(moved.view.at)
        if partition is not None:
            others = [self.position(one) for one in self._runner.at(moved.view.at) if one is not moved]
            lowest = min([position, *others])
            for feed in self._feeds.all_of(partition):
                if feed.index is not None:
                    feed.index.trim(lowest)

    def position(self, delivery: Delivery, at_most: bool = False) -> Offset:
        """Everything below is done, in every lane; `at_most` passes over lanes of which nothing is known yet."""
        partition = self._partition(delivery.view.at)
        if partition is None:
            return delivery.base
        feed = self._feeds.of(partition, delivery.view.group)
        lowest, index = partition.read_limit(feed.isolation), feed.index
        for number in _LANES:
            if not (at_most and _is_unknown(delivery, index, number)):
                lowest = min(lowest, _position_of(delivery, index, number))
        return max(lowest, delivery.base)

    def _look_closer(self, delivery: Delivery, position: Offset) -> None:
        """A lane that holds the group back where it shares a span with others may have nothing there."""
        partition = self._partition(delivery.view.at)
        feed = None if partition is None else self._feeds.of(partition, delivery.view.group)
        if partition is None or feed is None or feed.index is None or position >= feed.end:
            return
        if feed.index.is_mixed(position):
            for number in _LANES:
                if delivery.is_lane_clear(number) and _position_of(delivery, feed.index, number) == position:
                    self._search.want(delivery.view, number, feed)

    def _partition(self, at: TopicPartition) -> Partition | None:
        topic = self._topics.find(at.topic)
        return topic.partitions[at.partition] if topic is not None and at.partition < len(topic.partitions) else None

    # --- offsets move acks -----------------------------------------------------------------------------------

    def heard(self, records: Sequence[Record]) -> None:
        """The coordinator wrote these; what it says of a view's partition holds for the view."""
        if self._between is not None:
            self._between.wrote(records)
        for record in records:
            if record.group == KEEPER:
                continue  # its views are not a group's
            if isinstance(record, OffsetCommitted):
                self._committed(record)
            elif isinstance(record, GroupGone):
                self._forget(record.group)
                if self._between is not None:
                    self._between.gone(record.group)

    def _forget(self, group: str) -> None:
        self._runner.forget(lambda view: view.group == group)

    async def _told(self, places: Sequence[PlaceOffset]) -> None:
        """A group at another node committed these. Views that are being loaded may have been read already."""
        if not all(self._runner.is_loaded(one.at) for one in places):
            raise NotLoaded("The queue views are not loaded; try again in a moment.")
        for one in places:
            self._move(OffsetCommitted(one.group, one.at.topic, one.at.partition, one.offset, -1, "", -1))
        await self._runner.wait_durable({one.at for one in places})

    async def wait_heard(self, records: Sequence[Record]) -> None:
        """What these did to views is durable when it returns. A group that is gone has views anywhere."""
        if self._between is not None:
            await self._between.told(records)
        if any(isinstance(record, GroupGone) for record in records):
            await self._runner.wait_durable()
            return
        moved = [one for one in records if isinstance(one, OffsetCommitted)]
        views = [view for one in moved if self._is_here(view := ViewId(one.group, one.topic, one.partition))]
        await self._runner.wait_durable(view.at for view in views if self._runner.knows(view))

    def _is_here(self, view: ViewId) -> bool:
        return self._between is None or self._between.is_here(view.at)

    def _committed(self, record: OffsetCommitted) -> None:
        view = ViewId(record.group, record.topic, record.partition)
        between = self._between
        if between is None:
            if self._runner.is_loaded(view.at):
                self._move(record)  # else a load finds what was committed
        elif not between.is_here(view.at) or not self._runner.is_loaded(view.at) or between.tells(record):
            between.committed(record)
        else:
            self._move(record)

    def _move(self, record: OffsetCommitted) -> None:
        view = ViewId(record.group, record.topic, record.partition)
        delivery = self._runner.find(view)
        if delivery is None or self._known.get(delivery) == record.offset:
            return
        if record.offset < self.position(delivery, at_most=True):
            self._runner.write(delivery, delivery.open_at(record.offset))
        elif record.offset > self.position(delivery):
            self._runner.write(delivery, delivery.pass_to(min(record.offset, self._end(view))))
        self._known[delivery] = record.offset
        self._runner.ready(view)

    def _end(self, view: ViewId) -> Offset:
        return self._topics.require(view.topic).partition(view.partition).high_watermark

    # --- counts ----------------------------------------------------------------------------------------------

    def backlog(self, view: ViewId, partition: Partition) -> int:
        """About how many messages could be handed out now."""
        keeper = self._runner.find(ViewId(KEEPER, *view[1:]))
        unseen = sum(self.unseen_of(view, partition, lane) for lane in _LANES)
        if keeper is not None and unseen:
            unseen = max(0, unseen - self._taken_out(view, partition, keeper))
        return self._ready(view, partition, keeper) + unseen

    def _ready(self, view: ViewId, partition: Partition, keeper: Delivery | None) -> int:
        """Looked at, and free; without those that the log lost, or that were redriven since."""
        delivery = self._runner.find(view)
        start = partition.start_offset
        if delivery is None or not delivery.count(MessageState.READY):
            return 0
        if keeper is None and delivery.is_done_below(start):
            return delivery.count(MessageState.READY)
        return sum(keeper is None or keeper.is_open(offset) for offset in delivery.ready_from(start))

    def _taken_out(self, view: ViewId, partition: Partition, keeper: Delivery) -> int:
        """How many dead letters that the view has not looked at are gone: redriven, or deleted."""
        delivery = self._runner.find(view)
        begin, end = partition.start_offset, self._feeds.of(partition, view.group).end
        if delivery is not None:
            begin = max(begin, delivery.looked_from)
        return keeper.gone_between(begin, end)

    def unseen_of(self, view: ViewId, partition: Partition, lane: int) -> int:
        """About how many of a lane were never looked at; what was not looked through counts as normal."""
        delivery = self._runner.find(view)
        feed = self._feeds.of(partition, view.group)
        index, end = feed.index, feed.end
        if delivery is None:
            return max(0, end - self.begin(view, partition, "earliest")) if lane == NORMAL else 0
        begin = max(delivery.look_from(lane), partition.start_offset)
        if index is None or begin < index.begin:
            return max(0, end - begin) if lane == NORMAL else 0
        unseen = max(0, end - max(begin, index.scanned_to)) if lane == NORMAL else 0
        return index.count(lane, begin) + unseen


def _position_of(delivery: Delivery, index: LaneIndex | None, number: int) -> Offset:
    """Nothing of the lane is open below: what was handed out is done, and the index knows of no other."""
    here = delivery.lane_position(number)
    if index is not None and index.begin <= here and delivery.is_lane_clear(number):
        return index.next_of(number, here)
    return here


def _is_unknown(delivery: Delivery, index: LaneIndex | None, number: int) -> bool:
    return not delivery.knows_lane(number) and (index is None or index.begin > delivery.base)
