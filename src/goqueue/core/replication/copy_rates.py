"""How fast new replicas get what they lack: what was sent to each over the last seconds. Pure."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from goqueue.base.ids import Millis

WINDOW_MS: Final = 10_000
_PART_MS: Final = 500


class CopyState(msgspec.Struct, frozen=True):
    """Of a replica that is not in sync yet: what it lacks, and how fast it is sent that."""

    bytes_left: int
    bytes_per_s: int


class CopyRates:
    """By shard and node. What was not sent to for a while is forgotten."""

    def __init__(self) -> None:
        self._sent: dict[tuple[int, int], deque[tuple[Millis, int]]] = {}

    def sent(self, shard: int, node: int, size: int, now: Millis) -> None:
        if (shard, node) not in self._sent:
            self._forget(now)
        parts = self._sent.setdefault((shard, node), deque())
        if parts and now - parts[-1][0] < _PART_MS:
            parts[-1] = parts[-1][0], parts[-1][1] + size
        else:
            parts.append((now, size))
        while parts[0][0] < now - WINDOW_MS:
            parts.popleft()

    def per_s(self, shard: int, node: int, now: Millis) -> int:
        """Bytes a second; 0 if nothing was sent lately."""
        found = [(at, size) for at, size in self._sent.get((shard, node), ()) if at >= now - WINDOW_MS]
        if not found:
            return 0
        return sum(size for _, size in found) * 1000 // max(2 * _PART_MS, now - found[0][0])

    def _forget(self, now: Millis) -> None:
        self._sent = {key: parts for key, parts in self._sent.items() if parts[-1][0] >= now - WINDOW_MS}
