"""The data directory: made if need be, proved writable, and held by one node at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from goqueue.base.startup_errors import DataDirInUse, DataDirUnusable
from goqueue.log.private import DIR_MODE, FILE_MODE, tighten, tighten_dir
from goqueue.log.snapshot import SNAPSHOTS, UNFINISHED

LOCK_FILE: Final = "node.lock"
# What a node keeps in its directory; anything else there is not ours to change.
_OURS: Final = (
    LOCK_FILE,
    "logs",
    "metadata",
    "topics",
    "traces",
    "redrives",
    "orphans",
    "trash",
    "lost+found",
    "disk-note",
    SNAPSHOTS,
    UNFINISHED,
    "held",
)
_OURS_BEGIN: Final = ("journal-", "schedule.sqlite", "schedule-", "identity", "producer", "process", "history.")


class DataDir:
    """A held directory. The lock lives with the process: it cannot outlast a `kill -9`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def acquire(self) -> None:
        """Raises `DataDirUnusable` or `DataDirInUse`."""
        try:
            self._make()
            fd = os.open(self.path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            raise DataDirUnusable(
                f"The data directory {self.path} cannot be used: {error.strerror}. Choose another with --data, or "
                "make it writable for this user.",
                field="data.dir",
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise DataDirInUse(
                f"Another node (process {holder}) uses the data directory {self.path}. Stop it, or choose another "
                "directory with --data.",
                field="data.dir",
            ) from None
        self._fd = fd
        self._check_restored()
        self._tighten()
        with contextlib.suppress(OSError):  # a full disk: the number is for people, the lock holds without it
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)

    def _check_restored(self) -> None:
        if (self.path / UNFINISHED).exists():
            self.release()
            raise DataDirUnusable(
                f"A backup was not restored whole into the data directory {self.path}. Restore it again: "
                f"goqueue restore BACKUP --data {self.path}",
                field="data.dir",
            )

    def _make(self) -> None:
        """With names that outlast a power cut, up to the first directory that was there already."""
        missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.mkdir(DIR_MODE, exist_ok=True)
        for path in missing:
            above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            os.fsync(above)
            os.close(above)

    def _tighten(self) -> None:
        """Only the node's user gets in. A directory that also holds what is not a node's keeps its rights."""
        names = [path.name for path in self.path.iterdir()]
        ours = [name for name in names if name in _OURS or name.startswith(_OURS_BEGIN)]
        if len(ours) == len(names):
            tighten_dir(self.path)
        tighten(self.path, ours)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
