"""Tasks that do nothing, a second: GoQueue's workers beside other frameworks, acknowledged late, eight at once.

A backlog is sent, then one worker is started; the rate is that between the first and the last task that notes the time.
Every task has to have run, once.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import mkdtemp

from bench.compare.model import CheckFailed
from bench.node_process import NodeProcess
from bench.peers import rabbitmq, redis_streams
from bench.peers.server import PeerMissing
from bench.report import Figure
from bench.task_apps import GOQUEUE, GOQUEUE_ASYNC, MARK_EVERY, PEERS, TaskPeer

ROUNDS = 3
ROUND_SECONDS = 240.0


def tasks_figures(root: Path) -> Iterator[Figure]:
    ours = TaskBench(GOQUEUE, root)
    mine = [ours.rate(turn) for turn in range(ROUNDS)]
    fast = [TaskBench(GOQUEUE_ASYNC, root).rate(turn + ROUNDS) for turn in range(ROUNDS)]
    yield Figure("GoQueue: functions in threads", _shown(statistics.median(mine)))
    yield Figure("GoQueue: async functions", _shown(statistics.median(fast)))
    for peer in PEERS:
        try:
            yield _beside(ours, TaskBench(peer, root), peer)
        except PeerMissing as error:
            yield Figure(peer.name, "left out", str(error))


def _beside(ours: TaskBench, theirs: TaskBench, peer: TaskPeer) -> Figure:
    """Functions in threads, or async ones beside who runs those."""
    is_async = "async def noop" in peer.app
    mine = TaskBench(GOQUEUE_ASYNC, ours.root) if is_async else ours
    pairs = [(mine.rate(100 + turn), theirs.rate(turn)) for turn in range(ROUNDS)]
    ratio = statistics.median(one / other for one, other in pairs)
    value = _shown(statistics.median(one for one, _ in pairs))
    against = f"{peer.name}: {_shown(statistics.median(other for _, other in pairs))}"
    return Figure(f"beside {peer.name}", value, against, f"{ratio:.2f} times as many, at least 1", ratio >= 1)


def _shown(rate: float) -> str:
    return f"{rate:,.0f} tasks/s"


class TaskBench:
    """One framework."""

    def __init__(self, peer: TaskPeer, root: Path) -> None:
        self.peer = peer
        self.root = root.resolve()

    def rate(self, turn: int) -> float:
        name = self.peer.name.lower().replace(" ", "-").replace(",", "")
        self.root.mkdir(parents=True, exist_ok=True)
        home = Path(mkdtemp(prefix=f"tasks-{name}-{turn}-", dir=self.root))
        (home / "noop.py").write_text(self.peer.app)
        programs = environment(self.peer, self.root)
        with _server(self.peer, home) as url:
            environ = {**os.environ, **self.peer.environ, **notes(home, self.peer.count), "SERVER": url}
            environ["PATH"] = f"{programs}:{environ['PATH']}"
            fill = f"count = {self.peer.count}\n{self.peer.fill}"
            subprocess.run([str(programs / "python"), "-c", fill], cwd=home, env=environ, check=True, timeout=300)
            return measured(self.peer, home, environ, programs)


def notes(home: Path, count: int) -> dict[str, str]:
    """Where tasks note the time and their calls: a byte for each."""
    (home / "marks").write_text("")
    (home / "calls").write_bytes(bytes(count))
    return {"MARKS": str(home / "marks"), "CALLS": str(home / "calls")}


def measured(peer: TaskPeer, home: Path, environ: dict[str, str], programs: Path) -> float:
    """Tasks a second. Raises CheckFailed where one was lost, or run twice."""
    command = [str(programs / peer.worker[0]), *peer.worker[1:]]
    with (home / "output").open("wb") as output:
        worker = subprocess.Popen(command, cwd=home, env=environ, stdout=output, stderr=output, process_group=0)
    try:
        until = time.monotonic() + ROUND_SECONDS
        while (calls := (home / "calls").read_bytes()).count(0) and time.monotonic() < until:
            time.sleep(0.1)
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    if not any(calls):
        raise RuntimeError(f"{peer.name} did nothing: {(home / 'output').read_text()[-2000:]}")
    require_each_once(peer, (home / "calls").read_bytes())
    marks = sorted(map(float, (home / "marks").read_text().split()))
    return (len(marks) - 1) * MARK_EVERY / (marks[-1] - marks[0])


def require_each_once(peer: TaskPeer, calls: bytes) -> None:
    if lost := calls.count(0):
        raise CheckFailed(f"{peer.name}: {lost} of {len(calls)} tasks never ran, {calls.index(0)} the first of them")
    if doubled := [number for number, count in enumerate(calls) if count > 1]:
        raise CheckFailed(f"{peer.name}: {len(doubled)} tasks ran more than once, {doubled[0]} the first of them")


def environment(peer: TaskPeer, root: Path) -> Path:
    """The programs of the peer, in an environment of its own that is made once."""
    if not peer.packages:
        return Path(sys.executable).parent
    place = Path(os.environ.get("BENCH_ENVIRONMENTS", str(root / "environments"))) / peer.name.replace(" ", "-")
    if not (place / "ready").exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True, capture_output=True, timeout=120)
            install = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", *peer.packages]
            subprocess.run(install, check=True, capture_output=True, timeout=300)
        except subprocess.SubprocessError as error:
            raise PeerMissing(f"{', '.join(peer.packages)} cannot be installed: {error}") from None
        (place / "ready").touch()
    return place / "bin"


def _server(peer: TaskPeer, home: Path) -> AbstractContextManager[str]:
    return {"goqueue": _goqueue, "redis": _redis, "rabbitmq": _rabbitmq}[peer.server](home)


@contextmanager
def _goqueue(home: Path) -> Iterator[str]:
    """Over gRPC, which costs workers least."""
    with NodeProcess(home / "data") as node:
        yield f"grpc://{node.grpc}"


@contextmanager
def _redis(home: Path) -> Iterator[str]:
    with redis_streams.server(home, "everysec") as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@contextmanager
def _rabbitmq(home: Path) -> Iterator[str]:
    with rabbitmq.server(home) as server:
        yield f"amqp://guest:guest@127.0.0.1:{server.port}"
