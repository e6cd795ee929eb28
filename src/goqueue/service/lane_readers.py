"""One feed for each partition that somebody takes messages from."""

from __future__ import annotations

from goqueue.base.ids import TopicPartition
from goqueue.drive.batch_cache import BatchCache
from goqueue.drive.decoding import Decoding
from goqueue.drive.lane_reader import LaneReader
from goqueue.drive.partition import Partition
from goqueue.service.unreadable import UnreadableRecords


class LaneReaders:
    """Made on demand, gone with the topic."""

    def __init__(self, decoding: Decoding, on_unreadable: UnreadableRecords) -> None:
        self._decoding = decoding
        self._on_unreadable = on_unreadable
        self._cache = BatchCache()
        self._feeds: dict[TopicPartition, LaneReader] = {}

    def of(self, partition: Partition) -> LaneReader:
        feed = self._feeds.get(partition.at)
        if feed is None or feed.partition is not partition:
            self.forget_partition(partition.at)
            feed = self._feeds[partition.at] = LaneReader(partition, self._cache, self._decoding, self._on_unreadable)
        return feed

    def forget(self, topic: str) -> None:
        for at in [at for at in self._feeds if at.topic == topic]:
            self.forget_partition(at)

    def forget_partition(self, at: TopicPartition) -> None:
        feed = self._feeds.pop(at, None)
        if feed is not None:
            feed.forget()
