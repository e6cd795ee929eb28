"""When each open transaction has to be looked at: one place in the queue for each, however often it moves."""

from __future__ import annotations

from heapq import heappop, heappush

from goqueue.base.ids import Millis


class TxnDeadlines:
    """Times by name. One that moves back is found out when its old time comes."""

    def __init__(self) -> None:
        self._heap: list[tuple[Millis, str]] = []
        self._armed: dict[str, Millis] = {}

    def set(self, name: str, due: Millis) -> None:
        """Not later than this."""
        armed = self._armed.get(name)
        if armed is None or due < armed:
            self._armed[name] = due
            heappush(self._heap, (due, name))

    def passed(self, now: Millis, most: int) -> list[str]:
        """Those whose time came, at most so many; each has to be set again if it is to come again."""
        found: list[str] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            due, name = heappop(self._heap)
            if self._armed.get(name) == due:
                del self._armed[name]
                found.append(name)
        return found

    def shift(self, by_ms: Millis) -> None:
        self._heap = [(due + by_ms, name) for due, name in self._heap]
        self._armed = {name: due + by_ms for name, due in self._armed.items()}

    def next(self) -> Millis | None:
        return self._heap[0][0] if self._heap else None
