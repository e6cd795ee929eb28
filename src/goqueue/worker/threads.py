"""Runs functions that are not async: each in one of so many threads, or in a process that its thread holds.

Threads hand what is done back to the loop together, so that many short tasks wake it once.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from goqueue.worker.child import ChildProcess
from goqueue.worker.errors import TaskTimeout
from goqueue.worker.jobs import Job
from goqueue.worker.running import HandlerFailed, Outcome, Runner, failure_of

OnDone: TypeAlias = Callable[[list[tuple[Job, Outcome]]], None]
_LOOK_SECONDS: Final = 0.1  # how often threads are looked at for handlers that take too long


class ThreadSlots:
    """So many threads, which end with the process."""

    def __init__(self, number: int, runner: Runner, on_done: OnDone, app_path: str | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_done = on_done
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._done: list[tuple[Job, Outcome]] = []
        self._lock = threading.Lock()
        self._slots = [_Slot(runner, app_path) for _ in range(number)]
        self._looking: asyncio.TimerHandle | None = None
        for slot in self._slots:
            threading.Thread(target=self._work, args=(slot,), name="goqueue-task", daemon=True).start()

    def put(self, job: Job) -> None:
        self._jobs.put(job)
        if self._looking is None and job.options.timeout is not None:
            self._look()

    def take_back(self) -> list[Job]:
        """Those that have not begun."""
        found: list[Job] = []
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    found.append(job)
        return found

    def close(self) -> None:
        for slot in self._slots:
            self._jobs.put(None)
            slot.close()

    def _work(self, slot: _Slot) -> None:
        while (job := self._jobs.get()) is not None:
            outcome = slot.run(job)
            with self._lock:
                self._done.append((job, outcome))
                is_first = len(self._done) == 1
            if is_first:
                with suppress(RuntimeError):  # the loop is closed: the worker was told to stop at once
                    self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            done, self._done = self._done, []
        self._on_done(done)

    def _look(self) -> None:
        """Interrupts what runs for too long."""
        now = time.monotonic()
        is_needed = [slot.interrupt_if_late(now) for slot in self._slots]
        again = any(is_needed) or not self._jobs.empty()
        self._looking = self._loop.call_later(_LOOK_SECONDS, self._look) if again else None


class _Slot:
    """One thread's work, and until when it has time for it."""

    def __init__(self, runner: Runner, app_path: str | None) -> None:
        self._runner = runner
        self._app_path = app_path
        self._child: ChildProcess | None = None
        self._lock = threading.Lock()
        self._late_at: float | None = None
        self._thread_id = 0

    def run(self, job: Job) -> Outcome:
        assert job.task is not None
        timeout = job.options.timeout
        try:
            if job.options.pool == "process":
                return self._run_in_child(job, timeout)
            if timeout is None:
                return self._runner.run(job.task, job.call, job.context)
            return self._run_in_time(job, timeout)
        except BaseException as error:  # also what interrupts it: the thread goes on
            return failure_of(error)

    def _run_in_time(self, job: Job, timeout: float) -> Outcome:
        self._begin(timeout)
        try:
            assert job.task is not None
            outcome = self._runner.run(job.task, job.call, job.context)
        finally:
            self._end()
        return _with_limit(outcome, timeout)

    def _begin(self, timeout: float) -> None:
        with self._lock:
            self._thread_id = threading.get_ident()
            self._late_at = time.monotonic() + timeout

    def _end(self) -> None:
        with self._lock:
            self._late_at = None

    def interrupt_if_late(self, now: float) -> bool:
        """Whether it has to be looked at again. The error is raised in the thread, at its next step in Python."""
        with self._lock:
            if self._late_at is not None and now >= self._late_at:
                self._late_at = None
                error = ctypes.py_object(TaskTimeout)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread_id), error)
            return self._late_at is not None

    def _run_in_child(self, job: Job, timeout: float | None) -> Outcome:
        if self._child is None:
            self._child = ChildProcess(self._app_path)
        try:
            return self._child.run(job.call, job.context, timeout)
        except BaseException:
            child, self._child = self._child, None
            child.kill()
            raise

    def close(self) -> None:
        child: Any = self._child
        if child is not None:
            child.kill()


def _with_limit(outcome: Outcome, timeout: float) -> Outcome:
    """The error that interrupts a thread cannot bring a sentence along."""
    if isinstance(outcome, HandlerFailed) and outcome.kind == outcome.message == TaskTimeout.__name__:
        return replace(outcome, message=f"It ran for longer than {timeout:g} s.")
    return outcome
