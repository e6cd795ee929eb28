"""What verbs and doors count for `/metrics`.

Hot paths touch cached children and plain numbers; everything that can be looked up is looked up when somebody scrapes.
"""

from __future__ import annotations

import time
from bisect import bisect_left

import prometheus_client
from prometheus_client import CollectorRegistry, Gauge, disable_created_metrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.samples import Exemplar

from goqueue import __version__
from goqueue.base.ids import Millis

_LATENCY_S = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Counter(prometheus_client.Counter):
    """Whether it can be counted at all is told where it is made, not each time."""

    def inc(self, amount: float = 1, exemplar: dict[str, str] | None = None) -> None:
        self._value.inc(amount)

    def total(self) -> float:
        """Of one without labels."""
        return float(self._value.get())


class Histogram(prometheus_client.Histogram):
    """The same."""

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        self._sum.inc(amount)
        bucket = self._buckets[bisect_left(self._upper_bounds, amount)]
        bucket.inc(1)
        if exemplar is not None:
            bucket.set_exemplar(Exemplar(exemplar, amount, time.time()))

    def totals(self) -> tuple[float, float]:
        """The sum of what was observed, and how often that was; of one without labels."""
        return float(self._sum.get()), float(sum(bucket.get() for bucket in self._buckets))


class TopicCounters:
    """What went into one topic and out of it. Plain numbers: a scrape makes series of them."""

    __slots__ = ("batches_in", "bytes_in", "bytes_out", "fetches", "messages_in", "unreadable")

    def __init__(self) -> None:
        self.messages_in = 0
        self.batches_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.fetches = 0
        self.unreadable = 0

    def published(self, messages: int, size: int) -> None:
        """One batch."""
        self.messages_in += messages
        self.batches_in += 1
        self.bytes_in += size

    def fetched(self, size: int) -> None:
        self.bytes_out += size
        self.fetches += 1

    def passed_over(self) -> None:
        """Records that cannot be read."""
        self.unreadable += 1


class BrokerMetrics:
    """The registry and the families that verbs and doors feed."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.publish_errors = Counter(
            "goqueue_broker_publish_errors", "Publishes refused, by error code.", ("code",), registry=registry
        )
        self.publish_seconds = Histogram(
            "goqueue_broker_publish_seconds",
            "From a batch's arrival at the verb to its answer.",
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.fetch_errors = Counter(
            "goqueue_broker_fetch_errors", "Reads refused, by error code.", ("code",), registry=registry
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
        self.throttled = Counter(
            "goqueue_throttled", "Requests whose client was over a quota.", ("door", "limit"), registry=registry
        )
        self.throttled_seconds = Counter(
            "goqueue_throttled_seconds", "How long those clients were held back.", ("door", "limit"), registry=registry
        )
        self._turn_waits = Counter(
            "goqueue_turn_waits",
            "Requests that waited until it was their tenant's or user's turn.",
            door,
            registry=registry,
        )
        self._turn_wait_seconds = Counter(
            "goqueue_turn_wait_seconds", "How long those requests waited in all.", door, registry=registry
        )
        self._turns: dict[str, tuple[Counter, Counter]] = {}
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
        self.kafka_errors = Counter(
            "goqueue_kafka_errors",
            "Kafka answers that are an error as a whole, by API and Kafka's number of the error; those of single "
            "partitions are in goqueue_broker_publish_errors and goqueue_broker_fetch_errors.",
            ("api", "code"),
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
        self.grpc_requests = Counter(
            "goqueue_grpc_requests",
            "gRPC calls that ended, by method and status.",
            ("method", "status"),
            registry=registry,
        )
        self.grpc_request_seconds = Histogram(
            "goqueue_grpc_request_seconds",
            "gRPC calls, streams and long polls included.",
            ("method",),
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.grpc_streams = Gauge("goqueue_grpc_streams", "gRPC streams that are open.", registry=registry)
        self.store_seconds = Histogram(
            "goqueue_cluster_store_seconds",
            "Commits to the metadata store.",
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.store_failures = Counter(
            "goqueue_cluster_store_failures", "Times that the metadata store was out of reach.", registry=registry
        )
        self.denied = Counter(
            "goqueue_security_denied",
            "Requests refused by access control, by what was asked for.",
            ("operation", "resource"),
            registry=registry,
        )
        self.loop_lag_seconds = Histogram(
            "goqueue_loop_lag_seconds",
            "How late the event loop runs what is due: what every request waits at least.",
            buckets=_LATENCY_S,
            registry=registry,
        )
        self.gc_seconds = Histogram(
            "goqueue_gc_seconds",
            "Pauses for garbage collection, by generation.",
            ("generation",),
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
        self.topics: dict[str, TopicCounters] = {}

    def clock_stepped(self, by_ms: Millis) -> None:
        self.clock_steps.labels("forward" if by_ms > 0 else "back").inc()

    def waited_for_turn(self, door: str, seconds: float) -> None:
        counters = self._turns.get(door)
        if counters is None:
            counters = self._turns[door] = self._turn_waits.labels(door), self._turn_wait_seconds.labels(door)
        counters[0].inc()
        counters[1].inc(seconds)

    def topic(self, name: str) -> TopicCounters:
        counters = self.topics.get(name)
        if counters is None:
            counters = self.topics[name] = TopicCounters()
        return counters

    def forget_topic(self, name: str) -> None:
        """A deleted topic's series go with it."""
        self.topics.pop(name, None)
