"""What falls due, and when. `earliest` is never late; it may be early, as a time put off does not move it."""

from __future__ import annotations

from typing import TypeAlias

from goqueue.base.ids import Millis

Key: TypeAlias = tuple[str, str]  # what is due, and for which member


class GroupDeadlines:
    """The timers of one group."""

    __slots__ = ("_at", "earliest")

    def __init__(self) -> None:
        self._at: dict[Key, Millis] = {}
        self.earliest: Millis | None = None

    def set(self, key: Key, at: Millis) -> None:
        self._at[key] = at
        if self.earliest is None or at < self.earliest:
            self.earliest = at

    def drop(self, key: Key) -> None:
        self._at.pop(key, None)

    def __contains__(self, key: Key) -> bool:
        return key in self._at

    def due(self, now: Millis) -> list[Key]:
        """What is due, the oldest first. Each stays until `take` takes it, so that one can undo another."""
        found = sorted((at, key) for key, at in self._at.items() if at <= now)
        return [key for _, key in found]

    def take(self, key: Key, now: Millis) -> bool:
        """True, once, if the key is still due."""
        if self._at.get(key, now + 1) > now:
            return False
        del self._at[key]
        return True

    def shift(self, by_ms: Millis) -> None:
        self._at = {key: at + by_ms for key, at in self._at.items()}
        self.refresh()

    def refresh(self) -> None:
        """Makes `earliest` exact."""
        self.earliest = min(self._at.values(), default=None)
