"""Spark jobs in a session of their own, so that any part of one can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType


def free_address() -> str:
    """Where a node can be told to listen, before and after it was killed."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return f"127.0.0.1:{found.getsockname()[1]}"


class Victim:
    """`python -m module arguments`, with all that it starts; gone when the block is left."""

    def __init__(self, log: Path, module: str, *arguments: str) -> None:
        self._log = log
        with log.open("a") as out:
            self._begin = out.tell()
            command = [sys.executable, "-m", module, *arguments]
            self.process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    @property
    def told(self) -> str:
        """The end of what it printed."""
        return self._log.read_text(errors="replace")[-4000:]

    @property
    def last_line(self) -> str:
        """Of this process, and not of one before it."""
        lines = self._log.read_bytes()[self._begin :].decode(errors="replace").splitlines()
        return lines[-1] if lines else ""

    def has_said(self, line: str) -> bool:
        """Whether it printed that line, and not one before it that wrote to the same log."""
        return line.encode() in self._log.read_bytes()[self._begin :].splitlines()

    def kill_driver(self) -> None:
        """The Python process alone; its JVM notices by itself, while the next one starts already."""
        self.process.kill()
        self.process.wait()

    def kill_all(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_worker(self) -> None:
        """One of the processes that run tasks, if there is one; Spark tries the task again."""
        for found in Path("/proc").iterdir():
            if found.name.isdecimal() and self._is_worker(found):
                os.kill(int(found.name), signal.SIGKILL)
                return

    def _is_worker(self, found: Path) -> bool:
        try:
            is_python = b"pyspark.daemon\0pyspark.worker" in (found / "cmdline").read_bytes()  # not one that plans
            return is_python and os.getsid(int(found.name)) == self.process.pid
        except OSError:
            return False

    def __enter__(self) -> Victim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_over:
            self.kill_all()
