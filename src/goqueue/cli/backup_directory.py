"""Backups in a directory of this machine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from goqueue.cli.backup_place import TEMPORARY, BackupDamaged
from goqueue.cli.failures import Failed
from goqueue.log.private import FILE_MODE, make_private_dirs

_UNREADABLE: Final = {errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO)}  # the disk is damaged


class DirectoryPlace:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)
        self._used: set[Path] = set()  # directories whose entries a backup relies on

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        self._make()
        fd = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock(fd)
            yield
        finally:
            os.close(fd)

    def _make(self) -> None:
        missing = [one for one in (self._path, *self._path.parents) if not one.exists()]
        make_private_dirs(self._path)
        for one in missing:
            sync_directory(one.parent)

    def _lock(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed(f"Another backup writes to {self.name}; wait until it ends.") from None

    def renew(self) -> None:
        """The lock ends with the process."""

    def confirm(self) -> None:
        """The lock ends with the process."""

    def read(self, key: str) -> bytes | None:
        try:
            return (self._path / key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in _UNREADABLE:
                raise BackupDamaged(f"{self._path / key}: {error.strerror}") from None
            raise

    def size(self, key: str) -> int:
        path = self._path / key
        try:
            size = path.stat().st_size
        except OSError:
            return -1
        self._used.add(path.parent)
        return size

    def keys(self, below: str) -> list[str]:
        return sorted(
            str(Path(directory, name).relative_to(self._path))
            for directory, _, names in os.walk(self._path / below, onerror=_listing_failed)
            for name in names
        )

    def write(self, key: str, data: bytes) -> None:
        path = self._path / key
        make_private_dirs(path.parent)
        write_safely(path, data)
        self._used.add(path.parent)

    def append(self, key: str, data: bytes) -> None:
        with (self._path / key).open("ab") as file:
            file.write(data)

    def delete(self, key: str) -> None:
        path = self._path / key
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            self._used.add(path.parent)

    def settle(self) -> None:
        within = {one for path in self._used for one in (path, *path.parents) if one.is_relative_to(self._path)}
        for directory in sorted(within, reverse=True):
            sync_directory(directory)
        self._used.clear()


def _listing_failed(error: OSError) -> None:
    """What cannot be read is not taken for empty; a directory of somebody else's, or one that is not there, may be."""
    if not isinstance(error, PermissionError | FileNotFoundError):
        raise error


def write_safely(path: Path, data: bytes) -> None:
    """It is there whole, or not at all."""
    beside = path.with_name(f"{path.name}{TEMPORARY}")
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
