"""Counts what becomes of transactions, and tells their traces: the one who hears of it."""

from __future__ import annotations

import msgspec

from goqueue.core.txn.effects import StageMoved, TxnTimedOut
from goqueue.core.txn.records import ENDING, IDLE, TxnStage
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.tracing import Tracing


class TxnTally(msgspec.Struct):
    """What became of transactions since the node started."""

    begun: int = 0
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0


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
