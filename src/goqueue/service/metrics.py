"""What the node shows on `/metrics`.

Hot paths touch cached children and plain numbers; everything that can be looked up is looked up when somebody scrapes.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from goqueue import __version__
from goqueue.base.errors import NotLoaded
from goqueue.base.ids import Millis
from goqueue.core.groups.errors import UnknownGroup
from goqueue.drive.topic_table import TopicTable
from goqueue.log.space import SpaceGuard
from goqueue.log.stats import StorageStats
from goqueue.service.groups import Groups

_LATENCY_S = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Counter(prometheus_client.Counter):
    """Whether it can be counted at all is told where it is made, not each time."""

    def inc(self, amount: float = 1, exemplar: dict[str, str] | None = None) -> None:
        self._value.inc(amount)


class Histogram(prometheus_client.Histogram):
    """The same."""

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        self._sum.inc(amount)
        self._buckets[bisect_left(self._upper_bounds, amount)].inc(1)


class TopicCounters:
    """One topic's children, looked up once."""

    __slots__ = ("batches_in", "bytes_in", "bytes_out", "fetches", "messages_in")

    def __init__(self, metrics: BrokerMetrics, topic: str) -> None:
        self.messages_in = metrics.messages_published.labels(topic)
        self.batches_in = metrics.batches_published.labels(topic)
        self.bytes_in = metrics.bytes_published.labels(topic)
        self.bytes_out = metrics.bytes_fetched.labels(topic)
        self.fetches = metrics.fetches.labels(topic)


