"""Workers of tests: an app in a file of its own, and `goqueue worker` in a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import uuid
from pathlib import Path
from types import TracebackType
from typing import Any

from goqueue.worker import App
from goqueue.worker.finding import find_app

_HEAD = """
import asyncio, os, signal, time
from pathlib import Path
from time import sleep
import goqueue
from goqueue import App, Middleware, Reject, Retry, chain, chord, group
from goqueue.worker import current

FOLDER = Path({folder!r})
app = App({url!r}, name={name!r}, lease={lease!r})

def note(text):
    with (FOLDER / "notes").open("a") as file:
        file.write(str(text) + "\\n")
"""


class Program:
    """A module with an app, for this process and for workers. What tasks `note` is in `notes`, in order."""

    def __init__(self, folder: Path, url: str | list[str], code: str, *, lease: str = "30s", name: str = "") -> None:
        self.folder = folder
        self.module = f"program_{uuid.uuid4().hex}"
        head = _HEAD.format(folder=str(folder), url=url, name=name or f"app-{uuid.uuid4().hex[:8]}", lease=lease)
        (folder / f"{self.module}.py").write_text(head + textwrap.dedent(code))
        sys.path.insert(0, str(folder))
        try:
            self.app: App = find_app(self.module)
            self.loaded: Any = sys.modules[self.module]
        finally:
            sys.path.remove(str(folder))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loaded, name)

    @property
    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def has_noted(self, line: str) -> bool:
        return line in self.notes

    def worker(self, *flags: str) -> WorkerProcess:
        return WorkerProcess(self, *flags)


class WorkerProcess:
    """`with program.worker():` runs one until the block is left."""

    def __init__(self, program: Program, *flags: str) -> None:
        self._program = program
        self._flags = flags
        self._process: subprocess.Popen[str] | None = None
        self.output = ""

    def start(self, *, wait: bool = True) -> WorkerProcess:
        command = [
            sys.executable,
            "-c",
            "from goqueue.cli import main; main()",
            "worker",
            f"{self._program.module}:app",
        ]
        self._process = subprocess.Popen(
            [*command, *self._flags],
            cwd=self._program.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        if wait:
            self._wait_until_ready()
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        return self

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line
            if line.startswith("Ready"):
                return
        raise RuntimeError(f"the worker did not start:\n{self.output}")

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.output += line

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(120)

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> WorkerProcess:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGTERM)
            code = self.wait()
            print(self.output)
            assert code == 0
