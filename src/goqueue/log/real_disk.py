"""The machine's disk."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from goqueue.format.batch import Buffer
from goqueue.log.disk import Usage
from goqueue.log.private import FILE_MODE, make_private_dirs
from goqueue.log.spare import SpareDescriptors

_NOWAIT: Final = getattr(os, "RWF_NOWAIT", None)
_IOVECS_MAX: Final = 1024
# What file systems without a non-blocking read answer to one.
_NO_NOWAIT: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class RealFile:
    """A file handle with `pread` and `pwritev`."""

    __slots__ = ("_fd", "_nowait", "size")

    def __init__(self, path: str, create: bool) -> None:
        self._fd = -1
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), FILE_MODE)
        self._nowait = _NOWAIT is not None
        self.size = os.fstat(self._fd).st_size

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def append(self, buffers: Sequence[Buffer]) -> None:
        size = self.size
        wanted = sum(map(len, buffers))
        try:
            written = os.pwritev(self._fd, buffers[:_IOVECS_MAX], size)
            if written < wanted:
                self._append_rest(b"".join(buffers), size, written)
        except OSError:
            # Half a batch must not stay behind for the next append to follow.
            os.ftruncate(self._fd, size)
            raise
        self.size = size + wanted

    def write(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._fd, data, position)
        if written < len(data):
            self._append_rest(data, position, written)
        self.size = max(self.size, position + len(data))

    def _append_rest(self, data: Buffer, start: int, written: int) -> None:
        view = memoryview(data)
        while written < len(data):
            written += os.pwrite(self._fd, view[written:], start + written)

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or position + len(data) >= self.size:
            return data
        parts = [data]
        got = len(data)
        while data and got < size:
            data = os.pread(self._fd, size - got, position + got)
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def read_cached(self, position: int, size: int) -> bytes | None:
        last = min(position + size, self.size) - 1
        if self._nowait and not (self._is_cached(position) and self._is_cached(last)):
            return None
        return self.read(position, size)

    def _is_cached(self, position: int) -> bool:
        """Asks for one byte without waiting. The pages between two cached ends are taken to be cached too:
        the system drops the oldest first, and a wrong guess costs one wait, not a wrong answer."""
        try:
            os.preadv(self._fd, [bytearray(1)], position, _NOWAIT or 0)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in _NO_NOWAIT:
                raise
            self._nowait = False
        return True

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = size


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _write_whole(fd: int, data: bytes, durable: bool) -> None:
    """And closes it."""
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)


def _read_whole(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        data = os.read(fd, size + 1)
        while more := os.read(fd, size + 1) if len(data) != size else b"":
            data += more
        return data
    finally:
        os.close(fd)


class RealDisk:
    """A directory of the machine. Paths are text: a start with thousands of logs asks for tens of thousands of them."""

    def __init__(self, root: Path, spare: int = 0) -> None:
        """`spare` descriptors are held back for notes, syncs of directories and files that are opened with them."""
        self._root = str(root)
        self._spare = SpareDescriptors(spare)

    def close(self) -> None:
        """Gives back what is held back."""
        self._spare.close()

    def open(self, path: str, *, create: bool = False, spare: bool = False) -> RealFile:
        if spare:
            return self._spare.use(lambda: RealFile(self._at(path), create))
        return RealFile(self._at(path), create)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"

    def read_file(self, path: str) -> bytes | None:
        try:
            return self._spare.use(lambda: _read_whole(self._at(path)))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_file(self, path: str, data: bytes, *, durable: bool = True) -> None:
        target = self._at(path)
        temporary = target + ".tmp"
        fd = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            _write_whole(fd, data, durable)
            os.rename(temporary, target)
        except OSError:
            _unlink(temporary)  # on a full disk the part that was written takes up what is left
            raise
        if durable:
            self._sync_dir(os.path.dirname(target))

    def write_at(self, path: str, position: int, data: bytes) -> None:
        fd = self._open(self._at(path), os.O_WRONLY | os.O_CREAT)
        try:
            os.pwrite(fd, data, position)
        finally:
            os.close(fd)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(self._spare.use(lambda: os.listdir(self._at(path))))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(self._at(path))

    def size(self, path: str) -> int:
        return os.stat(self._at(path)).st_size

    def make_dirs(self, path: str) -> None:
        make_private_dirs(Path(self._at(path)))

    def rename(self, source: str, target: str) -> None:
        os.rename(self._at(source), self._at(target))

    def remove(self, path: str) -> None:
        _unlink(self._at(path))

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._at(path))

    def sync_dir(self, path: str) -> None:
        self._sync_dir(self._at(path))

    def _open(self, path: str, flags: int) -> int:
        return self._spare.use(lambda: os.open(path, flags | os.O_CLOEXEC, FILE_MODE))

    def _sync_dir(self, path: str) -> None:
        fd = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def usage(self) -> Usage:
        stat = os.statvfs(self._root)
        used = stat.f_blocks - stat.f_bfree
        reachable = used + stat.f_bavail
        percent = 100.0 * used / reachable if reachable else 0.0
        return Usage(reachable * stat.f_frsize, stat.f_bavail * stat.f_frsize, percent)
