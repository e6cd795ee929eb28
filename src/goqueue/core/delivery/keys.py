"""The order of keys in a view where messages of a key go in order.

A message that was never handed out waits until nothing of its key is in flight or waits. One that comes back goes as
soon as none before it does: those behind it may still be with the consumer that had the whole run.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain, islice

from goqueue.base.ids import Offset
from goqueue.core.delivery.lane import TrackedMessage


class KeyOrder:
    """What holds keys, and what waits behind it. Who is no longer parked is passed over."""

    __slots__ = ("behind", "locks", "parked", "parked_count")

    def __init__(self) -> None:
        self.locks: dict[bytes, list[Offset]] = {}  # by key what is in flight or waits, sorted
        self.parked: dict[bytes, list[Offset]] = {}  # never handed out
        self.behind: dict[bytes, list[Offset]] = {}  # heaps; handed out before
        self.parked_count = 0

    def clear(self) -> None:
        self.locks.clear()
        self.parked.clear()
        self.behind.clear()
        self.parked_count = 0

    def wall(self, key: bytes, held: Mapping[Offset, TrackedMessage], nonce: str | None = None) -> Offset | None:
        """The first message of the key that is in flight or waits; those that the poll `nonce` was handed aside."""
        taken = self.locks.get(key)
        if not taken:
            return None
        if nonce is None:
            return taken[0]
        leases = ((offset, held[offset].lease) for offset in taken)
        first = next((offset for offset, lease in leases if lease is None or lease.nonce != nonce), None)
        return self._first_parked(key, held) if first is None else first

    def _first_parked(self, key: bytes, held: Mapping[Offset, TrackedMessage]) -> Offset | None:
        """What waits behind the poll's own messages goes before others that the same poll finds further on."""
        behind = chain(self.parked.get(key, ()), self.behind.get(key, ()))
        return min((offset for offset in behind if offset in held and held[offset].is_parked), default=None)

    def lock(self, key: bytes, offset: Offset) -> None:
        taken = self.locks.get(key)
        if taken is None:
            self.locks[key] = [offset]
        elif offset > taken[-1]:
            taken.append(offset)
        else:
            insort(taken, offset)

    def unlock(self, key: bytes, offset: Offset) -> Sequence[Offset]:
        """Lets go of the key; returns those behind that need not wait any more."""
        taken = self.locks.get(key)
        if taken is None:
            return ()
        place = 0 if taken[0] == offset else bisect_left(taken, offset)
        if place == len(taken) or taken[place] != offset:
            return ()
        del taken[place]
        if not taken:
            del self.locks[key]
            return [*self.behind.pop(key, ()), *self.parked.pop(key, ())]
        return self._before(key, taken[0]) if self.behind and place == 0 else ()

    def _before(self, key: bytes, wall: Offset) -> list[Offset]:
        heap, free = self.behind.get(key, []), list[Offset]()
        while heap and heap[0] < wall:
            free.append(heappop(heap))
        if not heap:
            self.behind.pop(key, None)
        return free

    def park(self, key: bytes, offset: Offset, held: TrackedMessage) -> None:
        if held.is_parked:
            return
        held.is_parked = True
        self.parked_count += 1
        if held.handed:
            heappush(self.behind.setdefault(key, []), offset)
        else:
            self.parked.setdefault(key, []).append(offset)

    def unpark(self, held: TrackedMessage) -> None:
        self.parked_count -= held.is_parked
        held.is_parked = False


def may_go(held: TrackedMessage | None, offset: Offset, wall: Offset | None) -> bool:
    """Whether the wall of its key lets the message go."""
    return wall is None or (held is not None and held.handed > 0 and offset < wall)


def choose_runs(messages: Iterable[tuple[Offset, bytes | None]], limit: int) -> list[Offset]:
    """So many of them: all of the first one's key, then all of the next key, and so on; each key in order."""
    runs: dict[bytes | Offset, list[Offset]] = {}
    for offset, key in messages:
        name = offset if key is None else key
        run = runs.get(name)
        if run is not None:
            run.append(offset)
        elif len(runs) < limit:  # others would have no room
            runs[name] = [offset]
    return list(islice(chain.from_iterable(runs.values()), limit))
