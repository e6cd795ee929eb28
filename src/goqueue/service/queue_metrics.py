"""Queues on `/metrics`: read on the loop when somebody scrapes, rendered off it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import Metric

from goqueue.base.clock import Clock
from goqueue.service.group_metrics import PublishTimes
from goqueue.service.metric_series import Family, Key, SeriesTable, Values
from goqueue.service.queue_stats import LaneNumbers, OpenOffset, QueueStats, Reliability

_QUEUES: Final = (
    Family("goqueue_queue_ready", "Messages that could be handed out, about."),
    Family("goqueue_queue_in_flight", "Messages under a lease."),
    Family("goqueue_queue_waiting", "Messages that failed and wait."),
    Family("goqueue_queue_acked", "Messages done.", True),
    Family("goqueue_queue_nacked", "Attempts that failed by a nack.", True),
    Family("goqueue_queue_rejected", "Messages rejected.", True),
    Family("goqueue_queue_expired_leases", "Leases that ran out.", True),
    Family(
        "goqueue_queue_oldest_seconds",
        "How long ago the oldest message was published that is not done; 0 if all are.",
    ),
)
_LANES: Final = (
    Family("goqueue_lane_ready", "Messages of a priority to hand out, about."),
    Family("goqueue_lane_in_flight", "Messages of a priority under a lease."),
    Family("goqueue_lane_enqueued", "Messages of a priority that came.", True),
    Family("goqueue_lane_dequeued", "Messages of a priority handed out.", True),
)
_DEAD: Final = (Family("goqueue_queue_dead_letters", "Messages given up, by reason.", True),)


class QueueCollector:
    """`look` takes the numbers; `collect` shows the last ones taken."""

    def __init__(self, stats: QueueStats, clock: Clock, series_max: int) -> None:
        self._stats = stats
        self._times = PublishTimes(clock)
        self._by_queue = SeriesTable(
            ("group", "topic"), _QUEUES, series_max, lambda row: sum(value or 0 for value in row[:4])
        )
        self._by_lane = SeriesTable(("group", "topic", "lane"), _LANES, series_max, lambda row: row[2] or 0)
        self._by_reason = SeriesTable(("group", "topic", "reason"), _DEAD, series_max, lambda row: row[0] or 0)
        self._queues: list[Reliability] = []
        self._lanes: list[LaneNumbers] = []
        self._open: list[OpenOffset] = []

    def look(self) -> None:
        self._queues, self._lanes = self._stats.reliability(), self._stats.all_lanes()
        self._open = self._stats.open_offsets()

    def collect(self) -> Iterator[Metric]:
        yield from self._by_queue.families(dict(self._rows()))
        yield from self._by_lane.families(self._lane_sums())
        yield from self._by_reason.families(
            {
                (one.group, one.topic, reason): (count,)
                for one in self._queues
                for reason, count in one.dead_letters.items()
            }
        )

    def _rows(self) -> Iterator[tuple[Key, Values]]:
        ages = self._ages()
        for one in self._queues:
            counts = one.ready, one.in_flight, one.waiting, one.acked, one.nacked, one.rejected, one.expired_leases
            yield (one.group, one.topic), (*counts, ages.get((one.group, one.topic), 0.0))

    def _ages(self) -> dict[Key, float]:
        """Of the oldest message that is open, by queue; read from the logs."""
        self._times.begin()
        ages: dict[Key, float] = {}
        for one in self._open:
            age = self._times.age_s(one.partition, one.offset)
            if age is not None:
                at = one.group, one.partition.at.topic
                ages[at] = max(age, ages.get(at, 0.0))
        return ages

    def _lane_sums(self) -> dict[Key, Values]:
        sums: dict[Key, list[float]] = {}
        for one in self._lanes:
            numbers = sums.setdefault((one.group, one.topic, one.lane), [0, 0, 0, 0])
            for place, number in enumerate((one.ready, one.in_flight, one.enqueued, one.dequeued)):
                numbers[place] += number
        return dict(sums.items())
