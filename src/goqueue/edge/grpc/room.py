"""How many bytes of requests, or of answers that are not read yet, a door may hold at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.base.errors import Overloaded


class ByteRoom:
    """Belongs to the loop. `message` is told to those that find no room."""

    def __init__(self, limit: int, message: str) -> None:
        self._limit = limit
        self._message = message
        self.used = 0

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        """`Overloaded` if there is no room. One that is alone has room, however large it is."""
        if self.used and self.used + size > self._limit:
            raise Overloaded(self._message)
        self.used += size
        try:
            yield
        finally:
            self.used -= size
