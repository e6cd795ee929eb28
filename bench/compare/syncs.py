"""Whether a system syncs before it acknowledges: its system calls are watched while single messages are sent.

Each message is sent when the one before is acknowledged. A sync that makes it safe begins after it was sent, and ends
before it is acknowledged; where there is none in between, the acknowledgement did not wait for the disk.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.compare.model import CheckFailed
from bench.peers.server import PeerMissing

SINGLES: Final = 20
CALLS: Final = "fsync,fdatasync,msync,syncfs,sync"
_ATTACH_S: Final = 60.0
_FLUSH_S: Final = 10.0

Span = tuple[float, float]  # from and to, by the clock of the day
# What strace tells of a call: its thread, when it began or was resumed, what it returned, and how long it took.
_CALL: Final = re.compile(r"^(?:\d+ +)?(\d+\.\d+) (<\.\.\. )?\w+(?:\(| resumed>).* = 0 <(\d+\.\d+)>$", re.MULTILINE)


def require_syncs(pids: Sequence[int], send: Callable[[int], list[Span]]) -> None:
    """`send` sends so many single messages, and says of each when it was sent and when it was acknowledged."""
    with watched(pids) as told:
        sent = send(SINGLES)
    require_one_in_each(sent, list(spans(told[0])))


def require_one_in_each(sent: Sequence[Span], syncs: Sequence[Span]) -> None:
    unsafe = [
        number for number, (due, acked) in enumerate(sent) if not any(due <= one and end <= acked for one, end in syncs)
    ]
    if unsafe:
        raise CheckFailed(
            f"{len(unsafe)} of {len(sent)} messages were acknowledged before they were synced, {unsafe[0]} the first "
            f"of them; {len(syncs)} syncs were seen"
        )


def spans(told: str) -> Iterator[Span]:
    """Syncs that succeeded. A call with another beside it is told in two lines, the second at its end."""
    for moment, resumed, spent in _CALL.findall(told):
        began = float(moment) - (float(spent) if resumed else 0.0)
        yield began, began + float(spent)


@contextmanager
def watched(pids: Sequence[int]) -> Iterator[list[str]]:
    """What strace tells of these processes and all their threads is in the list when the block is left."""
    if (program := shutil.which("strace")) is None:
        raise PeerMissing("strace is not installed, so that nobody sees whether it syncs")
    found: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        told, said = Path(folder) / "calls", Path(folder) / "said"
        command = [program, "-f", "-ttt", "-T", "-e", f"trace={CALLS}", "-e", "signal=none", "-o", str(told)]
        with said.open("wb") as output:
            process = subprocess.Popen([*command, *_each(pids)], stdout=output, stderr=output)
        try:
            _wait_attached(process, said, pids)
            yield found
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_FLUSH_S)
        found.append(told.read_text())


def _each(pids: Sequence[int]) -> Iterator[str]:
    for pid in pids:
        yield from ("-p", str(pid))


def _wait_attached(process: subprocess.Popen[bytes], said: Path, pids: Sequence[int]) -> None:
    until = time.monotonic() + _ATTACH_S
    while not all(_is_traced(pid, process.pid) for pid in pids):
        if process.poll() is not None or time.monotonic() > until:
            last = said.read_text().strip().splitlines()[-1:]
            raise PeerMissing(f"strace cannot watch it, so that nobody sees whether it syncs: {' '.join(last)}")
        time.sleep(0.01)


def _is_traced(pid: int, by: int) -> bool:
    """Every thread of it."""
    try:
        threads = Path(f"/proc/{pid}/task").iterdir()
        return all(f"TracerPid:\t{by}\n" in (one / "status").read_text() for one in threads)
    except OSError:  # a thread that ended meanwhile
        return False
