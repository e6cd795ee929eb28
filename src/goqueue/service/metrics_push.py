"""Pushes the families of `/metrics` to a collector of OpenTelemetry, where the settings name one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric

from goqueue.base.clock import Clock
from goqueue.base.otlp_settings import MetricSettings
from goqueue.drive.exporter import Exporter
from goqueue.drive.metric_otlp import MetricPoints, MetricSender
from goqueue.drive.offload import Offload
from goqueue.drive.repeating import Repeating
from goqueue.drive.slices import in_slices
from goqueue.service.metric_points import CountedTimes, slices
from goqueue.service.metrics_page import MetricsPage

_POINTS_MAX: Final = 200_000  # of one round; more are dropped and counted
_CLOSE_S: Final = 2.0


class MetricsPush:
    """Every so often one round. Numbers add up, so a round that finds the last one still waiting is left out."""

    def __init__(
        self, settings: MetricSettings, instance: str, page: MetricsPage, clock: Clock, offload: Offload
    ) -> None:
        self._page = page
        self._clock = clock
        self._offload = offload
        self._started_ns = clock.now_ms() * 1_000_000
        sender = MetricSender(settings, instance)
        self.skipped = 0
        self.exporter = Exporter("otlp", sender.send, lambda one: len(one.points), "metrics", _POINTS_MAX)
        self._rounds = Repeating(settings.otlp_interval_ms / 1000, self._round)

    def start(self) -> None:
        self.exporter.start()
        self._rounds.start()

    async def stop(self) -> None:
        """With a last round, if the collector takes it soon."""
        await self._rounds.stop()
        await self._round()
        await self._offload(lambda: self.exporter.close(_CLOSE_S))

    async def _round(self) -> None:
        if not self.exporter.is_idle:
            self.skipped += 1
            return
        families = await self._page.families()
        times = CountedTimes(self._started_ns, self._clock.now_ms() * 1_000_000)
        await self._offload(lambda: self._put(families, times))

    def _put(self, families: list[Metric], times: CountedTimes) -> None:
        found: list[MetricPoints] = list(in_slices(slices(families, times)))
        self.exporter.put(found)


class PushCollector:
    """The numbers of the push itself; zeros where there is none."""

    def __init__(self) -> None:
        self.push: MetricsPush | None = None

    def collect(self) -> Iterator[Metric]:
        push = self.push
        exported, dropped, failures, skipped = (0, 0, 0, 0) if push is None else _numbers(push)
        yield _counter("points_exported", "Points of metrics that a collector took.", exported)
        yield _counter("points_dropped", "Points that a collector refused, or that were too many.", dropped)
        yield _counter("failures", "Requests to a collector that failed; it is asked again ever later.", failures)
        yield _counter("rounds_skipped", "Rounds left out because the one before still waited.", skipped)


def _numbers(push: MetricsPush) -> tuple[int, int, int, int]:
    exporter = push.exporter
    return exporter.exported, exporter.dropped, exporter.failures, push.skipped


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(f"goqueue_metrics_otlp_{name}", text)
    family.add_metric((), value)
    return family
