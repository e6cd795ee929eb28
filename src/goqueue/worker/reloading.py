"""Development: a worker that starts again when a file of the program changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.5
_SKIPPED: Final = frozenset({".git", ".venv", "node_modules", "__pycache__"})


def watch_and_restart(arguments: Sequence[str], folder: Path) -> int:
    """Runs the same command again and again; ends with it when it is told to stop."""
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda found, frame: stopping.append(found))
    while True:
        before = snapshot(folder)
        process = _start(arguments)
        while process.poll() is None and not stopping and snapshot(folder) == before:
            time.sleep(_LOOK_SECONDS)
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        code = process.wait()
        if stopping:
            return code
        while (now := snapshot(folder)) == before and not stopping:  # it ended by itself: a mistake in a file
            time.sleep(_LOOK_SECONDS)
        _forget_compiled(path for path, written in now.items() if before.get(path) != written)
        print("a file changed; the worker starts again", file=sys.stderr)


def snapshot(folder: Path) -> dict[str, int]:
    """When each Python file below the folder was last written."""
    found: dict[str, int] = {}
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(root, name)  # noqa: PTH118 (many files, twice a second)
                try:
                    found[path] = os.stat(path).st_mtime_ns  # noqa: PTH116
                except OSError:
                    continue
    return found


def _forget_compiled(paths: Iterable[str]) -> None:
    """Whoever compiled them: Python takes that for current if the source had the same size in the same second."""
    for path in paths:
        with suppress(OSError):
            Path(cache_from_source(path)).unlink()


def _start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Writes no compiled files, which could be of a source that changes in the same second."""
    command = [sys.executable, "-B", "-c", "from goqueue.cli import main; main()", *arguments[1:]]
    return subprocess.Popen(command, env={**os.environ, "GOQUEUE_WORKER_CHILD": "1"})
