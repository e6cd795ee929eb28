"""Everything that a node shows on `/metrics`, put together: who is looked at, and the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from goqueue.base.ids import Millis
from goqueue.broker import Broker
from goqueue.drive.history_ring import HistoryRing
from goqueue.drive.runtime_watch import RuntimeWatch
from goqueue.service.cluster_metrics import ClusterCollector, LeaderChanges
from goqueue.service.cluster_view import ClusterView
from goqueue.service.group_metrics import GroupCollector
from goqueue.service.history import NodeHistory
from goqueue.service.history_sample import HistorySample
from goqueue.service.metrics_page import MetricsPage
from goqueue.service.metrics_push import MetricsPush, PushCollector
from goqueue.service.queue_metrics import QueueCollector
from goqueue.service.scheduling import DelayCollector
from goqueue.service.storage_metrics import StorageCollector, TopicCollector
from goqueue.service.txn_events import TransactionCollector


class _Looked(Collector, Protocol):
    def look(self) -> Iterator[None] | None: ...


class NodeCollector:
    """Whether the node takes work, and until when its certificates hold. `look` takes the numbers."""

    def __init__(self, is_ready: Callable[[], bool], certificates: Callable[[], Mapping[str, Millis]]) -> None:
        self._is_ready = is_ready
        self._certificates = certificates
        self._ready = False
        self._expiries: Mapping[str, Millis] = {}

    def look(self) -> None:
        self._ready, self._expiries = self._is_ready(), self._certificates()

    def collect(self) -> list[Metric]:
        ready = GaugeMetricFamily("goqueue_node_ready", "1 while the node takes work, as /readyz says.")
        ready.add_metric((), self._ready)
        expiry = GaugeMetricFamily(
            "goqueue_security_certificate_expiry_timestamp_seconds",
            "When the certificate of a door is no longer valid, since 1970.",
            labels=("door",),
        )
        for door, at in self._expiries.items():
            expiry.add_metric((door,), at / 1000)
        return [ready, expiry]


class NodeMetrics:
    """Of a node that has started."""

    def __init__(
        self, broker: Broker, certificates: Callable[[], Mapping[str, Millis]], recovery_s: float, data_dir: Path
    ) -> None:
        self._broker = broker
        metrics, clock, series_max = broker.metrics, broker.clock, broker.node.settings.node.metric_series_max
        self._registry = metrics.registry
        self._pushed = PushCollector()
        self._registry.register(self._pushed)
        self._registry.register(StorageCollector(broker.storage_stats, broker.space, recovery_s))
        self._looked: list[_Looked] = [
            NodeCollector(lambda: all(check.ok for check in broker.health.checks()), certificates),
            TopicCollector(metrics, broker.table, series_max),
            GroupCollector(broker.groups, broker.topics, clock, series_max),
            QueueCollector(broker.queue_stats, clock, series_max),
            DelayCollector(broker.schedules),
            TransactionCollector(broker.txn_coordinators, clock),
        ]
        pauses = {generation: metrics.gc_seconds.labels(str(generation)) for generation in range(3)}
        self._runtime = RuntimeWatch(
            metrics.loop_lag_seconds.observe, lambda generation, seconds: pauses[generation].observe(seconds)
        )

        sample = HistorySample(metrics, broker.groups, broker.queue_stats, broker.schedules)
        self.history = NodeHistory(HistoryRing(data_dir / "history.ring"), sample, clock, broker.node.offload)

    async def start(self) -> None:
        self._runtime.start()
        await self.history.start()

    async def stop(self) -> None:
        self._runtime.stop()
        if self._pushed.push is not None:
            await self._pushed.push.stop()
        await self.history.stop()

    def page(self, view: ClusterView, changes: LeaderChanges) -> MetricsPage:
        """Asked for once. From here on the numbers are pushed, if they are to be."""
        looked = [*self._looked, ClusterCollector(view, changes)]
        for one in looked:
            self._registry.register(one)
        page = MetricsPage(self._registry, self._broker.offload, [one.look for one in looked])
        self._push(page)
        return page

    def _push(self, page: MetricsPage) -> None:
        node = self._broker.node
        if node.settings.metrics.otlp_endpoint:
            instance = f"{node.identity.cluster_id}/{node.identity.node_id}"
            push = MetricsPush(node.settings.metrics, instance, page, self._broker.clock, self._broker.offload)
            push.start()
            self._pushed.push = push
