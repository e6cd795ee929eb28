"""A data directory from a backup, every byte compared with its checksum; and what of a backup is damaged."""

from __future__ import annotations

import os
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from goqueue.base.decoders import from_json
from goqueue.base.limits import MIB
from goqueue.cli.backup_directory import sync_directory, write_safely
from goqueue.cli.backup_place import TEMPORARY
from goqueue.cli.backup_store import BackupEntry, BackupStore, Manifest
from goqueue.cli.failures import Failed, Misused
from goqueue.log.data_dir import LOCK_FILE
from goqueue.log.private import FILE_MODE, make_private_dirs
from goqueue.log.snapshot import UNFINISHED

_NAMED_MAX: Final = 10
_SHARED_BYTES_MAX: Final = 64 * MIB
_SAFE_PATH: Final = re.compile(r"[^/\0]+(/[^/\0]+)*")


def damaged_files(store: BackupStore, manifest: Manifest, progress: Callable[[int], None]) -> list[str]:
    """Paths of the files of which something is damaged or missing. Each object is read once."""
    is_sound: dict[str, bool] = {}
    done = 0
    for file in manifest.files:
        for part in file.parts:
            if part.object not in is_sound:
                is_sound[part.object] = store.get(part.object) is not None
            done += part.size
        progress(done)
    return [file.path for file in manifest.files if not all(is_sound[part.object] for part in file.parts)]


def refuse_damaged(name: str, damaged: list[str]) -> None:
    if damaged:
        shown = "".join(f"\n  {path}" for path in damaged[:_NAMED_MAX])
        rest = f"\n  and {len(damaged) - _NAMED_MAX} more" if len(damaged) > _NAMED_MAX else ""
        raise Failed(f"The backup {name} is damaged; {len(damaged)} of its files cannot be restored:{shown}{rest}")


class Restore:
    """Into a directory that is empty, or that an interrupted restore left. No node starts there until it is whole."""

    def __init__(self, store: BackupStore, data: Path, progress: Callable[[int], None]) -> None:
        self._data = data
        self._progress = progress
        self._objects = _SharedObjects(store)
        self._done = 0

    def run(self, name: str, manifest: Manifest, finish: Callable[[], None]) -> None:
        """`finish` does what is left when all files are there."""
        self._check_empty(name)
        make_private_dirs(self._data)
        write_safely(self._data / UNFINISHED, f"{name}\n".encode())
        sync_directory(self._data)
        sync_directory(self._data.absolute().parent)
        self._objects.expect(manifest.files)
        directories = {self._data}
        for file in manifest.files:
            directories |= self._write(name, file)
        for directory in sorted(directories, reverse=True):
            sync_directory(directory)
        finish()
        (self._data / UNFINISHED).unlink()
        sync_directory(self._data)

    def _check_empty(self, name: str) -> None:
        found = {path.name for path in self._data.iterdir()} if self._data.exists() else set()
        if UNFINISHED in found:
            self._check_same(name)
        elif found - {LOCK_FILE, "lost+found", f"{UNFINISHED}{TEMPORARY}"}:
            raise Misused(f"{self._data} is not empty. Restore into a new directory, or move what is there away.")

    def _check_same(self, name: str) -> None:
        begun = (self._data / UNFINISHED).read_text(errors="replace").strip()
        if begun != name:
            raise Misused(
                f"{self._data} has the beginning of the backup {begun}, and not of {name}. Go on with "
                f"--backup {begun}, or restore {name} into a new directory."
            )

    def _write(self, name: str, file: BackupEntry) -> set[Path]:
        if not _SAFE_PATH.fullmatch(file.path) or ".." in file.path.split("/"):
            raise Failed(f"The backup {name} names a file outside of the data directory: {file.path!r}.")
        path = self._data / file.path
        make_private_dirs(path.parent)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        with os.fdopen(fd, "wb") as out:
            for data in self._contents(name, file):
                out.write(data)
            out.flush()
            os.fsync(fd)
        self._done += file.size_bytes
        self._progress(self._done)
        return {path.parents[depth] for depth in range(len(Path(file.path).parts))}

    def metadata(self, name: str, file: BackupEntry) -> dict[str, str]:
        """Of several nodes, by key."""
        return from_json(b"".join(self._contents(name, file)), dict[str, str])

    def _contents(self, name: str, file: BackupEntry) -> Iterator[memoryview]:
        for part in file.parts:
            data = self._objects.get(part.object)
            if data is None or part.position + part.size > len(data):
                refuse_damaged(name, [file.path])
                raise AssertionError("refused")
            yield memoryview(data)[part.position : part.position + part.size]


class _SharedObjects:
    """Objects that are needed again, the last used of them: small files share one, also with those far from them."""

    def __init__(self, store: BackupStore) -> None:
        self._store = store
        self._uses: Counter[str] = Counter()  # to come
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size_bytes = 0

    def expect(self, files: Sequence[BackupEntry]) -> None:
        self._uses.update(part.object for file in files for part in file.parts)

    def get(self, name: str) -> bytes | None:
        """None if it is damaged or missing."""
        data = self._kept.pop(name, None)
        if data is None:
            data = self._store.get(name)
        else:
            self._size_bytes -= len(data)
        self._uses[name] -= 1
        if data is not None and self._uses[name] > 0:
            self._keep(name, data)
        return data

    def _keep(self, name: str, data: bytes) -> None:
        self._kept[name] = data
        self._size_bytes += len(data)
        while self._size_bytes > _SHARED_BYTES_MAX:
            _, oldest = self._kept.popitem(last=False)
            self._size_bytes -= len(oldest)
