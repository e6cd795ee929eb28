"""Producer ids of a node for batches that it makes for its publishers, so that a batch can be sent again.

A slot is a producer id that one publish at a time uses, for one partition: so its batches are in order, and the last of
them is known to whoever leads the partition. A slot whose last batch may be stored or not is never used again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from goqueue.base.errors import GoQueueError

_PER_PARTITION_MAX: Final = 256  # every id is kept in the partition's state for a while
_FREE_MAX: Final = 20_000

Place = tuple[str, int]  # the id of a topic, and a partition


class Slot:
    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.sequence = 0  # of the next message


class ProducerSlots:
    """Those of one node. What is free is used again, the last one first."""

    def __init__(self, next_id: Callable[[], Awaitable[int]]) -> None:
        self._next_id = next_id
        self._free: dict[Place, list[Slot]] = {}
        self._count = 0  # of free ones
        self._used: dict[Place, int] = {}

    async def take(self, place: Place) -> Slot | None:
        """None if too many are in use, or no id can be had now."""
        if self._used.get(place, 0) >= _PER_PARTITION_MAX:
            return None
        self._used[place] = self._used.get(place, 0) + 1
        try:
            return self._again(place) or Slot(await self._next_id())
        except BaseException as error:
            self.drop(place)
            if isinstance(error, GoQueueError):
                return None
            raise

    def _again(self, place: Place) -> Slot | None:
        free = self._free.get(place)
        if not free:
            return None
        self._count -= 1
        return free.pop()

    def give_back(self, place: Place, slot: Slot) -> None:
        self.drop(place)
        if self._count >= _FREE_MAX:
            self._free, self._count = {}, 0
        self._free.setdefault(place, []).append(slot)
        self._count += 1

    def drop(self, place: Place) -> None:
        """One that is in use is not used again."""
        left = self._used[place] - 1
        if left:
            self._used[place] = left
        else:
            del self._used[place]
