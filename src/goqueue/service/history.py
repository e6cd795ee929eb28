"""The node's numbers over the last hours, for charts without another program: taken every few seconds, kept in a ring
on disk, read by name. What a node was asked or did is a rate a second; what it has is a number.
"""

from __future__ import annotations

import logging
import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.ids import Millis
from goqueue.base.limits import HISTORY_COLUMNS_MAX, HISTORY_ROWS_MAX, HISTORY_STEP_MS
from goqueue.drive.history_ring import NOTHING, HistoryColumn, HistoryRing, HistoryRow
from goqueue.drive.offload import Offload
from goqueue.drive.repeating import Repeating

logger = logging.getLogger(__name__)

Sample = Callable[[], Mapping[str, float]]
MINUTES_MAX: Final = HISTORY_ROWS_MAX * HISTORY_STEP_MS // 60_000
_UNUSED: Final = ""


class HistoryPage(msgspec.Struct, frozen=True):
    """Each series has as many points as the others; the last ends at `end_ms`, each stands for `step_ms`. A point is
    null where nothing was measured. Of several nodes each keeps its own numbers: `node` is whose these are."""

    step_ms: Millis
    end_ms: Millis
    series: dict[str, list[float | None]]
    node: int | None = None


class NodeHistory:
    """`sample` gives the numbers of now, the important ones first: of too many, the last are left out."""

    def __init__(self, ring: HistoryRing, sample: Sample, clock: Clock, offload: Offload) -> None:
        self._ring = ring
        self._sample = sample
        self._clock = clock
        self._offload = offload
        self._columns: list[HistoryColumn] = []
        self._places: dict[str, int] = {}
        self._rows: deque[HistoryRow] = deque(maxlen=HISTORY_ROWS_MAX)
        self._used: dict[str, Millis] = {}
        self._repeating = Repeating(HISTORY_STEP_MS / 1000, self._take_safely)

    async def start(self) -> None:
        self._columns, self._rows = await self._offload(self._ring.open)
        self._places = {one.name: place for place, one in enumerate(self._columns) if one.name != _UNUSED}
        await self._take_safely()
        self._repeating.start()

    async def stop(self) -> None:
        await self._repeating.stop()
        await self._offload(self._ring.close)

    async def take(self) -> None:
        """Measures once."""
        now = self._clock.now_ms()
        found = dict(list(self._sample().items())[:HISTORY_COLUMNS_MAX])
        are_new = self._place(found, now)
        values = array("f", [NOTHING]) * HISTORY_COLUMNS_MAX
        for name, value in found.items():
            if name in self._places:
                values[self._places[name]] = value
        row = HistoryRow(now, values)
        self._rows.append(row)
        columns = list(self._columns) if are_new else None
        await self._offload(lambda: self._ring.append(row, columns))

    async def _take_safely(self) -> None:
        """Charts are not worth a node."""
        try:
            await self.take()
        except Exception:
            logger.exception("a point of the node's history is missing")

    def _place(self, found: Iterable[str], now: Millis) -> bool:
        """Every name gets a column: one of its own, a free one, or that of the name which was not seen for longest."""
        names = dict.fromkeys(found)
        self._used |= dict.fromkeys(names, now)
        new = [name for name in names if name not in self._places]
        idle = sorted((one for one in self._places if one not in names), key=lambda one: self._used.get(one, 0))
        for name in new:
            if len(self._columns) < HISTORY_COLUMNS_MAX:
                place = len(self._columns)
                self._columns.append(HistoryColumn(_UNUSED, 0))
            elif idle:
                gone = idle.pop(0)
                place = self._places.pop(gone)
                self._used.pop(gone, None)
            else:
                break
            self._columns[place] = HistoryColumn(name, now)
            self._places[name] = place
        return bool(new)

    async def read(self, names: Sequence[str], prefix: str, minutes: int, points: int) -> HistoryPage:
        """The series that are named, and those whose names begin with the prefix, in so many points at most."""
        wanted = dict.fromkeys(name for name in names if name in self._places)
        if prefix:
            wanted |= dict.fromkeys(sorted(name for name in self._places if name.startswith(prefix)))
        end = self._clock.now_ms() // HISTORY_STEP_MS * HISTORY_STEP_MS
        steps = min(minutes * 60_000 // HISTORY_STEP_MS, HISTORY_ROWS_MAX)
        each = -(-steps // points)
        length = -(-steps // each)
        begin = end - length * each * HISTORY_STEP_MS
        buckets: list[list[HistoryRow]] = [[] for _ in range(length)]
        for row in self._rows:
            place = (row.time_ms - begin - 1) // (each * HISTORY_STEP_MS)
            if 0 <= place <= length:
                buckets[min(place, length - 1)].append(row)
        places = {name: (self._places[name], self._columns[self._places[name]].since_ms) for name in wanted}
        series = await self._offload(lambda: {name: _points(buckets, *at) for name, at in places.items()})
        return HistoryPage(each * HISTORY_STEP_MS, end, series)


def _points(buckets: Sequence[Sequence[HistoryRow]], place: int, since_ms: Millis) -> list[float | None]:
    """Hundreds of series take long, so this runs off the loop."""
    found: list[float | None] = []
    for rows in buckets:
        values = [row.values[place] for row in rows if row.time_ms >= since_ms]
        values = [value for value in values if not math.isnan(value)]
        found.append(round(sum(values) / len(values), 3) if values else None)
    return found
