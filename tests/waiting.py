"""Waiting in tests: for something that happens by itself, with a limit that only a hang reaches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
WAIT_S: Final = 120.0  # a machine with forty tests at once is slow, and not wrong
_PAUSE_S: Final = 0.02
_SAMPLE_S: Final = 0.05


def wait_until(holds: Callable[[], T], what: object = "it", seconds: float = WAIT_S) -> T:
    """What `holds` returns as soon as that is true. `what` is told if it never is; a function is asked then."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what() if callable(what) else what}"
        time.sleep(_PAUSE_S)
    return found


def has_come(holds: Callable[[], object], seconds: float = WAIT_S) -> bool:
    """Whether it came to that in time, for tests that have something to tidy up or to tell before they fail."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


async def wait_until_async(holds: Callable[[], T], what: object = "it", seconds: float = WAIT_S) -> T:
    """The same, while the loop goes on."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what() if callable(what) else what}"
        await asyncio.sleep(_PAUSE_S / 4)
    return found


def stretched(seconds: float) -> float:
    """A limit for how long something may take, by the clock: longer by as much as this machine is busy with others.

    A little work is measured by the clock and by the time it had on a core. On an idle machine both are the same.
    """
    began, worked = time.perf_counter(), time.thread_time()
    while time.thread_time() - worked < _SAMPLE_S:
        sum(range(1_000))
    busy = (time.perf_counter() - began) / (time.thread_time() - worked)
    return seconds * max(1.0, 3.0 * (busy - 0.5))


def let_pass(seconds: float) -> None:
    """Time itself is what the test is about: a random moment for a crash, a load, or what must not happen meanwhile."""
    time.sleep(seconds)
