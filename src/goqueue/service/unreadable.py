"""What readers pass over because a producer filled a batch with something else than records: counted, logged once."""

from __future__ import annotations

import logging
from typing import Final

from goqueue.base.ids import Offset, TopicPartition
from goqueue.service.metrics import BrokerMetrics

logger = logging.getLogger(__name__)

_KNOWN_MAX: Final = 10_000


class UnreadableRecords:
    """Told by everything that decodes records for somebody."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics
        self._known: set[tuple[TopicPartition, Offset]] = set()

    def __call__(self, at: TopicPartition, first: Offset, last: Offset, why: str) -> None:
        self._metrics.topic(at.topic).passed_over()
        if (at, first) in self._known:
            return
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known.add((at, first))
        told = {"topic": at.topic, "partition": at.partition, "first_offset": first, "last_offset": last, "why": why}
        logger.warning("records cannot be read and are passed over", extra=told)
