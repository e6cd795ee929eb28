"""Where batches are unfolded and cut into slices: small ones at once, large ones off the loop, few at a time.

How many there are at a time bounds the memory that they take. A reader that goes away frees its place only when its
work is over, so that nobody gets more memory by asking often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

from goqueue.base.errors import CorruptBatch
from goqueue.base.ids import Offset
from goqueue.base.limits import DECODE_WINDOW_BYTES, DECODE_WINDOW_RECORDS, DECODES_AT_ONCE
from goqueue.drive.offload import Offload
from goqueue.format.batch import BatchHeader, Buffer
from goqueue.format.slices import RecordSlice, light_body, slices

T = TypeVar("T")


class Decoding:
    """One for the node."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._places = asyncio.Semaphore(DECODES_AT_ONCE)

    async def window(
        self, batch: Buffer, header: BatchHeader, begin: Offset, records_max: int = DECODE_WINDOW_RECORDS
    ) -> list[RecordSlice]:
        """Slices of a batch from the one that holds the offset on: all, or as many as one keeps ready. At least one."""
        here = window_here(batch, header, begin, records_max)
        if here is not None:
            return here
        return await self.run(lambda: _window(slices(batch, header, begin), records_max))

    async def aside(self, work: Callable[[], T]) -> T:
        """Does something small off the loop, at once."""
        return await self._offload(work)

    async def run(self, work: Callable[[], T]) -> T:
        """Does something with a large batch off the loop, when it is its turn."""
        await self._places.acquire()
        task = asyncio.ensure_future(self._offload(work))
        task.add_done_callback(self._leave)
        return await asyncio.shield(task)

    def _leave(self, task: asyncio.Future[T]) -> None:
        self._places.release()
        if not task.cancelled():
            task.exception()  # whoever asked may be gone


def window_here(
    batch: Buffer, header: BatchHeader, begin: Offset, records_max: int = DECODE_WINDOW_RECORDS
) -> list[RecordSlice] | None:
    """The same, of a batch that is small enough to be looked through on the loop; None if it is not."""
    try:
        body = light_body(batch, header)
    except CorruptBatch as error:
        return [RecordSlice(header.base_offset, header.last_offset, 0, problem=error.message)]
    return None if body is None else _window(slices(batch, header, begin, body), records_max)


def _window(found: Iterator[RecordSlice], records_max: int) -> list[RecordSlice]:
    chosen: list[RecordSlice] = []
    size = count = 0
    for one in found:
        chosen.append(one)
        size += one.size
        count += one.count
        if size >= DECODE_WINDOW_BYTES or count >= records_max:
            break
    return chosen
