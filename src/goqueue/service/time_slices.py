"""Work on many parts of one request, in slices: between them others have their turn."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from goqueue.base.commands import InputMessage
from goqueue.base.limits import CHECK_REQUEST_SECONDS_MAX
from goqueue.core.schemas.errors import SchemaMismatch

T = TypeVar("T")
_SLICE_SECONDS: Final = 0.005


class TimeSlices:
    """Pauses for others after each slice of work, and knows when the request had its time."""

    def __init__(self, seconds_max: float = math.inf) -> None:
        self._seconds_max = seconds_max
        self._spent = 0.0
        self._began = time.perf_counter()

    @property
    def is_over(self) -> bool:
        return self._spent > self._seconds_max

    async def pause(self) -> None:
        """Pauses if it is time to; costs little otherwise."""
        elapsed = time.perf_counter() - self._began
        if elapsed > _SLICE_SECONDS:
            self._spent += elapsed
            await asyncio.sleep(0)
            self._began = time.perf_counter()


async def paced(
    take: Callable[[int, InputMessage], T], messages: Sequence[InputMessage], is_dear: bool
) -> list[T | SchemaMismatch]:
    """What `take` gives for each message. If it is dear, those for which no time is left are refused."""
    if not is_dear:
        return [take(place, message) for place, message in enumerate(messages)]
    results: list[T | SchemaMismatch] = []
    spent, began = 0.0, time.perf_counter()
    for place, message in enumerate(messages):
        if spent > CHECK_REQUEST_SECONDS_MAX:
            told = "Checking the messages before this one took too long; send fewer at once."
            results.append(SchemaMismatch(told, field=f"messages[{place}].value"))
            continue
        results.append(take(place, message))
        elapsed = time.perf_counter() - began
        if elapsed > _SLICE_SECONDS:
            spent += elapsed
            await asyncio.sleep(0)
            began = time.perf_counter()
    return results
