"""The program, run inside the tests or as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from unittest.mock import patch

from click.testing import CliRunner, Result

from goqueue.cli import app

COMMAND = [sys.executable, "-c", "from goqueue.cli import main; main()"]


def goqueue(
    *arguments: str,
    server: str | None = "http://127.0.0.1:1",
    stdin: bytes | str | None = None,
    answers: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Result:
    """Runs a command; port 1 is where nobody listens. `answers` is what a person at a terminal types."""
    environ = {"GOQUEUE_SERVER": server, **(env or {})}
    with patch("goqueue.cli.asking.is_interactive", lambda: answers is not None):
        given = stdin if answers is None else answers
        return CliRunner().invoke(app, list(arguments), input=given, env=environ, prog_name="goqueue")


def process(*arguments: str, server: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "GOQUEUE_SERVER": server},
    )
