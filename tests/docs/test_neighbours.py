"""A test that fails fails alone: what it leaves behind is its own, and how the tests were started does not matter."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

LEAKS = """
import gc
import socket

pytest_plugins = ["tests.conftest"]


class Knot:
    def __init__(self):
        self.itself, self.open = self, socket.socket()


def test_leaves_a_socket_open():
    Knot()


def test_is_innocent():
    gc.collect()
"""

INTERRUPTS = """
import signal
import subprocess
import sys

pytest_plugins = ["tests.conftest"]
CODE = "import sys, signal; print('up', flush=True); signal.pause()"


def test_interrupts_a_process():
    with subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in process.communicate()[1]
"""


def run(folder: Path, code: str, before: Callable[[], object] | None = None) -> str:
    (folder / "test_inner.py").write_text(code)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "pyproject.toml", "--rootdir", "."]
    return subprocess.run([*command, "-q", str(folder)], capture_output=True, text=True, preexec_fn=before).stdout


def test_what_a_test_leaves_open_is_its_own_failure(tmp_path: Path) -> None:
    said = run(tmp_path, LEAKS)
    assert "ERROR test_inner.py::test_leaves_a_socket_open" in said, said
    assert "ResourceWarning: unclosed" in said
    assert "2 passed, 1 error" in said


def test_processes_can_be_interrupted_where_the_tests_were_started_in_the_background(tmp_path: Path) -> None:
    said = run(tmp_path, INTERRUPTS, lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert "1 passed" in said, said
