"""Virtual time: an event loop that never sleeps. When nothing is ready it jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
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
    """An asyncio loop whose time is a number."""

    def __init__(self) -> None:
        self._virtual = _JumpingSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


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