class BrokerMetrics:
    """The registry and the families that verbs and doors feed."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        topic = ("topic",)
        self.messages_published = Counter(
            "goqueue_broker_messages_published", "Messages stored.", topic, registry=registry
        )
        self.batches_published = Counter(
            "goqueue_broker_batches_published", "Record batches stored.", topic, registry=registry
        )
        self.bytes_published = Counter("goqueue_broker_bytes_published", "Bytes stored.", topic, registry=registry)
        self.publish_errors = Counter(
            "goqueue_broker_publish_errors", "Publishes refused, by error code.", ("code",), registry=registry
        )
        self.publish_seconds = Histogram(
            "goqueue_broker_publish_seconds",
            "From a batch's arrival at the verb to its answer.",
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.fetches = Counter("goqueue_broker_fetches", "Reads that found data.", topic, registry=registry)
        self.bytes_fetched = Counter("goqueue_broker_bytes_fetched", "Bytes read.", topic, registry=registry)
        self.fetch_errors = Counter(
            "goqueue_broker_fetch_errors", "Reads refused, by error code.", ("code",), registry=registry
        )
        self.unreadable = Counter(
            "goqueue_broker_unreadable",
            "Times that a reader passed over records that cannot be read, whatever their producer put there.",
            topic,
            registry=registry,
        )
        self.long_polls = Gauge("goqueue_broker_long_polls", "Readers waiting for data.", registry=registry)
        self.sync_seconds = Histogram(
            "goqueue_storage_sync_seconds",
            "Rounds of the group commit.",
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.clock_steps = Counter(
            "goqueue_broker_clock_steps", "Times that the machine's clock was set.", ("direction",), registry=registry
        )
        self.requests = Counter(
            "goqueue_rest_requests", "REST requests answered.", ("method", "route", "status"), registry=registry
        )
        self.request_seconds = Histogram(
            "goqueue_rest_request_seconds",
            "REST requests, long polls included.",
            ("route",),
            buckets=_LATENCY_S,
            registry=registry,
        )
        door = ("door",)
        self.http_connections = Gauge(
            "goqueue_http_connections", "Connections to a door over HTTP.", door, registry=registry
        )
        self.http_refused = Counter(
            "goqueue_http_refused",
            "Connections and requests refused or cut off at a limit of a door over HTTP, by reason.",
            ("door", "reason"),
            registry=registry,
        )
        self.http_unread_bytes = Gauge(
            "goqueue_http_unread_bytes", "Answers that clients have yet to read.", door, registry=registry
        )
        self.http_body_bytes = Gauge(
            "goqueue_http_body_bytes", "Request bodies held in memory.", door, registry=registry
        )
        self.kafka_connections = Gauge("goqueue_kafka_connections", "Kafka clients connected.", registry=registry)
        self.kafka_connections_refused = Counter(
            "goqueue_kafka_connections_refused",
            "Connections that the node closed: too many in all, of one address or for the file descriptors there are, "
            "a frame that took too long, idle, memory, or a request that cannot be understood.",
            ("why",),
            registry=registry,
        )
        self.kafka_buffered_bytes = Gauge(
            "goqueue_kafka_buffered_bytes",
            "Requests and answers of Kafka clients that wait in memory.",
            registry=registry,
        )
        self.kafka_fetch_sessions = Gauge(
            "goqueue_kafka_fetch_sessions",
            "Consumers whose partitions are remembered between fetches.",
            registry=registry,
        )
        self.kafka_fetch_sessions_evicted = Counter(
            "goqueue_kafka_fetch_sessions_evicted", "Fetch sessions that made room for others.", registry=registry
        )
        self.kafka_requests = Counter(
            "goqueue_kafka_requests", "Kafka requests begun, by API.", ("api",), registry=registry
        )
        self.kafka_request_seconds = Histogram(
            "goqueue_kafka_request_seconds",
            "Kafka requests from their arrival to their answer, long polls included.",
            ("api",),
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.delivered = Counter("goqueue_delivery_leased", "Messages handed out under a lease.", registry=registry)
        self.acked = Counter("goqueue_delivery_acked", "Messages acked by receipt.", registry=registry)
        self.nacked = Counter("goqueue_delivery_nacked", "Messages nacked.", registry=registry)
        self.rejected = Counter("goqueue_delivery_rejected", "Messages rejected.", registry=registry)
        self.expired = Counter(
            "goqueue_delivery_ttl_expired",
            "Messages whose time to live passed before they were handed out.",
            registry=registry,
        )
        self.dead_lettered = Counter(
            "goqueue_delivery_dead_lettered",
            "Messages moved to the dead letters, by reason.",
            ("reason",),
            registry=registry,
        )
        self.redriven = Counter(
            "goqueue_delivery_redriven", "Dead letters that were moved back or elsewhere.", registry=registry
        )
        self.txns_open = Gauge("goqueue_transactions_open", "Transactions begun and not yet ended.", registry=registry)
        self.txns_begun = Counter("goqueue_transactions_begun", "Transactions begun.", registry=registry)
        self.txns_committed = Counter("goqueue_transactions_committed", "Transactions committed.", registry=registry)
        self.txns_aborted = Counter("goqueue_transactions_aborted", "Transactions aborted.", registry=registry)
        self.txns_timed_out = Counter(
            "goqueue_transactions_timed_out",
            "Transactions aborted because their time was up or their producer was silent.",
            registry=registry,
        )
        self.txn_seconds = Histogram(
            "goqueue_transactions_seconds",
            "Transactions from their begin until their end was carried out.",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900),
            registry=registry,
        )
        self.sqs_requests = Counter(
            "goqueue_sqs_requests",
            "SQS requests answered, by operation and error (none if it went well).",
            ("operation", "error"),
            registry=registry,
        )
        self.sqs_request_seconds = Histogram(
            "goqueue_sqs_request_seconds",
            "SQS requests, long polls included.",
            ("operation",),
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.store_seconds = Histogram(
            "goqueue_cluster_store_seconds",
            "Commits to the metadata store.",
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.schemas = Gauge("goqueue_schemas_registered", "Schemas with an id in use.", registry=registry)
        self.schema_validations = Counter(
            "goqueue_schemas_validations",
            "Messages checked against a schema, by result: ok or failed.",
            ("result",),
            registry=registry,
        )
        self.tails = Gauge("goqueue_rest_tails", "Live tails open.", registry=registry)
        build = Gauge("goqueue_build_info", "The running version.", ("version",), registry=registry)
        build.labels(__version__).set(1)
        ProcessCollector(registry=registry)
        self._topics: dict[str, TopicCounters] = {}

    def clock_stepped(self, by_ms: Millis) -> None:
        self.clock_steps.labels("forward" if by_ms > 0 else "back").inc()

    def topic(self, name: str) -> TopicCounters:
        counters = self._topics.get(name)
        if counters is None:
            counters = self._topics[name] = TopicCounters(self, name)
        return counters

    def forget_topic(self, name: str) -> None:
        """A deleted topic's series go with it."""
        if self._topics.pop(name, None) is not None:
            for family in (
                self.messages_published,
                self.batches_published,
                self.bytes_published,
                self.bytes_fetched,
                self.fetches,
            ):
                family.remove(name)


