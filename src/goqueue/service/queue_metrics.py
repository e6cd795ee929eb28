"""Queues on `/metrics`: read on the loop when somebody scrapes, rendered off it."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from goqueue.service.queue_stats import LaneNumbers, QueueStats, Reliability


class QueueCollector:
    """`look` takes the numbers; `collect` shows the last ones taken."""

    def __init__(self, stats: QueueStats) -> None:
        self._stats = stats
        self._queues: list[Reliability] = []
        self._lanes: list[LaneNumbers] = []

    def look(self) -> None:
        self._queues, self._lanes = self._stats.reliability(), self._stats.all_lanes()

    def collect(self) -> Iterator[Metric]:
        names = ("group", "topic")
        ready = GaugeMetricFamily("goqueue_queue_ready", "Messages that could be handed out, about.", labels=names)
        in_flight = GaugeMetricFamily("goqueue_queue_in_flight", "Messages under a lease.", labels=names)
        waiting = GaugeMetricFamily("goqueue_queue_waiting", "Messages that failed and wait.", labels=names)
        acked = CounterMetricFamily("goqueue_queue_acked", "Messages done.", labels=names)
        nacked = CounterMetricFamily("goqueue_queue_nacked", "Attempts that failed by a nack.", labels=names)
        rejected = CounterMetricFamily("goqueue_queue_rejected", "Messages rejected.", labels=names)
        expired = CounterMetricFamily("goqueue_queue_expired_leases", "Leases that ran out.", labels=names)
        dead = CounterMetricFamily(
            "goqueue_queue_dead_letters", "Messages given up, by reason.", labels=(*names, "reason")
        )
        for one in self._queues:
            at = (one.group, one.topic)
            ready.add_metric(at, one.ready)
            in_flight.add_metric(at, one.in_flight)
            waiting.add_metric(at, one.waiting)
            acked.add_metric(at, one.acked)
            nacked.add_metric(at, one.nacked)
            rejected.add_metric(at, one.rejected)
            expired.add_metric(at, one.expired_leases)
            for reason, count in one.dead_letters.items():
                dead.add_metric((*at, reason), count)
        yield from (ready, in_flight, waiting, acked, nacked, rejected, expired, dead)
        yield from self._by_lane()

    def _by_lane(self) -> Iterator[Metric]:
        names = ("group", "topic", "lane")
        sums: dict[tuple[str, str, str], list[int]] = {}
        for one in self._lanes:
            numbers = sums.setdefault((one.group, one.topic, one.lane), [0, 0, 0, 0])
            for place, number in enumerate((one.ready, one.in_flight, one.enqueued, one.dequeued)):
                numbers[place] += number
        ready = GaugeMetricFamily("goqueue_lane_ready", "Messages of a priority to hand out, about.", labels=names)
        in_flight = GaugeMetricFamily("goqueue_lane_in_flight", "Messages of a priority under a lease.", labels=names)
        enqueued = CounterMetricFamily("goqueue_lane_enqueued", "Messages of a priority that came.", labels=names)
        dequeued = CounterMetricFamily("goqueue_lane_dequeued", "Messages of a priority handed out.", labels=names)
        for at, numbers in sums.items():
            ready.add_metric(at, numbers[0])
            in_flight.add_metric(at, numbers[1])
            enqueued.add_metric(at, numbers[2])
            dequeued.add_metric(at, numbers[3])
        yield from (ready, in_flight, enqueued, dequeued)
