"""How many connections all doors together may have: each is a file descriptor, and the logs need theirs."""

from __future__ import annotations


class ConnectionSlots:
    """Belongs to the loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def is_full(self) -> bool:
        return self.used >= self.limit

    def take(self) -> bool:
        if self.is_full:
            return False
        self.used += 1
        return True

    def give_back(self) -> None:
        self.used -= 1
