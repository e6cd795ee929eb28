"""Puts the recording of traces together, as the settings say."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from goqueue.base.clock import SteadyClock
from goqueue.base.entropy import Entropy
from goqueue.base.ids import Millis
from goqueue.base.settings import TraceSettings
from goqueue.core.delivery.records import ViewId
from goqueue.core.traces.span import Span
from goqueue.drive.exporter import Exporter
from goqueue.drive.offload import Offload
from goqueue.drive.topic_table import TopicTable
from goqueue.drive.trace_entries import Entry, count_of, lines_of, spelled_out
from goqueue.drive.trace_files import TraceFiles
from goqueue.drive.trace_otlp import OtlpSender
from goqueue.drive.trace_recorder import Recorder
from goqueue.drive.trace_ring import TraceRing
from goqueue.service.topics import Topics
from goqueue.service.trace_leases import TracedLeases
from goqueue.service.tracer import Tracer
from goqueue.service.traces import Traces
from goqueue.service.tracing import Tracing


class TraceRecording:
    """Where spans go: one for a node. `is_full` says that the disk has no room for traces."""

    def __init__(
        self,
        settings: TraceSettings,
        directory: str,
        is_full: Callable[[], bool],
        clock: SteadyClock,
        entropy: Entropy,
        offload: Offload,
    ) -> None:
        self._is_full = is_full
        self.enabled = enabled = settings.record == "on"
        files = TraceFiles(Path(directory), settings, clock) if directory and settings.files_max and enabled else None
        self.recorder = Recorder(TraceRing(settings.ring_max), self._exporters(settings, files, entropy), offload)
        self.traces = Traces(self.recorder, files, offload, settings.sample_rate, enabled)
        self.tracer = Tracer(self.recorder, settings.sample_rate, clock, entropy)
        self.entropy = entropy

    def _exporters(self, settings: TraceSettings, files: TraceFiles | None, entropy: Entropy) -> list[Exporter[Entry]]:
        found: list[Exporter[Entry]] = []
        if files is not None:
            found.append(Exporter("file", lambda entries: self._to_file(files, entries), count_of))
        if settings.record == "on" and settings.stdout == "on":
            found.append(Exporter("stdout", _to_stdout, count_of))
        if settings.record == "on" and settings.otlp_endpoint:
            otlp = OtlpSender(settings, entropy.token(8).hex())
            found.append(Exporter("otlp", lambda entries: otlp.send(spelled_out(entries)), count_of))
        return found

    def _to_file(self, files: TraceFiles, entries: Sequence[Entry]) -> None:
        if self._is_full():
            raise OSError("the disk is full; messages come first")
        files.write(entries)


class TraceParts:
    """What a shard's verbs are traced with. Made before them."""

    def __init__(self, recording: TraceRecording) -> None:
        self._recording = recording
        self.tracing: Tracing | None = None
        self._leases: TracedLeases | None = None

    def begin(self, table: TopicTable) -> Tracing | None:
        """What publishes are traced with; None if nothing is."""
        if self._recording.enabled:
            self.tracing = Tracing(self._recording.tracer, table, self._recording.entropy)
        return self.tracing

    def begin_leases(self, topics: Topics, is_known: Callable[[ViewId], bool]) -> TracedLeases | None:
        """What leases are traced with; None if nothing is."""
        if self._recording.enabled:
            self._leases = TracedLeases(self._recording.tracer, topics, is_known)
        return self._leases

    def look_again(self) -> None:
        """Traces have no deadlines."""

    def clock_moved(self, by_ms: Millis) -> None:
        """What lasts since before began as long ago as it did."""
        if self._leases is not None:
            self._leases.shift(by_ms)

    def recall(self, found: Sequence[Span]) -> None:
        """What was under way before a restart; before anything is handed out or ended."""
        if self.tracing is not None and self._leases is not None:
            self._leases.recall(found)
            self.tracing.transactions.recall(found)


def _to_stdout(entries: Sequence[Entry]) -> None:
    sys.stdout.buffer.write(lines_of(entries))
    sys.stdout.buffer.flush()
