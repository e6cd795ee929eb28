"""For how long one connection begins requests in one pass of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

BEGIN_S: Final = 0.002  # what is read at once holds thousands of small requests


class BoundedPass:
    """Of a connection. Nothing is counted while one request at a time comes."""

    __slots__ = ("_clock", "_go_on", "_handle", "_until", "is_over")

    def __init__(self, clock: Callable[[], float], go_on: Callable[[], None]) -> None:
        """`go_on` is called in the next pass if this one had to be ended."""
        self._clock = clock
        self._go_on = go_on
        self._handle: asyncio.Handle | None = None
        self._until = 0.0
        self.is_over = False

    def begun(self) -> None:
        """A request was begun, and others wait behind it."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_soon(self._next)
            self._until = self._clock() + BEGIN_S
        else:
            self.is_over = self._clock() >= self._until

    def cancel(self) -> None:
        """The connection has ended."""
        if self._handle is not None:
            self._handle.cancel()

    def _next(self) -> None:
        self._handle, was_over, self.is_over = None, self.is_over, False
        if was_over:
            self._go_on()
