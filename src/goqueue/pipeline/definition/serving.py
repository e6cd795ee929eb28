"""Every pipeline of a folder in one Spark application, kept running: started, restarted, upgraded, paused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

import msgspec

from goqueue.pipeline.definition.reading import PipelineFile, read_file
from goqueue.pipeline.lake.storage_failures import one_line

_BACK_OFF_S: Final = 1.0
_BACK_OFF_S_MAX: Final = 60.0
_PIPELINES_MAX: Final = 200
PAUSED: Final = ".paused"
REPLAY: Final = ".replay"


class RunningPipeline(Protocol):
    """The queries of one pipeline. Each that `wind_down` finds behind its batch ends; it is true once all have."""

    def failure(self) -> str | None: ...
    def is_steady(self) -> bool: ...
    def changed_source(self, now: float) -> str | None: ...
    def wind_down(self) -> bool: ...
    def stop(self) -> None: ...
    def numbers(self) -> Mapping[str, float]: ...


Begin = Callable[[PipelineFile], RunningPipeline]
Say = Callable[[str], None]


class PipelineStatus(msgspec.Struct, frozen=True):
    """`state` is running, waiting (for its next try), refused (the file cannot run), or paused.

    A refused change leaves running what ran before, and `error` says why. What failed keeps its error until it has done
    a batch, or found that there is nothing to do.
    """

    name: str
    state: str
    error: str
    restarts: int
    numbers: dict[str, float]


class _Kept:
    """One file: what of it runs, and what became of its last change."""

    def __init__(self) -> None:
        self.digest = ""
        self.watched: PipelineFile | None = None  # as it was last read, whether it can run or not
        self.is_unreadable = False
        self.running: RunningPipeline | None = None
        self.file: PipelineFile | None = None
        self.refusal = ""  # of the file as it is now
        self.error = ""
        self.is_paused = False
        self.is_pausing = False  # at the end of the batch that it is at
        self.failures = 0
        self.restarts = 0
        self.not_before = 0.0

    @property
    def state(self) -> str:
        if self.is_paused:
            return "paused"
        if self.running is not None:
            return "running"
        return "waiting" if self.file is not None else "refused"


def _digest(path: Path, file: PipelineFile | None) -> str:
    """Of the file, and of the files of its functions that are there."""
    found = sha256(path.read_bytes())
    steps = [] if file is None else [one.python for one in file.definition.step if one.python is not None]
    for step in steps:
        code = path.parent / step.rpartition(":")[0]
        found.update(code.read_bytes() if code.is_file() else b"")
    return found.hexdigest()


class PipelineFolder:
    """Looked at again and again by its owner; the time is an argument. `begin` raises if a pipeline cannot start."""

    def __init__(self, folder: Path, begin: Begin, say: Say) -> None:
        self._folder, self._begin, self._say = folder, begin, say
        self._kept: dict[str, _Kept] = {}
        self._status: list[PipelineStatus] = []

    def look(self, now: float, is_ending: Callable[[], bool] = lambda: False) -> None:
        """Takes changes of files over, starts what should run, notices what died; nothing more once it is to end."""
        paths = [path for path in sorted(self._folder.glob("*.toml")) if not path.name.startswith(".")]
        found = {path.stem: path for path in paths[:_PIPELINES_MAX]}
        for name in [name for name in self._kept if name not in found]:
            self._stop(name, self._kept.pop(name), "its file is gone")
        for name, path in found.items():
            if is_ending():
                break
            kept = self._kept.setdefault(name, _Kept())
            self._take_over(name, kept, path, now)
            self._keep(name, kept, now)
        self._status = self._told()

    def wind_down(self, has_time: Callable[[], bool]) -> None:
        """Stops each pipeline at the end of the batch that it is at, as long as there is time for that."""
        left = [(name, kept) for name, kept in self._kept.items() if kept.running is not None]
        while left and has_time():
            left = [(name, kept) for name, kept in left if not self._wound_down(name, kept, "after its last batch")]

    def stop(self) -> None:
        """What still runs, within its batch: the next start does that one again."""
        for name, kept in self._kept.items():
            self._stop(name, kept, "within a batch, which the next start does again")

    def status(self) -> list[PipelineStatus]:
        """As it was at the last look; any thread may ask."""
        return self._status

    def files(self) -> dict[str, PipelineFile]:
        """The pipelines that run, by name."""
        return {name: one.file for name, one in self._kept.items() if one.running is not None and one.file is not None}

    def all_files(self) -> dict[str, PipelineFile]:
        """Also those that wait or are paused."""
        return {name: one.file for name, one in self._kept.items() if one.file is not None}

    def _told(self) -> list[PipelineStatus]:
        return [
            PipelineStatus(
                name,
                one.state,
                one.refusal or one.error,
                one.restarts,
                dict(one.running.numbers()) if one.running is not None else {},
            )
            for name, one in sorted(self._kept.items())
        ]

    def _take_over(self, name: str, kept: _Kept, path: Path, now: float) -> None:
        """A changed file replaces what runs, if it can run at all; else the old one goes on, and the reason is told."""
        file = self._changed(name, kept, path)
        if file is None:
            return
        before, kept.file, kept.refusal, kept.failures = kept.file, file, "", 0
        if kept.running is None:
            kept.not_before = now
            return
        self._stop(name, kept, "its file changed")
        if not self._started(name, kept, now) and before is not None:
            reason, kept.file, kept.error, kept.failures = kept.error, before, "", 0
            self._started(name, kept, now)
            self._refuse(name, kept, reason)

    def _changed(self, name: str, kept: _Kept, path: Path) -> PipelineFile | None:
        """The file, if it or a file of its functions changed since it was last read."""
        try:
            digest = _digest(path, kept.watched)
            kept.is_unreadable = False
            if digest == kept.digest:
                return None
            kept.digest = digest
            kept.watched = read_file(path)
            kept.digest = _digest(path, kept.watched)
        except Exception as error:
            is_news = not kept.is_unreadable
            kept.is_unreadable = isinstance(error, OSError)
            if is_news:
                self._refuse(name, kept, str(error))
            return None
        return kept.watched

    def _keep(self, name: str, kept: _Kept, now: float) -> None:
        if (self._folder / f"{name}{PAUSED}").exists():
            kept.is_pausing = kept.running is not None and not self._wound_down(name, kept, "paused")
            kept.is_paused = not kept.is_pausing
            return
        if kept.is_pausing:  # and goes on before that: some of its queries may have ended
            self._stop(name, kept, "")
            kept.not_before = now
        kept.is_paused = kept.is_pausing = False
        if kept.running is not None and (self._folder / f"{name}{REPLAY}").exists():
            self._stop(name, kept, "to be replayed")
            kept.not_before = now
        if kept.running is not None:
            self._look_after(name, kept, now)
        elif kept.file is not None and now >= kept.not_before:
            self._started(name, kept, now)

    def _look_after(self, name: str, kept: _Kept, now: float) -> None:
        assert kept.running is not None
        failure = kept.running.failure()
        if failure is None:
            self._look_on(name, kept, now)
            return
        self._stop(name, kept, "")
        kept.restarts += 1
        self._failed(name, kept, failure, now)

    def _look_on(self, name: str, kept: _Kept, now: float) -> None:
        assert kept.running is not None
        if kept.error and kept.running.is_steady():
            kept.error, kept.failures = "", 0
        changed = kept.running.changed_source(now)
        if changed is not None:
            self._stop(name, kept, f"what it reads as {changed} changed")
            self._started(name, kept, now)

    def _started(self, name: str, kept: _Kept, now: float) -> bool:
        assert kept.file is not None
        try:
            kept.running = self._begin(kept.file)
        except Exception as error:
            self._failed(name, kept, str(error), now)
            return False
        self._say(f"{name}: running")
        return True

    def _failed(self, name: str, kept: _Kept, error: str, now: float) -> None:
        wait = min(_BACK_OFF_S * 2**kept.failures, _BACK_OFF_S_MAX)
        kept.failures, kept.error, kept.not_before = min(kept.failures + 1, 10), error, now + wait
        self._say(f"{name}: {error}; the next try is in {wait:g} s")

    def _refuse(self, name: str, kept: _Kept, error: str) -> None:
        kept.refusal = error
        goes_on = "; what ran before goes on" if kept.running is not None else ""
        self._say(f"{name}: refused: {error}{goes_on}")

    def _wound_down(self, name: str, kept: _Kept, reason: str) -> bool:
        assert kept.running is not None
        try:
            if not kept.running.wind_down():
                return False
        except Exception as error:  # the others are to end as well
            self._say(f"{name}: could not be asked to end: {one_line(error)}")
        self._stop(name, kept, reason)
        return True

    def _stop(self, name: str, kept: _Kept, reason: str) -> None:
        if kept.running is None:
            return
        running, kept.running = kept.running, None
        try:
            running.stop()
        except Exception as error:  # as when Spark was ended before
            self._say(f"{name}: could not be stopped: {one_line(error)}")
            return
        if reason:
            self._say(f"{name}: stopped, {reason}")
