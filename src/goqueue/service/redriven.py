"""The copies that leave the dead letters: the message as it was, with how often it was redriven and from where."""

from __future__ import annotations

from goqueue.base.commands import Headers
from goqueue.base.delays import EXPIRES_HEADER, expires_at
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.core.dead_letter import KEEPER, redriven_from, redriven_headers
from goqueue.core.delivery.lane import TrackedMessage
from goqueue.core.delivery.records import ViewId
from goqueue.format.records import NewRecord, Record
from goqueue.service.dead_letter_copy import Burials
from goqueue.service.environment import Environment


class Redriven:
    """For `Transfer`. What the target refuses stays with the dead letters."""

    makes_topics = False
    puts_back = True

    def __init__(self, environment: Environment) -> None:
        self._clock = environment.clock
        self._metrics = environment.metrics
        self.refusals: dict[ViewId, tuple[int, str]] = {}  # since somebody asked
        self.copied: dict[ViewId, int] = {}  # likewise

    def copy(self, view: ViewId, message: Record, held: TrackedMessage) -> NewRecord:
        """As it was. A time to live that has passed is taken off: it would die again at once."""
        headers, now = redriven_headers(view, message), self._clock.now_ms()
        expiry = expires_at(headers)
        if expiry is not None and expiry <= now:
            headers = tuple(pair for pair in headers if pair[0] != EXPIRES_HEADER)
        return NewRecord(message.key, message.value, headers, now)

    def origin(self, headers: Headers) -> tuple[ViewId, Offset] | None:
        return redriven_from(headers)

    def moved(self, view: ViewId, dead: dict[Offset, TrackedMessage]) -> None:
        self._metrics.redriven.inc(len(dead))
        self.copied[view] = self.copied.get(view, 0) + len(dead)

    def refused(self, view: ViewId, count: int, why: GoQueueError) -> None:
        before = self.refusals.get(view, (0, ""))
        self.refusals[view] = before[0] + count, why.message


class AllCopies:
    """Both kinds: what goes to the dead letters, and what leaves them."""

    def __init__(self, environment: Environment) -> None:
        self._burials = Burials(environment)
        self.redriven = Redriven(environment)

    def of(self, view: ViewId) -> Burials | Redriven:
        return self.redriven if view.group == KEEPER else self._burials
