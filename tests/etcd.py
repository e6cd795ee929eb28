"""An etcd for tests: from `ETCD` or the path, or built once into the cache where Go is at hand."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from goqueue.cli.etcd_program import EtcdMissing, etcd_command, find_etcd
from tests.waiting import wait_until


def etcd_program() -> Path:
    """Skips the test where none can be had."""
    try:
        return find_etcd()
    except EtcdMissing as error:
        pytest.skip(error.message)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class EtcdMember:
    """One process, which can be killed, stopped in the middle, and started again on what it kept."""

    def __init__(
        self, directory: Path, name: str, peers: Mapping[str, str], flags: Sequence[str], scheme: str = "http"
    ) -> None:
        self.client = f"127.0.0.1:{free_port()}"
        self._log = directory / f"{name}.log"
        client = f"{scheme}://{self.client}"
        self._command = etcd_command(etcd_program(), directory / name, client, peers, name, flags)
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
    peers = {f"m{number}": f"http://127.0.0.1:{free_port()}" for number in range(count)}
    members = [EtcdMember(directory, name, peers, flags, scheme) for name in peers]
    try:
        for member in members:
            member.start()
        for member in members:
            wait_until(member.listens, f"etcd did not start: {directory}", seconds=60)
        yield members
    finally:
        for member in members:
            member.kill()