class StorageCollector:
    """Reads the storage engine's own numbers at scrape time."""

    def __init__(self, topics: TopicTable, stats: StorageStats, space: SpaceGuard, recovery_s: float) -> None:
        self._topics = topics
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
        yield from self._per_partition()

    def _per_partition(self) -> Iterable[Metric]:
        topics = self._topics.all()
        yield _gauge("goqueue_broker_topics", "Topics.", len(topics))
        yield _gauge("goqueue_broker_partitions", "Partitions.", sum(len(topic.partitions) for topic in topics))
        labels = ("topic", "partition")
        start = GaugeMetricFamily("goqueue_broker_start_offset", "First offset of a log.", labels=labels)
        high = GaugeMetricFamily("goqueue_broker_high_watermark", "Where readers end.", labels=labels)
        size = GaugeMetricFamily("goqueue_storage_log_size_bytes", "Bytes of a log.", labels=labels)
        segments = GaugeMetricFamily("goqueue_storage_segments", "Segments of a log.", labels=labels)
        failed = GaugeMetricFamily("goqueue_storage_log_failed", "1 if a log is read-only.", labels=labels)
        for topic in topics:
            for partition in topic.partitions:
                names = (topic.name, str(partition.at.partition))
                start.add_metric(names, partition.start_offset)
                high.add_metric(names, partition.high_watermark)
                size.add_metric(names, partition.size_bytes)
                segments.add_metric(names, partition.segment_count)
                failed.add_metric(names, partition.failure is not None)
        yield from (start, high, size, segments, failed)


class GroupCollector:
    """Reads the groups' members and lag at scrape time."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups

    def collect(self) -> Iterator[Metric]:
        try:
            listed = self._groups.list()
        except NotLoaded:
            return
        partition, group = ("group", "topic", "partition"), ("group",)
        lag = GaugeMetricFamily("goqueue_consumer_lag", "Messages that a group has yet to commit.", labels=partition)
        place = GaugeMetricFamily(
            "goqueue_consumer_committed_offset", "Where a group goes on in a partition.", labels=partition
        )
        members = GaugeMetricFamily("goqueue_consumer_members", "Members of a group.", labels=group)
        rebalances = CounterMetricFamily("goqueue_consumer_rebalances", "Rebalances of a group.", labels=group)
        for one in listed:
            try:
                behind, stats = self._groups.lag(one.group), self._groups.stats(one.group)
            except (UnknownGroup, NotLoaded):
                continue  # deleted since the list was made, or to be asked again
            members.add_metric((one.group,), one.members)
            rebalances.add_metric((one.group,), stats.rebalances)
            for at in behind:
                names = (one.group, at.topic, str(at.partition))
                lag.add_metric(names, at.lag)
                if at.committed >= 0:
                    place.add_metric(names, at.committed)
        yield from (lag, place, members, rebalances)
        yield _gauge("goqueue_groups", "Groups of the node, with members or with offsets alone.", self._groups.count())


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric((), value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric((), float(value))
    return family


class MetricsPage:
    """The rendered text, at most a second old. `look` first, on the loop; `render` blocks, so run it off the loop."""

    def __init__(
        self,
        registry: CollectorRegistry,
        looks: Sequence[Callable[[], None]] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._looks = looks
        self._monotonic = monotonic
        self._text = b""
        self._at = float("-inf")

    def look(self) -> None:
        """Takes the numbers that only the loop may read."""
        if self._monotonic() - self._at >= 1.0:
            for look in self._looks:
                look()

    def render(self) -> bytes:
        now = self._monotonic()
        if now - self._at >= 1.0:
            self._text, self._at = generate_latest(self._registry), now
        return self._text
