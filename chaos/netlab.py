"""Hosts in network namespaces on one switch, whose links can be cut, slow or lossy, one way or both. Root only.

A direction is cut by a neighbour entry that sends packets to an address which nobody has: nothing tells the sender.
A slow one goes to the address of a program beside the switch, which passes packets on when their time has come.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from bench.etcd_process import Host
from chaos.slow_link import SLOW_ADDRESS, LinkQuality, SlowLink

_NOWHERE: Final = "02:00:00:00:00:fe"


def no_lab() -> str:
    """Why namespaces cannot be made here; nothing where they can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and iproute2"
    name = f"gq-try{os.getpid()}"
    made = _ip("netns", "add", name)
    _ip("netns", "del", name)
    return f"network namespaces cannot be made here: {made.stderr.strip()}" if made.returncode else ""


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30)


def _must(*words: str) -> None:
    done = _ip(*words)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr}")


class NetLab:
    """Host n has the address `.n+1`; whoever made the lab reaches all of them, and is never cut off."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._mark = os.getpid() % 10_000
        self._net = f"10.{200 + self._mark % 50}.{self._mark // 50}"
        self._bent: set[tuple[int, int]] = set()  # directions with a neighbour entry of ours
        self._slow: SlowLink | None = None

    def host(self, number: int) -> Host:
        return Host(self._address(number), ("ip", "netns", "exec", self._name(number)))

    def hosts(self, numbers: Sequence[int]) -> list[Host]:
        return [self.host(number) for number in numbers]

    def _address(self, number: int) -> str:
        return f"{self._net}.{number + 1}"

    def _name(self, number: int) -> str:
        return f"gq{self._mark}-{number}"

    @property
    def _switch(self) -> str:
        return f"gq{self._mark}-sw"

    @property
    def _own(self) -> str:
        return f"gq{self._mark}"

    def up(self) -> None:
        _must("netns", "add", self._switch)
        _must("-n", self._switch, "link", "add", "name", "gqbr", "type", "bridge")
        _must("-n", self._switch, "link", "set", "gqbr", "up")
        for number in range(self._count):
            name = self._name(number)
            _must("netns", "add", name)
            peer = "peer", "name", "eth0", "netns", name
            _must("link", "add", "name", f"p{number}", "netns", self._switch, "type", "veth", *peer)
            _must("-n", name, "addr", "add", f"{self._address(number)}/24", "dev", "eth0")
            _must("-n", name, "link", "set", "eth0", "address", _link_address(number))
            for device in ("eth0", "lo"):
                _must("-n", name, "link", "set", device, "up")
            _must("-n", self._switch, "link", "set", f"p{number}", "master", "gqbr", "up")
        _must("link", "add", "name", self._own, "type", "veth", "peer", "name", "own", "netns", self._switch)
        _must("-n", self._switch, "link", "set", "own", "master", "gqbr", "up")
        _must("addr", "add", f"{self._net}.254/24", "dev", self._own)
        _must("link", "set", self._own, "up")

    def down(self) -> None:
        if self._slow is not None:
            self._slow.close()
        for name in (*map(self._name, range(self._count)), self._switch):
            _ip("netns", "del", name)
        _ip("link", "del", self._own)

    # --- cuts ----------------------------------------------------------------------------------------------------

    def cut(self, sender: int, receiver: int) -> None:
        """What one sends does not reach the other."""
        self._lead(sender, receiver, _NOWHERE)

    def part(self, some: Iterable[int], others: Collection[int]) -> None:
        """Nobody of the ones reaches anybody of the others, nor the other way round."""
        for one in some:
            for other in others:
                self.cut(one, other)
                self.cut(other, one)

    def slow(self, sender: int, receiver: int, quality: LinkQuality) -> None:
        """What one sends comes late to the other, or not at all now and then."""
        if self._slow is None:
            self._slow = SlowLink(self._switch, self._addresses())
        self._slow.set(self._address(receiver), quality)
        self._lead(sender, receiver, SLOW_ADDRESS)

    def _lead(self, sender: int, receiver: int, link_address: str) -> None:
        self._bent.add((sender, receiver))
        place = self._address(receiver), "lladdr", link_address, "dev", "eth0", "nud", "permanent"
        _must("-n", self._name(sender), "neigh", "replace", *place)

    def heal(self) -> None:
        for sender, receiver in self._bent:
            _ip("-n", self._name(sender), "neigh", "del", self._address(receiver), "dev", "eth0")
        self._bent.clear()

    def _addresses(self) -> dict[str, str]:
        """Of the network, with those of the link."""
        return {self._address(number): _link_address(number) for number in range(self._count)}


def _link_address(number: int) -> str:
    return f"02:00:00:00:01:{number + 1:02x}"


@contextmanager
def net_lab(count: int) -> Iterator[NetLab]:
    lab = NetLab(count)
    try:
        lab.up()
        yield lab
    finally:
        lab.down()
