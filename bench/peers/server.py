"""A peer's server as a plain process: data below a scratch directory, a free port, gone when the block is left."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

START_SECONDS = 180.0  # a busy machine is slow


class PeerMissing(Exception):
    """The peer is not installed here; the benchmark says so and goes on."""


def program(*places: str) -> str:
    """The first of these programs that exists, by name or by path."""
    for place in places:
        if found := shutil.which(place):
            return found
    raise PeerMissing(f"{places[0]} is not installed")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


class Server:
    """One process and all it starts."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.port = port
        self._process = process

    def cpu_seconds(self) -> float:
        """Of the whole process group, since some servers are more than one process."""
        ticks = sum(int(fields[11]) + int(fields[12]) for _, fields in self._group())
        return ticks / os.sysconf("SC_CLK_TCK")

    def pids(self) -> list[int]:
        return [pid for pid, _ in self._group()]

    def _group(self) -> Iterator[tuple[int, list[str]]]:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self._process.pid:
                yield int(stat.parent.name), fields

    def is_open_in(self, seconds: float) -> bool:
        """Waits until the port answers; False if it does not, or the process ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._process.poll() is None:
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", self.port)) == 0:
                    return True
            time.sleep(0.1)
        return False


@contextmanager
def serve(command: Sequence[str], port: int, home: Path, environ: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Yields when the port answers. At the end, also after an error, the whole process group is killed."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "output").open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=home,
            env={**os.environ, **(environ or {})},
            process_group=0,
        )
    server = Server(process, port)
    try:
        if not server.is_open_in(START_SECONDS):
            said = (home / "output").read_text(errors="replace")[-2_000:]
            raise RuntimeError(f"{command[0]} did not start:\n{said}")
        yield server
    finally:
        with suppress(ProcessLookupError):  # it ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
