"""The traces in memory. A full ring forgets those to which nothing happened for longest."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from goqueue.core.traces.span import Span, TraceSummary, trace_of
from goqueue.drive.trace_entries import Entry, count_of

SPANS_EACH: Final = 5  # on average; a ring of so many traces holds at most so many times as many spans
SPANS_MAX: Final = 1_000  # of one trace, about; it keeps the last


class TraceRing:
    """Changed on the loop; other threads may read. What comes lies folded until somebody spells it out and adds it."""

    def __init__(self, traces_max: int) -> None:
        self._traces_max = traces_max
        self._spans_max = max(SPANS_MAX, traces_max * SPANS_EACH)
        self._traces: OrderedDict[str, list[Span]] = OrderedDict()
        self._folded: deque[Entry] = deque()
        self.folded = 0  # spans in those
        self.spans = 0
        self.dropped = 0  # spans of traces that are too long

    def __len__(self) -> int:
        """About as many as there are, while some are folded."""
        return min(self._traces_max, len(self._traces) + self.folded)

    def put(self, entries: Sequence[Entry]) -> None:
        """Those that would be forgotten anyway, since so many came after them, are forgotten at once."""
        self._folded.extend(entries)
        self.folded += sum(map(count_of, entries))
        while self.folded - count_of(self._folded[0]) >= self._spans_max:
            self.folded -= count_of(self._folded.popleft())

    def take_folded(self) -> list[Entry]:
        """What is to be spelled out and added."""
        taken = list(self._folded)
        self._folded.clear()
        self.folded = 0
        return taken

    def add(self, spans: Sequence[Span]) -> None:
        before, known = "", list[Span]()
        for span in spans:
            if span.trace_id != before:  # those of one trace often come together
                before, known = span.trace_id, self._of(span.trace_id)
            known.append(span)
        self.spans += len(spans)
        while len(self._traces) > self._traces_max or self.spans > self._spans_max:
            self.spans -= len(self._traces.popitem(last=False)[1])

    def _of(self, trace_id: str) -> list[Span]:
        """The spans of a trace, which is the newest now. Of one that is too long, the oldest are forgotten."""
        known = self._traces.get(trace_id)
        if known is None:
            known = self._traces[trace_id] = []
            return known
        self._traces.move_to_end(trace_id)
        if len(known) >= SPANS_MAX:
            self.spans -= SPANS_MAX // 2
            self.dropped += SPANS_MAX // 2
            del known[: SPANS_MAX // 2]
        return known

    def find(self, trace_id: str) -> list[Span]:
        return list(self._traces.get(trace_id, ()))

    def newest(self, limit: int) -> list[TraceSummary]:
        ids = [trace_id for trace_id, _ in zip(reversed(self._traces), range(limit), strict=False)]
        return [trace_of(trace_id, self._traces[trace_id]) for trace_id in ids]

    def all(self) -> list[list[Span]]:
        """As they are now."""
        return list(self._traces.values())
