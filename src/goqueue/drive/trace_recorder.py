"""Gathers events on the loop and hands them on a few times a second: to the ring, and to whoever else keeps them.

What the verbs do is append to a list. The list is bounded; what comes when it is full is dropped and counted, before
any work is done for it. Events of many messages at once are spelled out when somebody looks, or by whoever writes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from goqueue.core.traces.span import Span
from goqueue.drive.exporter import Exporter
from goqueue.drive.offload import Offload
from goqueue.drive.trace_entries import Entry, Many, spelled_out
from goqueue.drive.trace_ring import TraceRing

PENDING_MAX: Final = 20_000  # events between two rounds
_EACH: Final = 5  # events of one publish
_ROUND_S: Final = 0.2
_CLOSE_S: Final = 2.0
_AT_ONCE: Final = 1_000  # events that are spelled out although nobody asks


class Recorder:
    def __init__(self, ring: TraceRing, exporters: Sequence[Exporter[Entry]], offload: Offload) -> None:
        self.ring = ring
        self.exporters = exporters
        self.recorded = 0
        self.dropped = 0  # too many at once
        self._offload = offload
        self._pending: list[Entry] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unfolding: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    def start(self) -> None:
        for exporter in self.exporters:
            exporter.start()

    async def stop(self) -> None:
        await self.flush()
        if self._timer is not None:
            self._timer.cancel()
        for exporter in self.exporters:
            await self._offload(lambda exporter=exporter: exporter.close(_CLOSE_S))  # type: ignore[misc]

    @property
    def is_full(self) -> bool:
        return self._count + _EACH > PENDING_MAX

    def room(self, wanted: int, each: int = 1) -> int:
        """How many of the messages that are wanted can be recorded now; the events of the others count as dropped."""
        fits = min(wanted, max(0, PENDING_MAX - self._count) // each)
        self.dropped += (wanted - fits) * each
        return fits

    def add(self, span: Span) -> None:
        if self.room(1):
            self._add(span, 1)

    def add_many(self, many: Many) -> None:
        """For which there is room."""
        self._add(many, many.count)

    def _add(self, entry: Entry, count: int) -> None:
        self._pending.append(entry)
        self._count += count
        self.recorded += count
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_ROUND_S, self._begin_round)

    def _begin_round(self) -> None:
        self._timer = None
        self._hand_on()
        if 0 < self.ring.folded <= _AT_ONCE and not self._lock.locked():
            self._unfolding = asyncio.ensure_future(self._unfold())

    def _hand_on(self) -> None:
        entries, self._pending, self._count = self._pending, [], 0
        if entries:
            self.ring.put(entries)
            for exporter in self.exporters:
                exporter.put(entries)

    async def flush(self) -> None:
        """Everything that happened so far can be read from the ring when this returns."""
        self._hand_on()
        await self._unfold()

    async def _unfold(self) -> None:
        async with self._lock:
            entries = self.ring.take_folded()
            if all(isinstance(one, Span) for one in entries):
                spans = spelled_out(entries)
            else:
                spans = await self._offload(lambda: spelled_out(entries))
            for start in range(0, len(spans), _AT_ONCE):
                self.ring.add(spans[start : start + _AT_ONCE])
                await asyncio.sleep(0)
