"""Cheats planted in queues, tasks and synced logs are caught."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from bench import queue_load, tasks
from bench.compare.bodies import number_of
from bench.compare.model import CheckFailed
from bench.compare.syncs import Span, require_one_in_each, require_syncs, spans
from bench.peers.client import Handle, Taken
from bench.peers.server import PeerMissing
from bench.task_apps import GOQUEUE, MARK_EVERY, TaskPeer

# --- queues --------------------------------------------------------------------------------------------------------


class FakeQueue:
    """A queue in this process that may drop, double or damage message 7."""

    def __init__(self, cheat: str = "") -> None:
        self._cheat = cheat
        self._waiting: list[bytes] = []

    async def create(self) -> None: ...

    async def publish(self, bodies: Sequence[bytes]) -> None:
        for one in bodies:
            self._waiting += self._kept(one) if number_of(one) == 7 else [one]

    def _kept(self, one: bytes) -> list[bytes]:
        return {"": [one], "dropped": [], "doubled": [one, one], "damaged": [one[:-1] + b"y"]}[self._cheat]

    async def consumer(self) -> FakeQueue:
        return self

    async def take(self, limit: int, wait_ms: int) -> list[Taken]:
        await asyncio.sleep(0 if self._waiting else 0.001)
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        return [(one, 0) for one in taken]

    async def ack(self, handles: Sequence[Handle]) -> None: ...

    async def close(self) -> None: ...


async def _worked_off(cheat: str) -> dict[str, float]:
    queue = FakeQueue(cheat)
    await queue_load.fill(queue, 0, 200)
    return await queue_load.drain(queue, 2, 0, 200)


CHEATS = pytest.mark.parametrize(
    ("cheat", "message"),
    [("dropped", "1 messages never came, 7"), ("doubled", "message 7 came twice"), ("damaged", "damaged: b'00000007")],
)


@CHEATS
def test_a_work_queue_that_drops_doubles_or_damages_a_message_has_no_figure(
    monkeypatch: pytest.MonkeyPatch, cheat: str, message: str
) -> None:
    monkeypatch.setattr(queue_load, "DRAIN_S", 0.5)
    assert asyncio.run(_worked_off(""))["rate"] > 0
    with pytest.raises(CheckFailed, match=message):
        asyncio.run(_worked_off(cheat))


@CHEATS
def test_a_queue_that_drops_doubles_or_damages_a_message_on_its_trip_has_no_figure(
    monkeypatch: pytest.MonkeyPatch, cheat: str, message: str
) -> None:
    monkeypatch.setattr(queue_load, "PACED_S", 3.0)
    assert asyncio.run(queue_load.paced(FakeQueue(), 2, 100, 0.5))["p50"] >= 0
    with pytest.raises(CheckFailed, match=message):
        asyncio.run(queue_load.paced(FakeQueue(cheat), 2, 100, 0.5))


# --- tasks ---------------------------------------------------------------------------------------------------------

COUNT = 3 * MARK_EVERY


def worker(calls: str) -> TaskPeer:
    """That runs these tasks and then nothing."""
    code = f"import time, noop\nfor number in {calls}: noop.work(number)\ntime.sleep(600)"
    return msgspec.structs.replace(GOQUEUE, name="Cheat", worker=("python", "-c", code), count=COUNT)


def rate_of(peer: TaskPeer, home: Path) -> float:
    (home / "noop.py").write_text(peer.app.partition("from goqueue")[0])
    environ = {**os.environ, **tasks.notes(home, peer.count), "PYTHONPATH": str(home)}
    return tasks.measured(peer, home, environ, Path(sys.executable).parent)


def test_every_task_is_counted(tmp_path: Path) -> None:
    assert rate_of(worker(f"range({COUNT})"), tmp_path) > 0


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (f"[0, {MARK_EVERY}, {2 * MARK_EVERY}]", f"{COUNT - 3} of {COUNT} tasks never ran, 1 the first"),
        (f"[one for one in range({COUNT}) if one != 7]", f"1 of {COUNT} tasks never ran, 7 the first"),
        (f"[7, *range({COUNT})]", "1 tasks ran more than once, 7 the first"),
    ],
)
def test_a_framework_that_loses_or_doubles_a_task_has_no_figure(
    monkeypatch: pytest.MonkeyPatch, calls: str, message: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(tasks, "ROUND_SECONDS", 3.0)
    with pytest.raises(CheckFailed, match=message):
        rate_of(worker(calls), tmp_path)


# --- acknowledged before it is on the disk -------------------------------------------------------------------------

SERVER = """
import os, socket, sys, threading
how, place = sys.argv[1:]
file = os.open(place, os.O_WRONLY | os.O_CREAT)
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
line, _ = listening.accept()
sync = lambda: os.fdatasync(file)
number = 0
while line.recv(1):
    os.write(file, b"x" * 100)
    number += 1
    if how == "before" or (how == "every-other" and number % 2):
        at = threading.Thread(target=sync)  # as a pool of threads would
        at.start()
        at.join()
    line.sendall(b"a")
    if how == "after":
        sync()
        line.sendall(b"b")
"""


@contextmanager
def server(how: str, tmp_path: Path) -> Iterator[tuple[int, socket.socket]]:
    command = [sys.executable, "-c", SERVER, how, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            with socket.create_connection(("127.0.0.1", int(process.stdout.readline()))) as line:
                yield process.pid, line
        finally:
            process.kill()


def sends(line: socket.socket, how: str, count: int) -> list[Span]:
    found: list[Span] = []
    for _ in range(count):
        sent = time.time()
        line.sendall(b"x")
        assert line.recv(1) == b"a"
        found.append((sent, time.time()))
        if how == "after":
            assert line.recv(1) == b"b"
    return found


def watch(how: str, tmp_path: Path) -> None:
    with server(how, tmp_path) as (pid, line):
        try:
            require_syncs([pid], lambda count: sends(line, how, count))
        except PeerMissing as missing:
            pytest.skip(str(missing))


def test_a_system_that_syncs_before_it_acknowledges_is_believed(tmp_path: Path) -> None:
    watch("before", tmp_path)


@pytest.mark.parametrize(("how", "unsafe"), [("never", "20"), ("after", r"\d+"), ("every-other", "10")])
def test_a_system_that_acknowledges_before_it_syncs_has_no_figure(how: str, unsafe: str, tmp_path: Path) -> None:
    """Who syncs just after can be done before a busy client has noted the acknowledgement, but not twenty times."""
    with pytest.raises(CheckFailed, match=f"{unsafe} of 20 messages were acknowledged before they were synced"):
        watch(how, tmp_path)


def test_syncs_are_read_from_what_strace_tells() -> None:
    told = (
        "10 1000.500000 fdatasync(9) = 0 <0.250000>\n"
        "11 1001.000000 fsync(7 <unfinished ...>\n"
        "10 1001.100000 fdatasync(9) = -1 EIO (Input/output error) <0.100000>\n"
        "11 1001.500000 <... fsync resumed>) = 0 <0.500000>\n"
    )
    assert list(spans(told)) == [(1000.5, 1000.75), (1001.0, 1001.5)]
    require_one_in_each([(1000.4, 1000.8), (1000.9, 1001.6)], list(spans(told)))
    with pytest.raises(CheckFailed, match="1 of 2 messages were acknowledged before they were synced, 1 the first"):
        require_one_in_each([(1000.4, 1000.8), (1000.9, 1001.4)], list(spans(told)))


def test_where_nobody_can_watch_a_synced_system_it_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(PeerMissing, match="strace is not installed"):
        require_syncs([1], lambda count: [])
