"""Batches that are stored once, whatever is sent again: each is a transaction of its own. No I/O."""

from __future__ import annotations

import time
from collections.abc import Sequence

from goqueue.client.calls import Result
from goqueue.client.errors import GoQueueClientError, invalid
from goqueue.client.messages import NewMessage
from goqueue.client.steps import Steps
from goqueue.client.txn_steps import TxnProducerSteps


class IdempotentSends:
    """Of one producer. Topics are sent to side by side, so that each has a transactional producer of its own."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._by_topic: dict[str, TxnProducerSteps] = {}

    def send(self, topic: str, encoded: Sequence[bytes]) -> Steps[list[Result]]:
        """Where the messages are. What got no answer is sent again, and known by its number."""
        steps = self._by_topic.get(topic)
        if steps is None:
            steps = self._by_topic[topic] = TxnProducerSteps(None, None, time.monotonic, self._seconds_max)
        try:
            yield from steps.begin()
            placed = yield from steps.publish_encoded(topic, encoded)
            yield from steps.commit()
        except GoQueueClientError:
            yield from steps.abort()
            raise
        return [one for one in placed if one is not None]


def check_idempotent(message: NewMessage) -> None:
    """What waits for its time has no place yet that could be told."""
    if message.delay is not None or message.deliver_at is not None or message.repeat is not None:
        raise invalid("A producer with idempotence sends no delayed messages; use client.publish.", "delay")
