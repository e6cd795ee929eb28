"""Long work in a thread, in slices: only one thread runs at a time, and the event loop is one of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

_SLICE_S: Final = 0.001
_PAUSE_S: Final = 0.0005  # a pause of nothing would give the interpreter away and take it back before anybody wakes


def in_slices(items: Iterable[T]) -> Iterator[T]:
    """The same items. Whoever takes them sleeps a little after each millisecond's work, so it must not be the loop."""
    began = time.perf_counter()
    for one in items:
        yield one
        if time.perf_counter() - began >= _SLICE_S:
            time.sleep(_PAUSE_S)
            began = time.perf_counter()
