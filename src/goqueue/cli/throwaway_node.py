"""A node for a short while: on free ports of this machine, with data that is gone afterwards."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from goqueue.cli.failures import Failed

PROGRAM: Final = (sys.executable, "-c", "from goqueue.cli import main; main()")
_START_S_MAX: Final = 120.0
_STOP_S_MAX: Final = 30.0


def plain_environ() -> Mapping[str, str]:
    """Without settings of other nodes and contexts."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}


@contextmanager
def throwaway_node() -> Iterator[str]:
    """The URL of its REST door."""
    with tempfile.TemporaryDirectory(prefix="goqueue-demo-") as folder:
        doors = ("--rest", "127.0.0.1:0", "--kafka", "off", "--sqs", "off", "--grpc", "off")
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                [*PROGRAM, "serve", "--data", f"{folder}/data", *doors],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=plain_environ(),
                start_new_session=True,
            )
        try:
            yield _url_of(process, Path(folder) / "log")
        finally:
            _end(process)


def _url_of(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    told, deadline = b"", time.monotonic() + _START_S_MAX
    while b"Ready" not in told:
        left = deadline - time.monotonic()
        part = (
            os.read(process.stdout.fileno(), 4096) if select.select([process.stdout], [], [], max(0, left))[0] else b""
        )
        if not part:
            raise Failed(
                f"The node did not start: {log.read_text('utf-8', 'replace').strip()[-500:] or 'no word of it'}"
            )
        told += part
    found = re.search(rb"REST\s+(http://\S+)", told)
    assert found is not None
    return found[1].decode()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
