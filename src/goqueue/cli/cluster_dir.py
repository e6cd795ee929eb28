"""The directory of a cluster on one machine: `cluster.json` tells what runs there. One program at a time looks after
it; others ask that one to start a node."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.cli.failures import Failed

HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535
PORTS_PER_MEMBER: Final = 10  # etcd has the first ten, node 0 the next
_FIRST_PORT, _BLOCKS, _BLOCK_PORTS = 10_000, 100, 200  # below what systems give to outgoing connections
_PAUSE_S: Final = 0.05


class LocalProcess(msgspec.Struct, frozen=True):
    """A node, or a member of etcd. `pid` is None while it does not run."""

    id: int
    pid: int | None
    addresses: dict[str, str]


class ClusterFile(msgspec.Struct, frozen=True):
    """What `cluster.json` holds."""

    nodes: list[LocalProcess] = []
    etcd: list[LocalProcess] = []

    def node(self, number: int) -> LocalProcess:
        for one in self.nodes:
            if one.id == number:
                return one
        raise Failed(f"There is no node {number} here; there are {', '.join(str(one.id) for one in self.nodes)}.")


class ClusterDir:
    """Paths, and who may write."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.file = self.path / "cluster.json"
        self.secret = self.path / "secret"  # that the nodes prove to each other
        self._lock = self.path / "cluster.lock"

    def data_of(self, name: str) -> Path:
        return self.path / name

    def log_of(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def make_secret(self) -> None:
        """Once, for its owner alone."""
        with contextlib.suppress(FileExistsError):
            fd = os.open(self.secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w") as file:
                file.write(secrets.token_hex(32) + "\n")

    # --- what is known ---------------------------------------------------------------------------------------

    def read(self) -> ClusterFile:
        """Empty if nothing was started here yet."""
        try:
            return from_json(self.file.read_bytes(), ClusterFile)
        except FileNotFoundError:
            return ClusterFile()
        except msgspec.DecodeError as error:
            raise Failed(f"{self.file} cannot be read: {error}.") from None

    def write(self, known: ClusterFile) -> None:
        """Whole or not at all, for those who read it meanwhile."""
        new = self.file.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=2) + b"\n")
        new.replace(self.file)

    # --- who looks after it ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """For the one program that starts and stops what is here; the lock ends with the process."""
        self.path.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Failed(f"`goqueue cluster up` runs for {self.path} already; stop that one first.") from None
            yield
        finally:
            os.close(fd)

    def is_held(self) -> bool:
        try:
            fd = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
        except OSError:
            return True
        finally:
            os.close(fd)

    # --- nodes to be started -------------------------------------------------------------------------------------

    def ask_for(self, node: int) -> None:
        (self.path / f"node-{node}.start").touch()

    def asked_for(self) -> list[int]:
        """Each is told once."""
        found = []
        for path in self.path.glob("node-*.start"):
            path.unlink(missing_ok=True)
            if match := re.fullmatch(r"node-(\d+)\.start", path.name):
                found.append(int(match[1]))
        return found


def runs(pid: int | None, data: Path) -> bool:
    """Whether the process is there and works on this directory: numbers of processes are used again."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except ProcessLookupError:
        return False
    except OSError:
        return True  # a system without /proc, or a process of somebody else
    return str(data).encode() in command


def end(pid: int | None, data: Path, number: signal.Signals, within_s: float) -> bool:
    """Sends the signal and waits; whether the process is gone."""
    deadline = time.monotonic() + within_s
    if runs(pid, data):
        assert pid is not None
        os.kill(pid, number)
    while runs(pid, data):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody listens at. Others look elsewhere at the same time."""
    for step in range(_BLOCKS):
        first = _FIRST_PORT + (os.getpid() + step) % _BLOCKS * _BLOCK_PORTS
        if all(is_free(port) for port in range(first, first + count)):
            return first
    raise Failed(f"No {count} free ports in a row were found; name the first with --base-port.")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
