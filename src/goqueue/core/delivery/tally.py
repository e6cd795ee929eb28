"""What became of a view's messages, in numbers. They are read from its records, and so survive a restart."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.core.delivery.records import Acked, Counts, DeadLettering, RangesAcked, Record, Returned

REJECTED: Final = "REJECTED"
EXPIRED: Final = "LEASE_EXPIRED"
FAILED: Final = "MAX_FAILURES"


class DeliveryCounts(msgspec.Struct):
    """Since the view began. `dead` is by reason; a nack that was one too many counts in both."""

    acked: int = 0
    nacked: int = 0
    rejected: int = 0
    expired: int = 0
    dead: dict[str, int] = {}

    def note(self, record: Record) -> None:
        """One record for many messages."""
        if isinstance(record, Acked):
            self.acked += len(record.offsets)
        elif isinstance(record, RangesAcked):
            self.acked += record.count
        elif isinstance(record, Returned):
            if record.is_expired:
                self.expired += len(record.offsets)
            elif record.is_failure:
                self.nacked += len(record.offsets)
        elif isinstance(record, DeadLettering):
            self._condemned(record.reason, len(record.cells) // 2, record.is_failure)

    def _condemned(self, reason: str, count: int, is_failure: bool) -> None:
        self.dead[reason] = self.dead.get(reason, 0) + count
        self.rejected += count if reason == REJECTED else 0
        if is_failure:
            self.expired += count if reason == EXPIRED else 0
            self.nacked += count if reason == FAILED else 0

    def row(self) -> Counts:
        return Counts(self.acked, self.nacked, self.rejected, self.expired, dict(self.dead))

    def restore(self, row: Counts) -> None:
        self.acked, self.nacked, self.rejected, self.expired = row.acked, row.nacked, row.rejected, row.expired
        self.dead = dict(row.dead)
