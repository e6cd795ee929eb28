"""A process that runs tasks for a worker, one at a time. `python -m goqueue.worker.child` is that process.

It ends when the worker closes its end, or dies. What it is told and what it answers are frames of JSON.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from typing import Final

import msgspec

from goqueue.worker.calls import TaskCall
from goqueue.worker.context import TaskContext
from goqueue.worker.errors import InvalidOption, TaskTimeout, WorkerLost
from goqueue.worker.finding import find_app
from goqueue.worker.running import HandlerFailed, HandlerReturned, Outcome, Runner


class _Order(msgspec.Struct, frozen=True):
    call: TaskCall
    context: TaskContext


class _Report(msgspec.Struct, frozen=True):
    done: msgspec.Raw = msgspec.Raw(b"null")
    failed: HandlerFailed | None = None


_READY: Final = b"ready"
_orders: Final = msgspec.json.Decoder(_Order)
_reports: Final = msgspec.json.Decoder(_Report)


class ChildProcess:
    """The worker's side of it."""

    def __init__(self, app_path: str | None) -> None:
        if app_path is None:
            raise InvalidOption("Tasks with pool='process' need `goqueue worker module:app`.")
        mine, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "goqueue.worker.child", str(theirs.fileno()), app_path, *sys.path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._connection = Connection(mine.detach())
        self._is_ready = False

    def run(self, call: TaskCall, context: TaskContext, timeout: float | None) -> Outcome:
        """`WorkerLost` if the process dies, `TaskTimeout` after so many seconds: then it has to be killed."""
        try:
            if not self._is_ready:
                self._is_ready = self._connection.recv_bytes() == _READY
            self._connection.send_bytes(msgspec.json.encode(_Order(call, context)))
            answer = self._connection.recv_bytes() if self._connection.poll(timeout) else None
        except (EOFError, OSError):
            raise WorkerLost(f"The process of the task died ({self._ended()}).") from None
        if answer is None:
            raise TaskTimeout(f"It ran for longer than {timeout:g} s.")
        report = _reports.decode(answer)
        return report.failed if report.failed is not None else HandlerReturned(report.done)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._connection.close()

    def _ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(5)
            return f"signal {-code}" if code < 0 else f"exit code {code}"
        return "it went silent"


def main(fd: int, app_path: str, *paths: str) -> None:
    """Signals are for the worker, which lets what runs end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.path[:] = paths
    app = find_app(app_path)
    runner = Runner(app.middleware)
    with contextlib.suppress(EOFError), Connection(fd) as connection:
        connection.send_bytes(_READY)
        while True:
            order = _orders.decode(connection.recv_bytes())
            outcome = runner.run(app.tasks[order.call.task], order.call, order.context)
            report = _Report(outcome.value) if isinstance(outcome, HandlerReturned) else _Report(failed=outcome)
            connection.send_bytes(msgspec.json.encode(report))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
    sys.stdout.flush()
    os._exit(0)
