"""Real members of etcd in processes of their own, for benchmarks and tests."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from goqueue.cli.cluster_dir import HOST, free_ports
from goqueue.cli.etcd_program import etcd_command, find_etcd

_START_S_MAX = 60.0


class Host(NamedTuple):
    """Where a process runs: the address that it listens at, and a program that runs it there, if it needs one."""

    address: str = HOST
    under: tuple[str, ...] = ()


class EtcdMember:
    """One process, which can be killed, stopped in the middle, and started again on what it kept."""

    def __init__(
        self,
        directory: Path,
        name: str,
        at: tuple[Host, int],
        peers: Mapping[str, str],
        flags: Sequence[str],
        scheme: str = "http",
    ) -> None:
        """`at` is its host and the port for its clients."""
        host, port = at
        self.client = f"{host.address}:{port}"
        self._log = directory / f"{name}.log"
        url = f"{scheme}://{self.client}"
        self._command = [*host.under, *etcd_command(find_etcd(), directory / name, url, peers, name, flags)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    @property
    def is_running(self) -> bool:
        return self._process is not None

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

    def wait_listens(self) -> None:
        deadline = time.monotonic() + _START_S_MAX
        while not self.listens():
            if time.monotonic() > deadline:
                raise RuntimeError(f"etcd did not start: {self._log.read_text()}")
            time.sleep(0.02)


@contextmanager
def etcd_members(
    directory: Path, count: int = 1, *flags: str, scheme: str = "http", hosts: Sequence[Host] = ()
) -> Iterator[list[EtcdMember]]:
    """`EtcdMissing` where none can be had. `hosts` are theirs, if not all are here."""
    first, hosts = free_ports(2 * count), hosts or [Host()] * count
    peers = {f"m{number}": f"http://{host.address}:{first + count + number}" for number, host in enumerate(hosts)}
    members = [
        EtcdMember(directory, name, (hosts[number], first + number), peers, flags, scheme)
        for number, name in enumerate(peers)
    ]
    try:
        for member in members:
            member.start()
        for member in members:
            member.wait_listens()
        yield members
    finally:
        for member in members:
            member.kill()
