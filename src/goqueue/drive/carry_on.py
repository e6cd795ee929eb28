"""Work in several steps that must not stop between them because whoever asked for it went away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from goqueue.drive.measured import also_measured

T = TypeVar("T")

_under_way: Final[set[asyncio.Task[Any]]] = set()  # the loop itself keeps no task alive


async def carry_on(work: Coroutine[Any, Any, T]) -> T:
    """Returns what the work returns. It goes on if the caller is cancelled."""
    task = asyncio.ensure_future(also_measured(work))
    _under_way.add(task)
    task.add_done_callback(_ended)
    return await asyncio.shield(task)


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """The same for work under a lock: a caller that is cancelled gives up when the work is over, not before."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        _ended(task)
        raise


def _ended(task: asyncio.Task[Any]) -> None:
    _under_way.discard(task)
    if not task.cancelled():
        task.exception()  # whoever asked may be gone
