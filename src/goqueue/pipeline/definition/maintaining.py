"""Tables of a pipeline looked after on a schedule: old rows away, small files together, files nobody needs removed."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from goqueue.base.settings import parse_size
from goqueue.base.times import parse_duration_ms
from goqueue.pipeline.definition.lake_notes import read_note, write_note
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.words import Maintenance
from goqueue.pipeline.lake.either import FoundTable, exists
from goqueue.pipeline.lake.tending import Tended

_RETRY_MS: Final = 60_000
_LOOK_S: Final = 1.0
_STOP_S: Final = 5.0  # a table's change that is broken off leaves the table as it was

Place = tuple[PipelineFile, str]


class Maintained(msgspec.Struct, frozen=True):
    """When the tables were looked after last, in milliseconds since 1970."""

    at_ms: int


def maintain(file: PipelineFile, lake: str, now_ms: int) -> list[Tended]:
    """All tables of the pipeline, one after the other; notes in the lake when that was."""
    asked = file.definition.maintenance or Maintenance()
    done = [
        _tended(f"{lake}/{name}", name, asked, now_ms) for name in file.definition.tables() if exists(f"{lake}/{name}")
    ]
    if done:
        write_note(_note(file, lake), Maintained(now_ms))
    return done


def due_ms(file: PipelineFile, lake: str) -> int | None:
    """When it is next to be done; None if the file asks for none."""
    asked = file.definition.maintenance
    if asked is None:
        return None
    last = read_note(_note(file, lake), Maintained)
    return 0 if last is None else last.at_ms + parse_duration_ms(asked.every, "every")


def _note(file: PipelineFile, lake: str) -> str:
    return f"{lake}/_checkpoints/pipelines/{file.definition.name}/maintenance.json"


def _tended(path: str, name: str, asked: Maintenance, now_ms: int) -> Tended:
    table, rows = FoundTable(path), 0
    before = table.files()
    if asked.expire is not None and asked.expire_by is not None:
        oldest = dt.datetime.fromtimestamp((now_ms - parse_duration_ms(asked.expire, "expire")) / 1000, dt.UTC)
        rows = table.delete_before(asked.expire_by, oldest)
    tended = table.tend(name, parse_size(asked.file_size), parse_duration_ms(asked.retention, "retention"))
    return msgspec.structs.replace(tended, files=before, expired_rows=rows)


class Maintainer:
    """One thread that looks after the tables of all served pipelines, one at a time, when they are due."""

    def __init__(
        self, say: Callable[[str], None], clock_ms: Callable[[], int] = lambda: time.time_ns() // 10**6
    ) -> None:
        self._say, self._clock_ms = say, clock_ms
        self._places: Mapping[str, Place] = {}
        self._not_before: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeline-maintenance", daemon=True)
        self._thread.start()

    def look(self, places: Mapping[str, Place]) -> None:
        """What is served now: files and their lakes, by name."""
        self._places = dict(places)

    def files(self, name: str) -> int | None:
        """How many files the pipeline's tables had after they were last looked after."""
        return self._files.get(name)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            for name, (file, lake) in self._places.items():
                if not self._ended.is_set():
                    self._maybe(name, file, lake)

    def _maybe(self, name: str, file: PipelineFile, lake: str) -> None:
        now_ms = self._clock_ms()
        if now_ms < self._not_before.get(name, 0):
            return
        try:
            due = due_ms(file, lake)
            if due is None or now_ms < due:
                return
            done = maintain(file, lake, now_ms)
            if not done:
                return  # there are no tables yet
        except Exception as error:
            self._not_before[name] = now_ms + _RETRY_MS
            self._say(f"{name}: its tables could not be looked after: {error}; the next try is in a minute")
            return
        self._files[name] = sum(one.now for one in done)
        self._say(f"{name}: {told(done)}")


def told(done: list[Tended]) -> str:
    """`3 tables: 120 files became 3, 0 old rows deleted, 117 files removed`."""
    before, now = sum(one.files for one in done), sum(one.now for one in done)
    rows, removed = sum(one.expired_rows for one in done), sum(one.removed for one in done)
    return f"{len(done)} tables: {before:,} files became {now:,}, {rows:,} old rows deleted, {removed:,} files removed"
