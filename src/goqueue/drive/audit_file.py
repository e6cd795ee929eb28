"""The file of the audit log: lines are appended; when it is large it is moved aside and a new one begins."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_KEPT: Final = 5  # files that were moved aside: `audit.log.1` is the newest
_PRIVATE: Final = 0o600


class AuditFile:
    """Blocks: to be used off the loop."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._bytes_max = bytes_max

    def append(self, lines: Sequence[bytes]) -> None:
        with self._lock:
            self._append(b"".join(lines))

    def _append(self, data: bytes) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            if os.fstat(file).st_size >= self._bytes_max:
                self._rotate_once(file)
        finally:
            os.close(file)

    def _rotate_once(self, file: int) -> None:
        """Of several processes that write the same file and find it large, one moves it aside."""
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            is_there = os.path.samestat(self._path.stat(), os.fstat(file))
        except FileNotFoundError:
            return
        if is_there:
            self._rotate()

    def _rotate(self) -> None:
        for number in range(_KEPT - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
