"""Dead letters as SQS shows them: from which queue a message came, as what, and how often it was received there."""

from __future__ import annotations

import msgspec

from goqueue.base.commands import Headers
from goqueue.base.ids import Millis, Offset
from goqueue.core.dead_letter import PREFIX


class Origin(msgspec.Struct, frozen=True):
    """What the headers of a dead letter tell."""

    topic: str
    partition: int
    offset: Offset
    attempts: int
    timestamp_ms: Millis


def origin_of(headers: Headers) -> Origin | None:
    """None if the message did not die anywhere."""
    told = {name[len(PREFIX) :]: value for name, value in headers if value is not None and name.startswith(PREFIX)}
    if not told:
        return None
    try:
        numbers = [int(told[name]) for name in ("partition", "offset", "attempts", "timestamp")]
        return Origin(told["topic"].decode(), *numbers)
    except (KeyError, ValueError):
        return None
