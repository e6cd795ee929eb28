"""Backups in a directory of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from goqueue.cli.failures import Failed
from goqueue.log.private import DIR_MODE, FILE_MODE, make_private_dirs


class DirectoryPlace:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        make_private_dirs(self._path)
        fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise Failed(f"Another backup writes to {self.name}; wait until it ends.") from None
        finally:
            os.close(fd)

    def read(self, key: str) -> bytes | None:
        try:
            return (self._path / key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def size(self, key: str) -> int:
        try:
            return (self._path / key).stat().st_size
        except OSError:
            return -1

    def keys(self, below: str) -> list[str]:
        found = (path for path in (self._path / below).rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self._path)) for path in found)

    def write(self, key: str, data: bytes) -> None:
        path = self._path / key
        path.parent.mkdir(DIR_MODE, parents=True, exist_ok=True)
        write_safely(path, data)

    def append(self, key: str, data: bytes) -> None:
        with (self._path / key).open("ab") as file:
            file.write(data)

    def delete(self, key: str) -> None:
        (self._path / key).unlink(missing_ok=True)

    def settle(self) -> None:
        for directory in sorted(path for path in self._path.rglob("*") if path.is_dir()):
            sync_directory(directory)
        sync_directory(self._path)


def write_safely(path: Path, data: bytes) -> None:
    """It is there whole, or not at all."""
    beside = path.with_name(f"{path.name}.tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    beside.replace(path)


def sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
