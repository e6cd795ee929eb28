"""Counts what becomes of transactions, and tells their traces: the one who hears of it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from prometheus_client.core import GaugeMetricFamily, Metric

from goqueue.base.clock import Clock
from goqueue.core.txn.effects import StageMoved, TxnTimedOut
from goqueue.core.txn.records import ENDING, IDLE, TxnStage
from goqueue.drive.txn_coordinators import TransactionCoordinators
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.tracing import Tracing


class TxnTally(msgspec.Struct):
    """What became of transactions since the node started."""

    begun: int = 0
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0


class TransactionCollector:
    """How old the oldest open transaction is: readers of committed data wait behind it. `look` takes the number."""

    def __init__(self, coordinators: TransactionCoordinators, clock: Clock) -> None:
        self._coordinators = coordinators
        self._clock = clock
        self._oldest_s = 0.0

    def look(self) -> None:
        oldest = self._coordinators.oldest_ms
        self._oldest_s = 0.0 if oldest is None else max(0, self._clock.now_ms() - oldest) / 1000

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "goqueue_transactions_oldest_seconds", "How long the oldest open transaction is open; 0 if there is none."
        )
        family.add_metric((), self._oldest_s)
        yield family


class TransactionEvents:
    """Called with each event of every coordinator."""

    def __init__(self, metrics: BrokerMetrics, tracing: Tracing | None) -> None:
        self.tally = TxnTally()
        self._metrics = metrics
        self._tracing = tracing

    def __call__(self, event: StageMoved | TxnTimedOut) -> None:
        if isinstance(event, TxnTimedOut):
            self.tally.timed_out += 1
            self._metrics.txns_timed_out.inc()
            return
        self._count(event)
        if self._tracing is not None:
            self._tracing.transaction_changed(event.before, event.after)

    def _count(self, moved: StageMoved) -> None:
        before, after = moved.before, moved.after
        if after.stage is TxnStage.ONGOING:
            self.tally.begun += 1
            self._metrics.txns_begun.inc()
        elif before is not None and before.stage in ENDING and after.stage in IDLE:
            self.tally.committed += before.commits
            self.tally.aborted += not before.commits
            (self._metrics.txns_committed if before.commits else self._metrics.txns_aborted).inc()
            self._metrics.txn_seconds.observe(max(0, moved.now - before.started_ms) / 1000)
