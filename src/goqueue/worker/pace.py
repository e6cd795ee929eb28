"""How many calls a worker takes ahead, and how fast tasks with a rate may begin. No I/O; `now` is seconds."""

from __future__ import annotations

from typing import Final

from goqueue.base.limits import TASKS_AHEAD_MAX

_AHEAD_SECONDS: Final = 0.25  # of work that waits here, where tasks are short
_WEIGHT: Final = 0.1  # of the newest batch in the mean


class Ahead:
    """Short tasks are taken many at once; of long ones none waits here while another worker is free."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._mean_s: float | None = None

    def ended(self, count: int, seconds: float) -> None:
        """So many tasks ended within so many seconds."""
        each = seconds / count
        self._mean_s = each if self._mean_s is None else self._mean_s + _WEIGHT * (each - self._mean_s)

    @property
    def most(self) -> int:
        """As many calls may be held."""
        if self._mean_s is None:
            return self._slots
        return self._slots + min(TASKS_AHEAD_MAX, int(_AHEAD_SECONDS / max(self._mean_s, 1e-6)))

    def room(self, held: int) -> int:
        """How many to take now: none until half of what may wait is used up."""
        most = self.most
        ahead = most - self._slots
        return most - held if held <= self._slots + ahead // 2 - (0 if ahead else 1) else 0


class StartRate:
    """At most so many starts a second, shared by as many workers as there are."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._next = 0.0

    def wait(self, now: float, workers: int) -> float:
        """Seconds until the next start, which is then taken."""
        begin = max(now, self._next)
        self._next = begin + max(1, workers) / self._rate
        return begin - now
