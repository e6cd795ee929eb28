"""What the history of a node is made of: rates of its counters since the last look, and how much it has now."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from heapq import nlargest
from pathlib import Path
from typing import Final

from goqueue.base.errors import GoQueueError
from goqueue.base.limits import HISTORY_GROUPS_MAX, HISTORY_QUEUES_MAX, HISTORY_TOPICS_MAX
from goqueue.drive.schedules import Schedules
from goqueue.service.groups import Groups
from goqueue.service.metrics import BrokerMetrics, TopicCounters
from goqueue.service.queue_stats import QueueStats

_PAGE_BYTES: Final = 4096
_OF_TOPIC: Final = ("topic.in", "topic.bytes", "topic.out")


class Rates:
    """How fast counters grow, which begin at 0. The first look tells nothing."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._before: Mapping[str, float] = {}
        self._at = 0.0

    def of(self, counters: Mapping[str, float]) -> dict[str, float]:
        now = self._monotonic()
        before, passed = self._before, now - self._at
        self._before, self._at = dict(counters), now
        if not before:
            return {}
        return {name: max(0.0, value - before.get(name, 0.0)) / passed for name, value in counters.items()}


class HistorySample:
    """Called on the loop."""

    def __init__(self, metrics: BrokerMetrics, groups: Groups, queues: QueueStats, schedules: Schedules) -> None:
        self._metrics = metrics
        self._groups = groups
        self._queues = queues
        self._schedules = schedules
        self._rates = Rates()
        self._loop_before = (0.0, 0.0)

    def __call__(self) -> dict[str, float]:
        lags, queues = self._lags(), self._queues.reliability()
        topics = sorted(self._metrics.topics.items(), key=lambda one: -(one[1].bytes_in + one[1].bytes_out))
        counters = self._counters([one for _, one in topics])
        counters["dead"] = sum(sum(one.dead_letters.values()) for one in queues)
        for name, one in topics:
            counters[f"topic.in:{name}"] = one.messages_in
            counters[f"topic.bytes:{name}"] = one.bytes_in
            counters[f"topic.out:{name}"] = one.bytes_out
        rates = self._rates.of(counters)
        if rates:
            rates["cpu"] *= 100
        shown_topics = topics[:HISTORY_TOPICS_MAX] if rates else []
        shown = nlargest(HISTORY_QUEUES_MAX, queues, key=lambda one: (one.ready, one.acked))
        return {
            **{name: value for name, value in rates.items() if ":" not in name},
            "lag": sum(lags.values()),
            "ready": sum(one.ready for one in queues),
            "in_flight": sum(one.in_flight for one in queues),
            "waiting": sum(one.waiting for one in queues),
            "delayed": self._schedules.pending_count,
            "memory": _resident_bytes(),
            "loop_lag": self._loop_lag_ms(),
            **{f"lag:{name}": lag for name, lag in lags.items()},
            **{f"ready:{one.group}/{one.topic}": one.ready for one in shown},
            **{f"{kind}:{name}": rates.get(f"{kind}:{name}", 0.0) for name, _ in shown_topics for kind in _OF_TOPIC},
        }

    def _counters(self, topics: list[TopicCounters]) -> dict[str, float]:
        metrics = self._metrics
        return {
            "in.messages": sum(one.messages_in for one in topics),
            "in.bytes": sum(one.bytes_in for one in topics),
            "out.bytes": sum(one.bytes_out for one in topics),
            "acked": metrics.acked.total(),
            "nacked": metrics.nacked.total() + metrics.rejected.total(),
            "cpu": time.process_time(),
        }

    def _lags(self) -> dict[str, float]:
        """Of the groups with most members: each has to be asked."""
        found: dict[str, float] = {}
        try:
            listed = nlargest(HISTORY_GROUPS_MAX, self._groups.list(), key=lambda one: one.members)
        except GoQueueError:
            return found  # being read
        for one in listed:
            try:
                found[one.group] = sum(at.lag for at in self._groups.lag(one.group))
            except GoQueueError:
                continue
        return found

    def _loop_lag_ms(self) -> float:
        """How late the loop ran what was due, in the mean since the last look."""
        total, count = self._metrics.loop_lag_seconds.totals()
        before_total, before_count = self._loop_before
        self._loop_before = total, count
        return 1000 * (total - before_total) / (count - before_count) if count > before_count else 0.0


def _resident_bytes() -> float:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0.0
