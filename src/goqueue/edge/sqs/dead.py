"""Dead letters as SQS shows them: from which queue a message came, as what, and how often it was received there."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.commands import Headers
from goqueue.base.header_values import number_in, text_in
from goqueue.base.ids import Millis, Offset
from goqueue.base.names import is_name
from goqueue.core.dead_letter import PREFIX

_NUMBERS: Final = ("partition", "offset", "attempts", "timestamp")


class DeadLetterHeaders(msgspec.Struct, frozen=True):
    """What the headers of a dead letter tell."""

    topic: str
    partition: int
    offset: Offset
    attempts: int
    timestamp_ms: Millis


def origin_of(headers: Headers) -> DeadLetterHeaders | None:
    """None if the message did not die anywhere."""
    told = {name[len(PREFIX) :]: value for name, value in headers if value is not None and name.startswith(PREFIX)}
    if not told:
        return None
    partition, offset, attempts, timestamp_ms = map(number_in, map(told.get, _NUMBERS))
    topic = text_in(told.get("topic"))
    if partition is None or offset is None or attempts is None or timestamp_ms is None or not is_name(topic):
        return None
    return DeadLetterHeaders(topic, partition, offset, attempts, timestamp_ms)
