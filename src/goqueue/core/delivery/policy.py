"""The rules of a queue, as its owner set them."""

from __future__ import annotations

import msgspec

from goqueue.base.ids import Millis, Offset


class DeadLetterTarget(msgspec.Struct, frozen=True):
    """Where dead letters go, and how long that log is now: a copy is at or after `end_offset`."""

    topic: str
    partition: int
    end_offset: Offset


class Policy(msgspec.Struct, frozen=True):
    """`failures_max` and `deliveries_max` are 0 for no limit; without a `grave` what is given up is dropped."""

    lease_ms: Millis = 30_000
    failures_max: int = 3
    deliveries_max: int = 0
    retry_ms: Millis = 1_000
    retry_ms_max: Millis = 60_000
    dead_letter_target: DeadLetterTarget | None = None
    ordered: bool = False

    def gives_up(self, failures: int, deliveries: int) -> bool:
        return 0 < self.failures_max <= failures or 0 < self.deliveries_max <= deliveries
