"""One feed for each partition that somebody takes messages from; two, if some groups take what is not committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from goqueue.base.commands import Isolation
from goqueue.base.ids import TopicPartition
from goqueue.drive.batch_cache import BatchCache
from goqueue.drive.decoding import Decoding
from goqueue.drive.lane_reader import LaneReader
from goqueue.drive.partition import Partition
from goqueue.service.unreadable import UnreadableRecords

_Feeds: TypeAlias = dict[TopicPartition, LaneReader]
_COMMITTED, _UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED


class LaneReaders:
    """Made on demand, gone with the topic."""

    def __init__(
        self, decoding: Decoding, on_unreadable: UnreadableRecords, takes_uncommitted: Callable[[str], bool]
    ) -> None:
        """`takes_uncommitted` says of a group whether it is handed what a transaction may yet take back."""
        self._decoding = decoding
        self._on_unreadable = on_unreadable
        self._takes_uncommitted = takes_uncommitted
        self._caches = {_COMMITTED: BatchCache(), _UNCOMMITTED: BatchCache()}
        self._feeds: dict[Isolation, _Feeds] = {_COMMITTED: {}, _UNCOMMITTED: {}}

    def of(self, partition: Partition, group: str | None = None) -> LaneReader:
        """As the group sees it, or a reader of committed data."""
        return self.reader(partition, _COMMITTED if group is None else self.isolation(group))

    def isolation(self, group: str) -> Isolation:
        """What the group is handed of transactions."""
        return _UNCOMMITTED if self._takes_uncommitted(group) else _COMMITTED

    def reader(self, partition: Partition, isolation: Isolation) -> LaneReader:
        """As groups with this isolation see it."""
        feed = self._feeds[isolation].get(partition.at)
        return feed if feed is not None and feed.partition is partition else self._make(partition, isolation)

    def _make(self, partition: Partition, isolation: Isolation) -> LaneReader:
        feeds = self._feeds[isolation]
        if (former := feeds.pop(partition.at, None)) is not None:
            former.forget()
        cache = self._caches[isolation]
        feed = feeds[partition.at] = LaneReader(partition, cache, self._decoding, self._on_unreadable, isolation)
        return feed

    def all_of(self, partition: Partition) -> list[LaneReader]:
        """Those that somebody took from."""
        found = [feeds.get(partition.at) for feeds in self._feeds.values()]
        return [feed for feed in found if feed is not None and feed.partition is partition]

    def forget(self, topic: str) -> None:
        for at in [at for feeds in self._feeds.values() for at in feeds if at.topic == topic]:
            self.forget_partition(at)

    def forget_partition(self, at: TopicPartition) -> None:
        for feeds in self._feeds.values():
            if (feed := feeds.pop(at, None)) is not None:
                feed.forget()
