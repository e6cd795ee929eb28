"""Bytes that all connections together may hold: requests that are not whole yet, and answers that are not read yet."""

from __future__ import annotations


class Budget:
    """A number that must not be passed. Whoever would pass it is refused."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def change(self, by: int) -> bool:
        """Takes or gives back; False if the limit is passed now (the bytes count until they are given back)."""
        self.held += by
        return by <= 0 or self.held <= self.limit
