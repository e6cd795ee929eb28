"""A real cluster with handles for everything that can go wrong: its network, disks, clocks and memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from bench.cluster_process import ClusterProcess
from bench.etcd_process import Host
from chaos.faulty_node import DiskFaults, set_faults
from chaos.netlab import NetLab, net_lab, no_lab

NODES: Final = 3
ETCD: Final = 3
SPARE: Final = NODES  # the number of a node that comes and goes
_DISK_BYTES: Final = 256 << 20
_FILLS_MAX: Final = 20  # tries to make a disk as small as what is on it, while a node writes there
_FAKETIME: Final = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib/faketime/libfaketime.so.1")


class Field:
    """`etcd_hosts` are the numbers of hosts in the lab; without a lab everything is on loopback."""

    def __init__(self, root: Path, lab: NetLab | None, has_clocks: bool, bug: str = "") -> None:
        self.root = root
        self.lab = lab
        self.has_clocks = has_clocks
        self.has_disks = False  # of their own, with a size
        self.skew_ms = 0.0  # the furthest that a clock was set
        self._bug = bug
        for number in range(NODES + 1):
            set_faults(self._faults(number), DiskFaults())
            self._clock(number).write_text("+0s\n")
        self.cluster = ClusterProcess(root, NODES, ETCD if lab else 1, None, None, self._hosts(), self._programs())

    @property
    def place(self) -> str:
        return "network namespaces" if self.lab else "loopback"

    @property
    def etcd_hosts(self) -> range:
        """In the lab, behind the nodes and the spare one."""
        return range(NODES + 1, NODES + 1 + ETCD)

    def _hosts(self) -> tuple[Sequence[Host], Sequence[Host]]:
        numbers = range(NODES + 1)
        places = self.lab.hosts(numbers) if self.lab else [Host()] * len(numbers)
        nodes = [Host(one.address, (*one.under, *self._environ(number))) for number, one in enumerate(places)]
        return nodes, self.lab.hosts(self.etcd_hosts) if self.lab else ()

    def _environ(self, number: int) -> tuple[str, ...]:
        if not self.has_clocks:
            return ()
        file = f"FAKETIME_TIMESTAMP_FILE={self._clock(number)}"
        steady = "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1"
        return ("env", f"LD_PRELOAD={find_faketime()}", file, "FAKETIME_CACHE_DURATION=1", *steady)

    def _programs(self) -> list[str]:
        call = "from chaos.faulty_node import run; run({!r}, {!r})"
        return [call.format(str(self._faults(number)), self._bug) for number in range(NODES + 1)]

    def _faults(self, number: int) -> Path:
        return self.root / f"disk-faults-{number}"

    def _clock(self, number: int) -> Path:
        return self.root / f"clock-{number}"

    # --- handles -------------------------------------------------------------------------------------------------

    def set_disk(self, number: int, faults: DiskFaults) -> None:
        set_faults(self._faults(number), faults)

    def set_clock(self, number: int, offset_s: float) -> None:
        self._clock(number).write_text(f"{offset_s:+.3f}s\n")

    def mount_disks(self) -> None:
        """Each node's data on a disk of its own, which can be made too small."""
        for number in range(NODES):
            self.disk(number).mkdir(parents=True, exist_ok=True)
            _mount("-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "goqueue-chaos", str(self.disk(number)))
        self.has_disks = True

    def disk(self, number: int) -> Path:
        return self.root / f"node-{number}"

    def unmount_disks(self) -> None:
        for number in range(NODES):
            subprocess.run(["umount", "-l", str(self.disk(number))], capture_output=True, timeout=30)

    def fill_disk(self, number: int) -> None:
        """No byte more than what is on it, which may grow until it is."""
        for _ in range(_FILLS_MAX):
            with suppress(RuntimeError):
                self._shrink_disk(number)
                return
        self._shrink_disk(number)

    def _shrink_disk(self, number: int) -> None:
        room = os.statvfs(self.disk(number))
        used = (room.f_blocks - room.f_bfree) * room.f_frsize
        _mount("-o", f"remount,size={max(used, 4096)}", str(self.disk(number)))

    def empty_disk(self, number: int) -> None:
        _mount("-o", f"remount,size={_DISK_BYTES}", str(self.disk(number)))

    def heal(self) -> None:
        """The network and all processes; the cluster is whole when this returns."""
        if self.lab is not None:
            self.lab.heal()
        for number in self.cluster.running:
            if not self.cluster.nodes[number].is_alive:
                self.cluster.kill(number)  # it ended by itself, and is waited for
        self.cluster.heal()


def find_faketime() -> Path | None:
    return next((path for form in _FAKETIME for path in Path("/").glob(form.removeprefix("/"))), None)


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise RuntimeError(f"mount {' '.join(words)}: {done.stderr}")


def no_disks() -> str:
    """Why nodes cannot have disks of their own here."""
    return "" if os.geteuid() == 0 and shutil.which("mount") else "disks of a size of their own need root"


@contextmanager
def open_field(root: Path, *, has_clocks: bool, has_disks: bool, bug: str = "") -> Iterator[Field]:
    """In network namespaces where they can be made, else on loopback."""
    with ExitStack() as stack:
        lab = None if no_lab() else stack.enter_context(net_lab(NODES + 1 + ETCD))
        field = Field(root, lab, has_clocks, bug)
        if has_disks:
            stack.callback(field.unmount_disks)
            field.mount_disks()
        stack.enter_context(field.cluster)
        yield field
