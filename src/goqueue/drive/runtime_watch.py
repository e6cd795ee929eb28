"""Watches the process itself: how late the event loop runs what is due, and how long garbage collection holds it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Mapping
from typing import Final

_PERIOD_S: Final = 0.1


class RuntimeWatch:
    """`lag` and `pause` are told seconds; the latter also by generation."""

    def __init__(self, lag: Callable[[float], None], pause: Callable[[int, float], None]) -> None:
        self._lag = lag
        self._pause = pause
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._began = 0.0

    def start(self) -> None:
        gc.callbacks.append(self._collecting)
        self._wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            gc.callbacks.remove(self._collecting)

    def _wait(self) -> None:
        # By a clock of its own: the loop's is as late as the loop is.
        self._due = time.perf_counter() + _PERIOD_S
        self._timer = asyncio.get_running_loop().call_later(_PERIOD_S, self._look)

    def _look(self) -> None:
        self._lag(max(0.0, time.perf_counter() - self._due))
        self._wait()

    def _collecting(self, phase: str, told: Mapping[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self._pause(told["generation"], time.perf_counter() - self._began)
