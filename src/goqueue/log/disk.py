"""The disk as a port. `log/` touches files through this and nothing else; paths are relative, with `/`.

Two forms: `RealDisk` in `log/real_disk.py`, and a simulated one in `sim/disk.py` that can crash at any call. Errors
come as `OSError`, as the system gives them. `File.append` is all or nothing: where it fails, the file is as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from goqueue.format.batch import Buffer


class Usage(msgspec.Struct, frozen=True):
    """How full the disk is."""

    total_bytes: int
    free_bytes: int
    used_percent: float


class File(Protocol):
    """An open file; it closes when nobody holds it any more, so a reader never loses it under its hands."""

    @property
    def size(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> None: ...

    def write(self, position: int, data: Buffer) -> None:
        """Overwrites a stretch of the file; neither atomic nor durable."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def read_cached(self, position: int, size: int) -> bytes | None:
        """The same, or None where it would have to wait for the device."""
        ...

    def sync(self) -> None: ...

    def truncate(self, size: int) -> None: ...


class Disk(Protocol):
    """A directory tree."""

    def open(self, path: str, *, create: bool = False, spare: bool = False) -> File:
        """`spare`: where the system has no descriptor left, one that is held back is used."""
        ...

    def read_file(self, path: str) -> bytes | None:
        """A small file's bytes, or None if it is not there."""
        ...

    def write_file(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replaces a small file whole, or not at all. Durable: it is there after a power cut."""
        ...

    def write_at(self, path: str, position: int, data: bytes) -> None:
        """Overwrites a stretch of a small file, made if need be; neither atomic nor durable."""
        ...

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted; none if it is not there."""
        ...

    def is_dir(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def make_dirs(self, path: str) -> None:
        """Makes a directory and its parents; durable only after `sync_dir` of each parent."""
        ...

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None:
        """Removes a file; nothing happens if it is not there."""
        ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None: ...

    def usage(self) -> Usage: ...
