"""Looks now and then how busy the shards of this node are."""

from __future__ import annotations

from typing import Final

from goqueue.base.clock import Clock
from goqueue.core.cluster.traffic import TrafficRates
from goqueue.drive.repeating import Repeating
from goqueue.drive.topic_table import TopicTable

_LOOK_S: Final = 5.0


class TrafficWatch:
    """Of all shards that are held here: who leads one next knows how much is written already."""

    def __init__(self, table: TopicTable, clock: Clock) -> None:
        self.rates = TrafficRates()
        self._table = table
        self._clock = clock
        self._looking = Repeating(_LOOK_S, self._look)

    def start(self) -> None:
        self._looking.start()

    async def stop(self) -> None:
        await self._looking.stop()

    async def _look(self) -> None:
        totals = dict[int, tuple[int, int]]()
        for topic in self._table.all():
            for number, partition in enumerate(topic.partitions):
                shard = topic.record.shard_of(number)
                (written, read), sums = partition.traffic, totals.get(shard, (0, 0))
                totals[shard] = sums[0] + written, sums[1] + read
        self.rates.counted(totals, self._clock.now_ms())
