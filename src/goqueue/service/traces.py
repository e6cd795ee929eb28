"""Traces to look at: the newest, one by its id, those that fit a filter, numbers. And their start and end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from goqueue.base.errors import UnknownTrace
from goqueue.core.traces.span import FoundTraces, Span, TraceFilter, TraceSummary, trace_of
from goqueue.drive.offload import Offload
from goqueue.drive.trace_files import TraceFiles
from goqueue.drive.trace_recorder import Recorder

_ID_CHARS: Final = 32
_RECALLED: Final = 10_000  # events that a start reads


class ExporterStats(msgspec.Struct, frozen=True):
    name: str
    exported: int
    dropped: int
    waiting: int
    failure: str = ""


class TraceStats(msgspec.Struct, frozen=True):
    """Counts are of events since the node started; `traces` and `spans` are what is in memory now."""

    enabled: bool
    sample_rate: float
    traces: int
    spans: int
    recorded: int
    dropped: int
    exporters: list[ExporterStats]
    files: int
    file_bytes: int


class TraceCollector:
    """The recorder's numbers at scrape time."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterator[Metric]:
        recorder, labels = self._recorder, ("exporter",)
        recorded = CounterMetricFamily("goqueue_traces_spans_recorded", "Events of traced messages.")
        recorded.add_metric((), recorder.recorded)
        exported = CounterMetricFamily(
            "goqueue_traces_spans_exported", "Events that reached an exporter.", labels=labels
        )
        dropped = CounterMetricFamily(
            "goqueue_traces_spans_dropped",
            "Events lost: by the recorder and the ring if there were too many, by an exporter that was behind.",
            labels=labels,
        )
        dropped.add_metric(("recorder",), recorder.dropped)
        dropped.add_metric(("ring",), recorder.ring.dropped)
        for one in recorder.exporters:
            exported.add_metric((one.name,), one.exported)
            dropped.add_metric((one.name,), one.dropped)
        held = GaugeMetricFamily("goqueue_traces_in_memory", "Traces in the ring.")
        held.add_metric((), len(recorder.ring))
        yield from (recorded, exported, dropped, held)


class Traces:
    """The verbs."""

    def __init__(
        self, recorder: Recorder, files: TraceFiles | None, offload: Offload, sample_rate: float, enabled: bool
    ) -> None:
        self._recorder = recorder
        self._files = files
        self._offload = offload
        self._sample_rate = sample_rate
        self._enabled = enabled

    async def start(self) -> list[Span]:
        """The last events of an earlier life; they are in the ring again."""
        self._recorder.start()
        files = self._files
        found = [] if files is None else await self._offload(lambda: _last(files))
        self._recorder.ring.add(found)
        return found

    async def stop(self) -> None:
        await self._recorder.stop()
        if self._files is not None:
            await self._offload(self._files.close)

    # --- look ----------------------------------------------------------------------------------------------

    async def newest(self, limit: int) -> list[TraceSummary]:
        await self._recorder.flush()
        return self._recorder.ring.newest(limit)

    async def show(self, trace_id: str) -> TraceSummary:
        """All that is known of it, in memory and on disk."""
        await self._recorder.flush()
        spans = self._recorder.ring.find(trace_id)
        if self._files is not None and len(trace_id) == _ID_CHARS:
            files = self._files
            spans = await self._offload(lambda: files.find([trace_id])) + spans
        if not spans:
            raise UnknownTrace(
                f"No trace {trace_id!r} is known; old ones are forgotten.",
                field="id",
            )
        return trace_of(trace_id, spans)

    async def known(self, trace_ids: Sequence[str]) -> list[TraceSummary]:
        """What is known of these here."""
        await self._recorder.flush()
        found: dict[str, list[Span]] = {one: list(self._recorder.ring.find(one)) for one in trace_ids}
        if self._files is not None:
            files, whole = self._files, [one for one in trace_ids if len(one) == _ID_CHARS]
            for span in await self._offload(lambda: files.find(whole)):
                found[span.trace_id].append(span)
        return [trace_of(trace_id, spans) for trace_id, spans in found.items() if spans]

    async def search(self, chosen: TraceFilter, limit: int) -> list[TraceSummary]:
        """In memory and on disk, the newest first."""
        await self._recorder.flush()
        known = self._recorder.ring.all()
        return await self._offload(lambda: self._search(known, chosen, limit))

    def _search(self, known: Sequence[list[Span]], chosen: TraceFilter, limit: int) -> list[TraceSummary]:
        spans = [] if self._files is None else self._files.search(chosen, limit)
        ring = [one for trace in known for one in list(trace)]
        wanted = set(_fitting(ring, chosen, limit)) | {span.trace_id for span in spans}
        spans += [span for span in ring if span.trace_id in wanted]
        newest = _fitting(spans, chosen, limit)
        by_id: dict[str, list[Span]] = {trace_id: [] for trace_id in newest}
        for span in spans:
            if span.trace_id in by_id:
                by_id[span.trace_id].append(span)
        return [trace_of(trace_id, by_id[trace_id]) for trace_id in newest]

    async def stats(self) -> TraceStats:
        await self._recorder.flush()
        recorder, files = self._recorder, self._files
        exporters = [
            ExporterStats(one.name, one.exported, one.dropped, one.waiting, one.failure) for one in recorder.exporters
        ]
        count, size = (0, 0) if files is None else await self._offload(lambda: (len(files.files()), files.size_bytes()))
        return TraceStats(
            self._enabled,
            self._sample_rate,
            len(recorder.ring),
            recorder.ring.spans,
            recorder.recorded,
            recorder.dropped + recorder.ring.dropped,
            exporters,
            count,
            size,
        )


def _last(files: TraceFiles) -> list[Span]:
    files.expire()
    return files.tail(_RECALLED)


def _fitting(spans: Iterable[Span], chosen: TraceFilter, limit: int) -> Sequence[str]:
    found = FoundTraces(chosen)
    for span in spans:
        found.look(span)
    return found.newest(limit)
