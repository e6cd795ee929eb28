"""What the schedule's machine asks of its runner, beside the batches that it delivers (`DueBatch`)."""

from __future__ import annotations

import msgspec

from goqueue.base.ids import Offset
from goqueue.core.schedule.due import Member
from goqueue.core.schedule.near import DueWindow


class Recover(msgspec.Struct, frozen=True):
    """Finish what the last run left: asked once, before anything is due."""


class LoadWindow(msgspec.Struct, frozen=True):
    """Ask the index what is due in a stretch of time; answered by `window_loaded`."""

    window: DueWindow


class FetchAhead(msgspec.Struct, frozen=True):
    """Read the payloads of what is due soon; answered by `hold`."""

    offsets: list[Offset]


class FireDue(msgspec.Struct, frozen=True):
    """Fire what is due: `next_due`, then `fire` or `fire_failed`, until nothing is due."""


class Expired(msgspec.Struct, frozen=True):
    """Tell that the time to live of these was over before they could be delivered."""

    members: list[Member]


class EndDiscarded(msgspec.Struct, frozen=True):
    """Write down the ends that could not be written: `end_discarded`."""


class RebuildIndex(msgspec.Struct, frozen=True):
    """The index said what the log does not; answered by `recount`."""


class ScheduleCounts(msgspec.Struct):
    """What became of entries since the node started."""

    scheduled: int = 0
    delivered: int = 0
    cancelled: int = 0
    expired: int = 0

    def add(self, others: ScheduleCounts) -> None:
        self.scheduled += others.scheduled
        self.delivered += others.delivered
        self.cancelled += others.cancelled
        self.expired += others.expired
