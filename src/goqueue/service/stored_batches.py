"""Batches as they lie in the log, chosen by the records that somebody wants of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from goqueue.base.commands import Isolation
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.base.limits import MIB
from goqueue.drive.partition import Partition
from goqueue.format.batch import Buffer, read_header, split

_READ_BYTES: Final = 1 * MIB


async def stored_batches(partition: Partition, offsets: Sequence[Offset], bytes_max: int) -> tuple[list[Buffer], int]:
    """The batches that hold these offsets, which ascend, and how many of the offsets they reach.

    The last of them is the one that passes `bytes_max`. Whoever names an offset was handed it, committed or not.
    """
    chosen: list[Buffer] = []
    reached = 0
    left = bytes_max
    while reached < len(offsets) and left > 0:
        try:
            data = await partition.read(offsets[reached], min(_READ_BYTES, left), Isolation.READ_UNCOMMITTED)
        except GoQueueError:
            break  # the log lost them since
        before = reached
        reached = _choose(data, offsets, reached, chosen)
        left = bytes_max - sum(map(len, chosen))
        if reached == before:
            break
    return chosen, reached


def _choose(data: bytes, offsets: Sequence[Offset], reached: int, chosen: list[Buffer]) -> int:
    for batch in split(data):
        end = bisect_right(offsets, read_header(batch).last_offset, reached)
        if end > reached:
            chosen.append(batch)
        reached = end
    return reached
