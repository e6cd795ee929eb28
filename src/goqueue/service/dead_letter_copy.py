"""The copies that go to the dead letters: whole messages, with where they come from, why, how often and when."""

from __future__ import annotations

from goqueue.base.commands import Headers
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.core.dead_letter import PREFIX, buried_headers, origin_of, told_view
from goqueue.core.delivery.lane import TrackedMessage
from goqueue.core.delivery.records import ViewId
from goqueue.format.records import NewRecord, Record
from goqueue.service.environment import Environment


class Burials:
    """For `Transfer`. A dead-letter topic is made on demand; nothing that died comes back by itself."""

    makes_topics = True
    puts_back = False

    def __init__(self, environment: Environment) -> None:
        self._clock = environment.clock
        self._metrics = environment.metrics

    def copy(self, view: ViewId, message: Record, held: TrackedMessage) -> NewRecord:
        seen = told_view(view)
        told = {
            "topic": seen.topic,
            "partition": seen.partition,
            "offset": message.offset,
            "group": seen.group,
            "reason": held.reason,
            "error": held.text,
            "attempts": held.handed,
            "failures": held.failed,
            "first-delivered-at": held.first_ms,
            "died-at": held.due_ms,
            "timestamp": message.timestamp_ms,
        }
        headers = tuple((PREFIX + name, str(value).encode()) for name, value in told.items())
        now = self._clock.now_ms()
        return NewRecord(message.key, message.value, buried_headers(message.headers) + headers, now)

    def origin(self, headers: Headers) -> tuple[ViewId, Offset] | None:
        return origin_of(headers)

    def moved(self, view: ViewId, dead: dict[Offset, TrackedMessage]) -> None:
        for held in dead.values():
            self._metrics.dead_lettered.labels(held.reason).inc()

    def refused(self, view: ViewId, count: int, why: GoQueueError) -> None:
        """Never: it is tried again."""
