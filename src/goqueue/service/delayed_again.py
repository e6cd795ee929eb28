"""Messages that wait for their time, sent again by a node that does not know whether they are stored.

Each has a mark, which stands in its entry of the schedule. A second try says when the first one was: whoever leads then
looks at the entries since, and answers with what it finds. A message whose time had come before the first try is in the
log without a mark, and is not stored again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from goqueue.base.commands import InputMessage, PublishMessages, PublishResult, ScheduledAt
from goqueue.base.errors import GoQueueError, LeaderChanged, PeerLost, Unavailable
from goqueue.base.ids import Millis
from goqueue.drive.schedules import Schedules
from goqueue.drive.topic_table import Topic
from goqueue.service.repeatable_publish import is_unsure
from goqueue.service.sorting import Sorting

_SKEW_MS: Final = 5_000  # clocks of two nodes differ by less


class DelayedAgain:
    """Of one publish, by the places of its messages. `token` is another one for every publish."""

    def __init__(self, topic: Topic, messages: Mapping[int, InputMessage], token: str, now: Millis) -> None:
        all_wait = bool(topic.config.queue_delay_ms)
        self.places = [place for place, one in messages.items() if all_wait or _waits(one)]
        self._token = token
        self._began_ms = now
        self._tried: set[int] = set()
        self._unsure: dict[int, GoQueueError] = {}  # since the first time

    def part(self, given: PublishMessages, places: Iterable[int]) -> PublishMessages:
        """What is sent now."""
        marks = tuple(f"{self._token}:{place}" for place in places)
        since_ms = self._began_ms if self._tried.intersection(places) else None
        self._tried.update(places)
        return replace(given, marks=marks, since_ms=since_ms)

    def failed(self, places: Iterable[int], error: BaseException) -> None:
        """Nobody answered for these."""
        if is_unsure(error):
            lost = error if isinstance(error, GoQueueError) else PeerLost("The node leads no more.")
            for place in places:
                self._unsure.setdefault(place, lost)

    def told(self, places: Sequence[int], found: Sequence[PublishResult]) -> Sequence[PublishResult]:
        for place, result in zip(places, found, strict=True):
            if isinstance(result, GoQueueError) and is_unsure(result):
                self._unsure.setdefault(place, result)
        return found

    def end(self, results: Mapping[int, PublishResult]) -> dict[int, PublishResult]:
        """What may be stored is not said to have found nobody to store it."""
        return {
            place: self._unsure.get(place, result) if isinstance(result, Unavailable) else result
            for place, result in results.items()
        }


def _waits(message: InputMessage) -> bool:
    return message.repeat is not None or not message.deliver_at_ms is message.delay_ms is None


async def leave_out_stored(
    schedules: Schedules, sorting: Sorting, command: PublishMessages, results: list[PublishResult | None]
) -> None:
    """Where they are stored: every message gets its mark, and those of an earlier try that are there their result."""
    for one in sorting.delayed:
        one.entry = replace(one.entry, mark=command.marks[one.place])
    if command.since_ms is None:
        return
    for pile in sorting.piles:
        for place in pile.places:
            results[place] = LeaderChanged("The message was due at once, and may be stored already.")
    sorting.piles = []
    for schedule, some in schedules.parted(sorting.delayed, attrgetter("entry")) if sorting.delayed else ():
        known = await schedule.marked(command.since_ms - _SKEW_MS)
        for one in some:
            if (found := known.get(one.entry.mark)) is not None:
                results[one.place] = ScheduledAt(one.entry.partition, *found)
    sorting.delayed = [one for one in sorting.delayed if results[one.place] is None]
