"""Calls that a worker holds: a message under a lease, and what has to be known to run it."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.client.leases import Leased
from goqueue.worker.calls import TaskCall, decode_call
from goqueue.worker.context import TaskContext
from goqueue.worker.options import TaskOptions
from goqueue.worker.running import HandlerFailed
from goqueue.worker.task import AppTask


class Job(msgspec.Struct, frozen=True, eq=False):
    """`task` is None where there is none of that name here."""

    message: Leased
    call: TaskCall
    context: TaskContext
    task: AppTask[Any, Any] | None
    flaw: HandlerFailed | None = None  # that the message is no call

    @property
    def options(self) -> TaskOptions:
        if self.task is not None:
            return self.task.options
        return TaskOptions(name=self.call.task, results=self.flaw is None)

    @property
    def is_workflow(self) -> bool:
        return bool(self.call.then) or self.call.member is not None

    def is_last_try(self, failed: HandlerFailed) -> bool:
        return failed.is_final or self.message.failures >= self.options.retries

    def unfit(self) -> HandlerFailed | None:
        """Why it must not run."""
        if self.flaw is not None:
            return self.flaw
        if self.task is None:
            text = f"No task is called {self.call.task!r} here; start a worker that has it."
            return HandlerFailed("UnknownTask", text, delay=10.0)
        if self.message.failures > self.options.retries:
            text = f"It was handed out {self.message.failures} times and never answered for: its worker died."
            return HandlerFailed("WorkerLost", text, is_final=True)
        return None


def job_of(message: Leased, queue: str, tasks: dict[str, AppTask[Any, Any]]) -> Job:
    """What is no call of a task has a flaw."""
    try:
        call = decode_call(message.value or b"")
    except msgspec.DecodeError as error:
        flaw = HandlerFailed("InvalidCall", f"The message is no call of a task: {error}.", is_final=True)
        return Job(message, TaskCall("", ""), TaskContext("", "", queue), None, flaw)
    traceparent = message.header("traceparent") if message.headers else None
    told = None if traceparent is None else traceparent.decode("ascii", "replace")
    context = TaskContext(call.id, call.task, queue, message.attempt, message.failures, told)
    return Job(message, call, context, tasks.get(call.task))
