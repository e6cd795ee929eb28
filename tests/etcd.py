"""An etcd for tests: from `ETCD` or the path, or built once into the cache where Go is at hand."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import wait_until

VERSION = "3.6.16"
PROGRAM = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""


def etcd_program() -> Path:
    """Skips the test where none can be had."""
    if named := os.environ.get("ETCD"):
        return Path(named)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "goqueue"
    built = cache / f"etcd-{VERSION}"
    if not built.exists():
        go = shutil.which("go")
        if go is None:
            pytest.skip("needs etcd: name one with ETCD=..., or install Go")
        _build(go, cache / f"building-{os.getpid()}", built)
    return built


def _build(go: str, work: Path, target: Path) -> None:
    work.mkdir(parents=True)
    (work / "main.go").write_text(PROGRAM)
    for command in (
        ["mod", "init", "etcd"],
        ["get", f"go.etcd.io/etcd/server/v3@v{VERSION}"],
        ["build", "-trimpath", "-ldflags=-s -w", "-o", "etcd", "."],
    ):
        done = subprocess.run([go, *command], cwd=work, capture_output=True, text=True, timeout=900)
        if done.returncode:
            shutil.rmtree(work)
            pytest.skip(f"etcd could not be built: {done.stderr[-500:]}")
    (work / "etcd").replace(target)
    shutil.rmtree(work)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class EtcdMember:
    """One process, which can be killed, stopped in the middle, and started again on what it kept."""

    def __init__(self, directory: Path, name: str, peers: dict[str, int], *flags: str, scheme: str = "http") -> None:
        self.client = f"127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{peers[name]}"
        self._log = directory / f"{name}.log"
        self._command = [
            str(etcd_program()),
            f"--name={name}",
            f"--data-dir={directory / name}",
            f"--listen-client-urls={scheme}://{self.client}",
            f"--advertise-client-urls={scheme}://{self.client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            "--initial-cluster=" + ",".join(f"{one}=http://127.0.0.1:{port}" for one, port in peers.items()),
            "--heartbeat-interval=50",
            "--election-timeout=500",
            "--log-level=error",
            *flags,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def listens(self) -> bool:
        host, _, port = self.client.rpartition(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0


@contextmanager
def etcd_members(directory: Path, count: int = 1, *flags: str, scheme: str = "http") -> Iterator[list[EtcdMember]]:
    peers = {f"m{number}": free_port() for number in range(count)}
    members = [EtcdMember(directory, name, peers, *flags, scheme=scheme) for name in peers]
    try:
        for member in members:
            member.start()
        for member in members:
            wait_until(member.listens, f"etcd did not start: {directory}", seconds=60)
        yield members
    finally:
        for member in members:
            member.kill()
