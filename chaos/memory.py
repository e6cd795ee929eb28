"""A limit on how much more memory a process may take, by a control group."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# Version 1 of control groups, and version 2; the file that has the limit.
_PLACES: Final = ((Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max"))


def no_memory_limits() -> str:
    """Why there are none here."""
    if os.geteuid() != 0:
        return "a limit on memory needs root"
    return "" if _place() else "a limit on memory needs the memory controller of control groups"


def _place() -> tuple[Path, str] | None:
    for root, name in _PLACES:
        tried = root / f"goqueue-chaos-try-{os.getpid()}"
        try:
            tried.mkdir()
        except OSError:
            continue
        has_limit = (tried / name).exists()
        tried.rmdir()
        if has_limit:
            return root, name
    return None


class MemoryLimit:
    """What a process has already is not counted: only what it takes from now on."""

    def __init__(self, pid: int, more_bytes: int) -> None:
        found = _place()
        assert found is not None
        self._root, name = found
        self._pid = pid
        self._group = self._root / f"goqueue-chaos-{pid}"
        self._group.mkdir()
        (self._group / name).write_text(str(more_bytes))
        (self._group / "cgroup.procs").write_text(str(pid))

    def lift(self) -> None:
        with suppress(OSError):  # the process is gone
            (self._root / "cgroup.procs").write_text(str(self._pid))
        with suppress(OSError):  # it is still ending, and in there
            self._group.rmdir()
