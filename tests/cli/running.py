"""The program, run inside the tests or as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from click.testing import CliRunner, Result

from goqueue.cli import app

COMMAND = [sys.executable, "-c", "from goqueue.cli import main; main()"]


def goqueue(*arguments: str, server: str = "http://127.0.0.1:1", stdin: bytes | str | None = None) -> Result:
    """Runs a command; port 1 is where nobody listens."""
    return CliRunner().invoke(app, list(arguments), input=stdin, env={"GOQUEUE_SERVER": server}, prog_name="goqueue")


def process(*arguments: str, server: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "GOQUEUE_SERVER": server},
    )
