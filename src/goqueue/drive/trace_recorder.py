"""Gathers events on the loop and hands them on a few times a second: to the ring, and to whoever else keeps them.

What the verbs do is append to a list. The list is bounded; what comes when it is full is dropped and counted, before
any work is done for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

from goqueue.core.traces.span import Span
from goqueue.drive.offload import Offload
from goqueue.drive.trace_exporter import Exporter
from goqueue.drive.trace_ring import TraceRing

PENDING_MAX: Final = 20_000  # events between two rounds
_EACH: Final = 5  # events of one publish
_ROUND_S: Final = 0.2
_CLOSE_S: Final = 2.0


class Many(Protocol):
    """Events of many messages in short; spelled out off the loop."""

    @property
    def count(self) -> int: ...

    def spans(self) -> list[Span]: ...


Entry: TypeAlias = Span | Many


class Recorder:
    def __init__(self, ring: TraceRing, exporters: Sequence[Exporter], offload: Offload) -> None:
        self.ring = ring
        self.exporters = exporters
        self.recorded = 0
        self.dropped = 0  # too many at once
        self._offload = offload
        self._pending: list[Entry] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._round: asyncio.Task[None] | None = None
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
        if self._round is None or self._round.done():
            self._round = asyncio.ensure_future(self.flush())
        else:  # the last one is still at it
            self._timer = asyncio.get_running_loop().call_later(_ROUND_S, self._begin_round)

    async def flush(self) -> None:
        """Everything that happened so far is in the ring when this returns."""
        async with self._lock:
            entries, self._pending, self._count = self._pending, [], 0
            if not entries:
                return
            spans = [one for one in entries if isinstance(one, Span)]
            if len(spans) < len(entries):
                spans = await self._offload(lambda: _spelled_out(entries))
            self.ring.add(spans)
            for exporter in self.exporters:
                exporter.put(spans)


def _spelled_out(entries: Sequence[Entry]) -> list[Span]:
    found: list[Span] = []
    for one in entries:
        if isinstance(one, Span):
            found.append(one)
        else:
            found += one.spans()
    return found
