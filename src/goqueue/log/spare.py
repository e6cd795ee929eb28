"""File descriptors held back for what must not fail."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class SpareDescriptors:
    """Descriptors held back, so that what must not fail works when the system gives no more."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._held: list[int] = []
        self.fill()

    def fill(self) -> None:
        """As many as there should be, or as the system gives."""
        with contextlib.suppress(OSError), self._lock:
            while len(self._held) < self._count:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def use(self, work: Callable[[], T]) -> T:
        """Does the work; where it finds no descriptor, once more with one of these."""
        try:
            found = work()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._give_up_one():
                raise
            found = work()
        if len(self._held) < self._count:
            self.fill()
        return found

    def _give_up_one(self) -> bool:
        with self._lock:
            if self._held:
                os.close(self._held.pop())
                return True
        return False

    def close(self) -> None:
        with self._lock:
            while self._held:
                os.close(self._held.pop())
