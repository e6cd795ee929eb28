"""One process runs a pipeline on a lake at a time: two would take each other's checkpoints away."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from goqueue.pipeline.definition.lake_notes import NoteUnwritable
from goqueue.pipeline.definition.sinks import SinkPlace
from goqueue.pipeline.lake.folders import location
from goqueue.pipeline.lake.storage_failures import advice, one_line
from goqueue.pipeline.link.errors import PipelineError

_NAME: Final = "running.lock"


class AlreadyRunning(PipelineError):
    """Another process, or another file here, runs the same pipeline on the same lake."""


class RunningLock:
    """Held until `release`, or until the process ends. Object storage knows no locks: there it is nobody's."""

    def __init__(self, place: SinkPlace) -> None:
        where = location(place.checkpoint(_NAME))
        self._file: int | None = None if "://" in where else _locked(Path(where), place.pipeline)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None


def _locked(where: Path, pipeline: str) -> int:
    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(where, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        to_do = advice(error, "Choose a lake that this user may write to.")
        raise NoteUnwritable(f"{where} cannot be written: {one_line(error)}. {to_do}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(file, 20).decode(errors="replace").strip() or "unknown"
        os.close(file)
        told = f"{pipeline} runs already on this lake (process {holder}); stop it, or give one of them another name"
        raise AlreadyRunning(told) from None
    except OSError:
        return file  # some file systems of networks know no locks either
    with suppress(OSError):  # the number only says whom to look for: a full disk is told by what has to be written
        os.truncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
    return file
