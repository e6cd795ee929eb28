"""The disk, topics and partitions on `/metrics`: read on the loop when somebody scrapes, rendered off it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from goqueue.drive.topic_table import Topic, TopicTable
from goqueue.log.space import SpaceGuard
from goqueue.log.stats import StorageStats
from goqueue.service.metric_series import Family, Key, SeriesTable, Values
from goqueue.service.metrics import BrokerMetrics, TopicCounters

_BY_TOPIC: Final = (
    Family("goqueue_broker_messages_published", "Messages stored.", True),
    Family("goqueue_broker_batches_published", "Record batches stored.", True),
    Family("goqueue_broker_bytes_published", "Bytes stored.", True),
    Family("goqueue_broker_fetches", "Reads that found data.", True),
    Family("goqueue_broker_bytes_fetched", "Bytes read.", True),
    Family(
        "goqueue_broker_unreadable",
        "Times that a reader passed over records that cannot be read, whatever their producer put there.",
        True,
    ),
)
_BY_PARTITION: Final = (
    Family("goqueue_broker_start_offset", "First offset of a log."),
    Family("goqueue_broker_high_watermark", "Where readers end."),
    Family("goqueue_storage_log_size_bytes", "Bytes of a log."),
    Family("goqueue_storage_segments", "Segments of a log."),
    Family("goqueue_storage_log_failed", "1 if a log is read-only."),
)
_SLICE: Final = 200  # partitions that are looked at without a stop, about a millisecond


class TopicCollector:
    """`look` takes the numbers; `collect` shows the last ones taken."""

    def __init__(self, metrics: BrokerMetrics, topics: TopicTable, series_max: int) -> None:
        self._metrics = metrics
        self._topics = topics
        self._by_topic = SeriesTable(("topic",), _BY_TOPIC, series_max, lambda row: (row[2] or 0) + (row[4] or 0))
        self._by_partition = SeriesTable(("topic", "partition"), _BY_PARTITION, series_max, lambda row: row[2] or 0)
        self._counters: Mapping[Key, Values] = {}
        self._partitions: Mapping[Key, Values] = {}
        self._count = 0

    def look(self) -> Iterator[None]:
        topics = self._topics.all()
        self._count = len(topics)
        self._counters = {(name,): _counted(one) for name, one in sorted(self._metrics.topics.items())}
        found: dict[Key, Values] = {}
        paused = 0
        for topic in topics:
            if self._topics.get(topic.name) is topic:  # it may be gone since
                found.update(_partitions(topic))
            if len(found) - paused >= _SLICE:
                paused = len(found)
                yield
        self._partitions = found

    def collect(self) -> Iterator[Metric]:
        yield _gauge("goqueue_broker_topics", "Topics.", self._count)
        yield _gauge("goqueue_broker_partitions", "Partitions.", len(self._partitions))
        yield from self._by_topic.families(self._counters)
        yield from self._by_partition.families(self._partitions)


def _counted(one: TopicCounters) -> Values:
    return (one.messages_in, one.batches_in, one.bytes_in, one.fetches, one.bytes_out, one.unreadable or None)


def _partitions(topic: Topic) -> Iterator[tuple[Key, Values]]:
    for one in topic.partitions:
        yield (
            (topic.name, str(one.at.partition)),
            (one.start_offset, one.high_watermark, one.size_bytes, one.segment_count, one.failure is not None),
        )


class StorageCollector:
    """The storage engine's own numbers."""

    def __init__(self, stats: StorageStats, space: SpaceGuard, recovery_s: float) -> None:
        self._stats = stats
        self._space = space
        self._recovery_s = recovery_s

    def collect(self) -> Iterator[Metric]:
        for name, meaning, value in self._stats.described():
            yield _counter(f"goqueue_storage_{name}", meaning, value)
        usage = self._space.usage
        yield _gauge("goqueue_storage_disk_used_ratio", "Share of the disk in use.", usage.used_percent / 100)
        yield _gauge("goqueue_storage_disk_free_bytes", "Free bytes on the disk.", usage.free_bytes)
        yield _gauge("goqueue_storage_writable", "1 while writes are accepted.", not self._space.is_full)
        yield _gauge("goqueue_storage_recovery_seconds", "How long the last start-up took.", self._recovery_s)


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric((), value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), float(value))
    return family
