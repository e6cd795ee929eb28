"""A program in a real terminal: tmux runs it, types, and reads the screen."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.running import COMMAND
from tests.waiting import wait_until

DEADLINE_S = 60.0


class Terminal:
    """One window of a tmux of the test's own."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments], capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout

    def type(self, *keys: str) -> None:
        """Names like `Enter`, `Right`, `Escape`, or text."""
        for key in keys:
            self.tmux("send-keys", "-t", "0", key)

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "0")

    def wait_for(self, *texts: str, gone: str | None = None) -> str:
        """The screen that has all of these, and not that one."""

        def seen() -> str | None:
            screen = self.screen()
            return screen if all(text in screen for text in texts) and (gone is None or gone not in screen) else None

        return wait_until(seen, lambda: f"{texts} without {gone!r}; the screen:\n{self.screen()}", DEADLINE_S) or ""


@contextmanager
def terminal(
    folder: Path,
    arguments: Sequence[str],
    env: Mapping[str, str],
    width: int = 110,
    height: int = 30,
    command: Sequence[str] = COMMAND,
) -> Iterator[Terminal]:
    """Runs `goqueue ARGUMENTS` (or another command) and then says how it ended: `ended with 0`."""
    if shutil.which("tmux") is None:
        pytest.skip("this test needs tmux")
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
    program = shlex.join([*command, *arguments])
    shown = Terminal(folder / "tmux")
    line = f"env -u COLUMNS -u LINES {given} {program}; echo ended with $?; sleep {DEADLINE_S:.0f}"
    session = ["new-session", "-d", "-x", str(width), "-y", str(height), f"bash -c {shlex.quote(line)}"]
    subprocess.run(
        ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null", *session],
        env={**os.environ, "LANG": "C.UTF-8", "TERM": "xterm-256color"},
        check=True,
        timeout=20,
    )
    try:
        yield shown
    finally:
        shown.tmux("kill-server")
