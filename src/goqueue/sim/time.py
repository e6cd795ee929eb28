"""Virtual time: an event loop that never sleeps. When nothing is ready it jumps to the next timer."""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from goqueue.base.ids import Millis
from goqueue.sim.disk import PowerCut

T = TypeVar("T")
_OWN_FILES: Final = 1  # the pipe by which other threads would wake a loop that waits: this one never does


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting, moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("virtual time stands still: everybody waits and no timer is set")
        self.now_s += max(0.0, timeout)
        return super().select(0) if len(self.get_map()) > _OWN_FILES else []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose time is a number. What `holds` says of a callback, if anything is set, decides whether it
    runs now or when `release` is called: so a process can stand still while time passes."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        self._virtual = _JumpingSelector()
        self._held: list[asyncio.Handle] = []
        self.holds: Callable[[asyncio.Handle], bool] | None = None
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s

    def release(self) -> None:
        """Whatever was held has its turn."""
        self._ready.extend(self._held)
        self._held.clear()

    @property
    def waiting(self) -> list[asyncio.Handle]:
        """Everything that will be called."""
        return [*self._scheduled, *self._ready, *self._held]

    def _run_once(self) -> None:
        """As in the class above, without files to look at."""
        if len(self._virtual.get_map()) > _OWN_FILES:
            super()._run_once()  # type: ignore[misc]
            return
        self._pass_time()
        ready, holds = self._ready, self.holds
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            if holds is not None and holds(handle):
                self._held.append(handle)
            else:
                handle._run()

    def _pass_time(self) -> None:
        """To the next timer, if nothing is ready; what is due then is."""
        timers, ready = self._scheduled, self._ready
        while timers and (timers[0]._cancelled or timers[0]._when <= self._virtual.now_s or not ready):  # type: ignore[attr-defined]
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]
            if timer._cancelled:
                self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
                continue
            self._virtual.now_s = max(self._virtual.now_s, timer._when)  # type: ignore[attr-defined]
            ready.append(timer)
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            raise RuntimeError("virtual time stands still: everybody waits and no timer is set")


class VirtualClock:
    """Wall-clock milliseconds that follow a virtual loop."""

    def __init__(self, loop: VirtualLoop, start_ms: Millis = 1_767_225_600_000) -> None:
        self._loop = loop
        self._start_ms = start_ms

    def step(self, by_ms: Millis) -> None:
        """Somebody sets the clock."""
        self._start_ms += by_ms

    def now_ms(self) -> Millis:
        return self._start_ms + round(self._loop.time() * 1000)

    def monotonic_ns(self) -> int:
        return round(self._loop.time() * 1000) * 1_000_000

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000


async def in_place(work: Callable[[], T]) -> T:
    """An `Offload` that does the work at once, so that a run is the same every time."""
    await asyncio.sleep(0)
    return work()


def _tell(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A task that died of a power cut is nobody's mistake."""
    if not isinstance(context.get("exception"), PowerCut):
        loop.default_exception_handler(context)


def run_virtually(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Runs a coroutine to its end in virtual time."""
    loop = VirtualLoop()
    loop.set_exception_handler(_tell)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()
