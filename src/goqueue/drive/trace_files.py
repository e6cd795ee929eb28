"""Traces on disk: one JSON object a line, one line an event, in files that are closed at a size.

A start begins a new file, so that what a crash left half written is the end of a file and is passed over. Files are
deleted by age and by count. Nothing is synced: what a power cut takes are the last seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from goqueue.base.clock import SteadyClock
from goqueue.base.ids import Millis
from goqueue.base.settings import TraceSettings
from goqueue.core.traces.span import FoundTraces, Span, TraceFilter
from goqueue.drive.trace_entries import Entry, lines_of
from goqueue.log.private import create_private, make_private_dirs

_ID_AT: Final = slice(len('{"trace_id":"'), len('{"trace_id":"') + 32)
_EXPIRE_MS: Final = 60_000
CLOCK_WAIT_MS: Final = 600_000
_decode: Final = msgspec.json.Decoder(Span).decode


class TraceFiles:
    """`write` belongs to one thread; reading is for any. All of it blocks."""

    def __init__(self, directory: Path, settings: TraceSettings, clock: SteadyClock) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._file: Any = None
        self._size = 0
        self._count = 0
        self._expired_ms: Millis = 0

    # --- writing -------------------------------------------------------------------------------------------

    def write(self, entries: Sequence[Entry]) -> None:
        """Whole lines in one go; `OSError` if the disk refuses."""
        data = lines_of(entries)
        if self._file is None or (self._size and self._size + len(data) > self._settings.file_bytes):
            self._roll()
        elif self._clock.monotonic_ms() - self._expired_ms >= _EXPIRE_MS:
            self.expire()
        self._file.write(data)
        self._size += len(data)

    def _roll(self) -> None:
        self.close()
        make_private_dirs(self._directory)
        self._count += 1
        name = f"traces-{self._clock.now_ms():013d}-{self._count:04d}.jsonl"
        create_private(self._directory / name)
        self._file = (self._directory / name).open("ab", buffering=0)
        self._size = 0
        self.expire()

    def expire(self) -> None:
        """The oldest go: those beyond the count, and those whose last line is too old."""
        self._expired_ms = self._clock.monotonic_ms()
        files = self.files()
        surplus = max(0, len(files) - self._settings.files_max)
        horizon_s = (self._clock.now_ms() - self._settings.retention_ms) / 1000
        if not self._clock.is_steady(CLOCK_WAIT_MS):
            horizon_s = 0.0  # the clock was set lately and may be wrong
        for number, path in enumerate(files[:-1]):
            if number < surplus or _modified_s(path) < horizon_s:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- reading -------------------------------------------------------------------------------------------

    def files(self) -> list[Path]:
        """The oldest first."""
        return sorted(self._directory.glob("traces-*.jsonl"))

    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files() if path.exists())

    def find(self, trace_ids: Iterable[str], files: Sequence[Path] | None = None) -> list[Span]:
        """Everything about these traces."""
        wanted = {trace_id.encode() for trace_id in trace_ids}
        found: list[Span] = []
        for path in self.files() if files is None else files:
            data = _read(path)
            if len(wanted) > 1 or any(trace_id in data for trace_id in wanted):
                found += _spans(line for line in data.split(b"\n") if line[_ID_AT] in wanted)
        return found

    def search(self, chosen: TraceFilter, limit: int) -> list[Span]:
        """Everything about the traces that fit, as many of the newest as asked for."""
        files = [path for path in self.files() if _may_hold(path, chosen)]
        found = FoundTraces(chosen)
        for path in files:
            for span in _spans(_read(path).split(b"\n")):
                found.look(span)
        return self.find(found.newest(limit)) if files else []

    def tail(self, count: int) -> list[Span]:
        """The last events, the oldest of them first."""
        found: list[Span] = []
        for path in reversed(self.files()):
            lines = _read(path).split(b"\n")[-(count - len(found) + 1) :]
            found[:0] = _spans(lines)
            if len(found) >= count:
                break
        return found[-count:]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # its time was over meanwhile
        return b""


def _spans(lines: Iterable[bytes]) -> Iterator[Span]:
    """Without what is no event: the torn end of a file, or damage."""
    for line in lines:
        if line:
            try:
                yield _decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue


def _modified_s(path: Path) -> float:
    try:
        return os.stat(path).st_mtime  # noqa: PTH116
    except FileNotFoundError:
        return 0


def _may_hold(path: Path, chosen: TraceFilter) -> bool:
    """Whether the file's time meets the one asked for: its name says when it began, its last change when it ended."""
    if chosen.to_ms is not None and _began_ms(path) >= chosen.to_ms:
        return False
    return chosen.from_ms is None or (_modified_s(path) + 1) * 1000 >= chosen.from_ms


def _began_ms(path: Path) -> Millis:
    text = path.name.split("-")[1]
    return int(text) if text.isdecimal() else 0
