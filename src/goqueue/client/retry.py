"""When a request may be repeated, and how long to wait before it."""

from __future__ import annotations

import msgspec

from goqueue.client import checks
from goqueue.client.errors import ConnectionFailed, GoQueueClientError


class Retries(msgspec.Struct, frozen=True):
    """How a producer repeats. Pauses double from `pause_first` to `pause_max` seconds.

    A batch is tried at least once, and again until its oldest message is `seconds_max` old.

    A publish is not idempotent. So by default only what surely was not stored is repeated: a connection that
    could not be made, and an answer of 503. `lost_answers` also repeats where the connection broke or the answer did
    not come in time; the messages of that request may then be stored twice.
    """

    seconds_max: float = 30.0
    pause_first: float = 0.05
    pause_max: float = 2.0
    lost_answers: bool = False

    def __post_init__(self) -> None:
        for name in ("seconds_max", "pause_first", "pause_max"):
            checks.seconds(getattr(self, name), name)
        checks.flag(self.lost_answers, "lost_answers")

    def may_repeat(self, why: GoQueueClientError) -> bool:
        if isinstance(why, ConnectionFailed):
            return self.lost_answers or not why.may_have_arrived
        # A failed sync leaves it open whether the messages are on the disk.
        return why.status == 503 and why.code != "storage-failed"

    def pause(self, why: GoQueueClientError, attempt: int, elapsed: float, roll: float) -> float | None:
        """Seconds to wait before the next attempt, or None to give up.

        `attempt` counts from 1, `elapsed` is the age of the oldest message, `roll` (0 to 1) spreads many clients out.
        """
        if not self.may_repeat(why):
            return None
        pause = backoff(self.pause_first, self.pause_max, attempt) * (0.5 + roll / 2)
        return pause if elapsed + pause <= self.seconds_max else None


def backoff(first: float, most: float, attempt: int) -> float:
    """Doubles with every attempt (from 1) up to a bound."""
    return min(most, first * 2.0 ** min(attempt - 1, 30))
