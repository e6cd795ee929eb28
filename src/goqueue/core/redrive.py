"""A redrive: which dead letters go back, where to, how fast, and how far it got."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from goqueue.base.commands import ANYONE, Caller
from goqueue.base.ids import Millis, Offset
from goqueue.core.dead_letter import EVERYTHING, DeadLetterFilter, StoredDeadLetter

RedriveState = Literal["running", "completed", "cancelling", "cancelled", "failed"]
LIVE: Final = ("running", "cancelling")

LOOPING: Final = "looping"  # it came back as often as its topic allows
NO_ORIGIN: Final = "no-origin"  # it did not die here, so nobody knows where it belongs
UNKNOWN_TOPIC: Final = "unknown-topic"  # the topic that it should go to is not there
FORBIDDEN: Final = "forbidden"  # who asked for the redrive may not write to the topic that it should go to
KEY_REQUIRED: Final = "key-required"  # the topic is compacted and the message has no key
SOURCE_GONE: Final = "The dead-letter topic was deleted."
TARGET_GONE: Final = "The topic that the dead letters should go to was deleted."
IN_FLIGHT: Final = "in-flight"  # an SQS consumer of the dead letters has it


class RedriveRequest(msgspec.Struct, frozen=True):
    """What is asked for. `to` None: each letter to the topic that it died in. `limit` None: all that fit."""

    source: str
    to: str | None = None
    rate_per_s: int | None = None
    filter: DeadLetterFilter = EVERYTHING
    limit: int | None = None


class RedriveTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A redrive and how far it got. `total` is how many letters there were to look at, `ends` where it stops looking.

    Letters before `cursors` were looked at; `moved`, `skipped` and `failed` say what came of those that fitted.
    """

    id: str
    source: str
    source_id: str
    started_ms: Millis
    to: str | None = None
    rate_per_s: int | None = None
    filter: DeadLetterFilter = EVERYTHING
    limit: int | None = None
    state: RedriveState = "running"
    total: int = 0
    looked_at: int = 0
    moved: int = 0
    skipped: dict[str, int] = {}
    failed: int = 0
    failure: str = ""
    finished_ms: Millis | None = None
    moved_per_s: float = 0.0
    eta_ms: Millis | None = None
    ends: dict[int, Offset] = {}
    cursors: dict[int, Offset] = {}
    nodes: int = 1  # that share the rate
    caller: Caller = ANYONE  # who asked for it: letters go where that one may write

    @property
    def pace(self) -> float | None:
        """How many letters a second this node moves."""
        return None if self.rate_per_s is None else self.rate_per_s / self.nodes

    @property
    def is_live(self) -> bool:
        return self.state in LIVE

    @property
    def matched(self) -> int:
        """How many fitted, of those looked at so far."""
        return self.moved + self.failed + sum(self.skipped.values())


class Preview(msgspec.Struct, frozen=True):
    """What a redrive would do now."""

    matched: int
    movable: int
    by_reason: dict[str, int]
    skipped: dict[str, int]


class RedriveTarget(msgspec.Struct, frozen=True):
    """The topic that a letter would go to, as far as it matters."""

    topic: str
    partitions: int
    is_compacted: bool
    redrives_max: int


def refusal(letter: StoredDeadLetter, target: RedriveTarget) -> str | None:
    """Why the letter has to stay; None if it may go."""
    if target.is_compacted and letter.key is None:
        return KEY_REQUIRED
    if 0 < target.redrives_max <= letter.redrives:
        return LOOPING
    return None


def per_second(moved: int, elapsed_ms: Millis) -> float:
    return round(moved * 1000 / elapsed_ms, 1) if elapsed_ms > 0 else 0.0


def eta_ms(task: RedriveTask, looked_at: int, elapsed_ms: Millis) -> Millis | None:
    """About how long it still takes, if it goes on as in the time that it looked at so many; None if nobody knows."""
    left = max(0, task.total - task.looked_at)
    if task.pace is not None and not task.looked_at:
        return int(left * 1000 / task.pace)
    return left * elapsed_ms // looked_at if looked_at > 0 else None
