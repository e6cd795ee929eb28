"""Groups on `/metrics`: members and lag, in messages and in seconds."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import Final, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric

from goqueue.base.clock import Clock
from goqueue.base.errors import NotLoaded
from goqueue.base.ids import Millis, Offset
from goqueue.core.groups.errors import UnknownGroup
from goqueue.drive.partition import Partition
from goqueue.service.groups import Groups, PartitionLag
from goqueue.service.metric_series import Family, Key, SeriesTable, Values
from goqueue.service.topics import Topics

_BY_PARTITION: Final = (
    Family("goqueue_consumer_lag", "Messages that a group has yet to commit."),
    Family("goqueue_consumer_committed_offset", "Where a group goes on in a partition."),
    Family(
        "goqueue_consumer_lag_seconds",
        "How long ago the first message was published that a group has yet to commit; 0 if there is none.",
    ),
)
_BY_GROUP: Final = (
    Family("goqueue_consumer_members", "Members of a group."),
    Family("goqueue_consumer_rebalances", "Rebalances of a group.", True),
)
_SLICE: Final = 100  # rows that are looked up without a stop, about a millisecond


class PublishTimes:
    """When messages were published, looked up in the logs. Those of a consumer that stands still are known."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[tuple[Partition, Offset], Millis | None] = {}
        self._before: dict[tuple[Partition, Offset], Millis | None] = {}

    def begin(self) -> None:
        """A scrape: what the last one asked for is known, and nothing else."""
        self._before, self._known = self._known, {}

    def age_s(self, partition: Partition, offset: Offset) -> float | None:
        """Of the message at the offset. Reads the log: not on the loop."""
        asked = partition, offset
        found = self._before.get(asked) or partition.time_at(offset)
        self._known[asked] = found
        return None if found is None else max(0.0, (self._clock.now_ms() - found) / 1000)


class _Lag(NamedTuple):
    group: str
    at: PartitionLag
    partition: Partition | None


class GroupCollector:
    """`look` takes the numbers; `collect` shows the last ones taken. Nothing, while groups are being read."""

    def __init__(self, groups: Groups, topics: Topics, clock: Clock, series_max: int) -> None:
        self._groups = groups
        self._topics = topics
        self._times = PublishTimes(clock)
        self._series_max = series_max
        labels = ("group", "topic", "partition")
        self._by_partition = SeriesTable(labels, _BY_PARTITION, series_max, lambda row: row[0] or 0)
        self._by_group = SeriesTable(("group",), _BY_GROUP, series_max, lambda row: row[0] or 0)
        self._lags: list[_Lag] = []
        self._rows: dict[Key, Values] = {}
        self._count: int | None = None

    def look(self) -> Iterator[None]:
        lags, rows, count = list[_Lag](), dict[Key, Values](), None
        try:
            listed = self._groups.list()
            count = self._groups.count()
        except NotLoaded:
            listed = []
        paused = 0
        for one in listed:
            try:
                behind, stats = self._groups.lag(one.group), self._groups.stats(one.group)
            except (UnknownGroup, NotLoaded):
                continue  # being read again, or gone since
            rows[(one.group,)] = (one.members, stats.rebalances)
            lags += (_Lag(one.group, at, self._partition(at)) for at in behind)
            if len(rows) + len(lags) - paused >= _SLICE:
                paused = len(rows) + len(lags)
                yield
        self._lags, self._rows, self._count = lags, rows, count

    def _partition(self, at: PartitionLag) -> Partition | None:
        topic = self._topics.find(at.topic)
        return None if topic is None or at.partition >= len(topic.partitions) else topic.partitions[at.partition]

    def collect(self) -> Iterator[Metric]:
        if self._count is None:
            return
        self._times.begin()
        # Ages are read from the logs: of no more than are shown.
        largest = set(map(id, nlargest(self._series_max, self._lags, key=lambda one: one.at.lag)))
        rows = dict(self._row(one, id(one) in largest) for one in self._lags)
        yield from self._by_partition.families(rows)
        yield from self._by_group.families(self._rows)
        count = GaugeMetricFamily("goqueue_groups", "Groups of the node, with members or with offsets alone.")
        count.add_metric((), self._count)
        yield count

    def _row(self, one: _Lag, with_age: bool) -> tuple[Key, Values]:
        key, committed = (one.group, one.at.topic, str(one.at.partition)), one.at.committed
        told = committed if committed >= 0 else None
        partition = one.partition
        if partition is None or not (partition.is_led or partition.end_offset):
            return key, (None, told, None)  # of another node, which knows where it ends
        if not one.at.lag:
            return key, (0, told, 0.0)
        age = self._times.age_s(partition, max(committed, partition.start_offset)) if with_age else None
        return key, (one.at.lag, told, age)
