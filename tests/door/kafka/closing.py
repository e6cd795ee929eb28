"""How the C client's consumers are closed here."""

from __future__ import annotations

import time
from contextlib import suppress

from confluent_kafka import Consumer, KafkaException

_WAIT_S = 5.0


def close(consumer: Consumer) -> None:
    """Gives everything back first, so that no rebalance is left for the close to tell of.

    The C client may end its group thread while the callback of such a rebalance waits for an answer from that thread,
    holding Python's lock: then the whole process stands still.
    """
    with suppress(RuntimeError, KafkaException):  # closed already, or fenced
        consumer.unsubscribe()
        deadline = time.monotonic() + _WAIT_S
        while consumer.poll(0.05) is not None or consumer.assignment():
            if time.monotonic() > deadline:
                break
    consumer.close()
