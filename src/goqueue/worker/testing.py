"""Tests without a broker: every call runs at once, in this process, as a worker would run it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from goqueue.base.decoders import from_json
from goqueue.worker import plan
from goqueue.worker.backend import TaskPost
from goqueue.worker.calls import TaskCall, TaskResult, decode_call, encode_call
from goqueue.worker.context import TaskContext
from goqueue.worker.errors import InvalidCall, ResultTimeout
from goqueue.worker.plan import Plan, TaskSend
from goqueue.worker.workflows import Workflows

if TYPE_CHECKING:
    from goqueue.worker.app import App
    from goqueue.worker.running import Outcome
    from goqueue.worker.task import AppTask


class EagerBackend:
    """What `app.testing()` gives. `calls` are all that were made, in order; `dead` those that failed too often."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._results: dict[str, TaskResult] = {}
        self._workflows = Workflows()
        self._waiting: deque[TaskSend] = deque()
        self._unique: dict[str, str] = {}
        self._is_running = False
        self.calls: list[TaskCall] = []
        self.dead: list[TaskResult] = []

    def send(self, posts: Sequence[TaskPost]) -> list[str]:
        ids = [self._accept(post) for post in posts]
        self._work()
        return ids

    async def asend(self, posts: Sequence[TaskPost]) -> list[str]:
        return self.send(posts)

    def start(self, plan: Plan) -> None:
        self._follow(plan)
        self._work()

    async def astart(self, plan: Plan) -> None:
        self.start(plan)

    def results(self, ids: Sequence[str], timeout: float | None) -> dict[str, TaskResult]:
        missing = [one for one in ids if one not in self._results]
        if missing:
            raise ResultTimeout(f"There is no result of {missing[0]}: everything that was called has run.")
        return {one: self._results[one] for one in ids}

    async def aresults(self, ids: Sequence[str], timeout: float | None) -> dict[str, TaskResult]:
        return self.results(ids, timeout)

    # --- what a worker would do -------------------------------------------------------------------------

    def _accept(self, post: TaskPost) -> str:
        call = post.send.call
        if post.unique is not None:
            first = self._unique.setdefault(post.unique[0], call.id)
            if first != call.id:
                return first
        self._waiting.append(post.send)
        return call.id

    def _work(self) -> None:
        """Calls that tasks make themselves come behind those that wait."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._waiting:
                send = self._waiting.popleft()
                self._run(send.queue, decode_call(encode_call(send.call)))
        finally:
            self._is_running = False

    def _run(self, queue: str, call: TaskCall) -> None:
        from goqueue.worker.running import HandlerReturned

        task = self._app.tasks.get(call.task)
        if task is None:
            raise InvalidCall(f"There is no task {call.task}.")
        self.calls.append(call)
        outcome = self._tried(task, queue, call)
        if isinstance(outcome, HandlerReturned):
            self._results[call.id] = TaskResult(call.id, outcome.value)
            self._follow(plan.succeeded(call, outcome.value))
        else:
            told = TaskResult(call.id, kind=outcome.kind, message=outcome.message, traceback=outcome.traceback)
            self._results[call.id] = told
            self.dead.append(told)
            self._follow(plan.failed(call, outcome.kind, outcome.message))

    def _tried(self, task: AppTask[Any, Any], queue: str, call: TaskCall) -> Outcome:
        from goqueue.worker.running import HandlerFailed, Runner

        runner = Runner(self._app.middleware)
        failures = 0
        while True:
            context = TaskContext(call.id, call.task, queue, failures + 1, failures)
            if task.function.is_async:
                outcome = _run_coroutine(runner, task, call, context)
            else:
                outcome = runner.run(task, call, context)
            failures += 1
            if not isinstance(outcome, HandlerFailed) or outcome.is_final or failures > task.options.retries:
                return outcome

    def _follow(self, what: Plan) -> None:
        self._waiting.extend(what.sends)
        self._results.update({one.id: one for one in what.results})
        for record in what.records:
            self._workflows.apply(from_json(msgspec.json.encode(record), type(record)), 0)
        for due in self._workflows.due():
            self._follow(due)


def _run_coroutine(runner: Any, task: AppTask[Any, Any], call: TaskCall, context: TaskContext) -> Outcome:
    """In a loop of its own, also where one is running."""
    found: list[Outcome] = []
    work = threading.Thread(target=lambda: found.append(asyncio.run(runner.run_async(task, call, context))))
    work.start()
    work.join()
    return found[0]
