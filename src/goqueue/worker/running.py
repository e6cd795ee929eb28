"""Runs one call of a task, and tells how it ended. Nothing of it asks a broker."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from goqueue.base.limits import TASK_TRACEBACK_CHARS_MAX
from goqueue.worker.calls import TaskCall, encode_value
from goqueue.worker.context import TaskContext, running
from goqueue.worker.errors import InvalidCall, Reject, Retry, TaskTimeout, TaskTooLarge
from goqueue.worker.middleware import Middleware
from goqueue.worker.spans import seconds_of
from goqueue.worker.task import AppTask

logger = logging.getLogger("goqueue.worker")


class HandlerReturned(msgspec.Struct, frozen=True):
    """The handler returned; `value` is its result as JSON."""

    value: msgspec.Raw


class HandlerFailed(msgspec.Struct, frozen=True):
    """The handler raised. `delay` is what it asked for itself; what is `final` would fail again."""

    kind: str
    message: str
    traceback: str = ""
    delay: float | None = None
    is_final: bool = False


Outcome: TypeAlias = HandlerReturned | HandlerFailed
Arguments: TypeAlias = tuple[list[Any], dict[str, Any]]


class Runner:
    """Runs tasks inside of an app's middleware."""

    def __init__(self, middleware: Sequence[Middleware]) -> None:
        self._middleware = middleware

    def run(self, task: AppTask[Any, Any], call: TaskCall, context: TaskContext) -> Outcome:
        """A function that is not async, in the caller's thread."""
        try:
            with running(context):
                args, kwargs = self._before(task, call, context)
                return self._after(task, context, task.function.call(*args, **kwargs))
        except Exception as error:
            return self._failed(context, error)

    async def run_async(self, task: AppTask[Any, Any], call: TaskCall, context: TaskContext) -> Outcome:
        """An async one, on the loop."""
        timeout = task.options.timeout
        try:
            with running(context):
                args, kwargs = self._before(task, call, context)
                if timeout is None:
                    return self._after(task, context, await task.function.call(*args, **kwargs))
                return self._after(task, context, await _within(timeout, task.function.call(*args, **kwargs)))
        except Exception as error:
            return self._failed(context, error)

    def _before(
        self, task: AppTask[Any, Any], call: TaskCall, context: TaskContext
    ) -> tuple[list[Any], dict[str, Any]]:
        args, kwargs = task.function.convert(call.args, call.kwargs)
        for one in self._middleware:
            one.before(context, args, kwargs)
        return args, kwargs

    def _after(self, task: AppTask[Any, Any], context: TaskContext, result: Any) -> HandlerReturned:
        for one in reversed(self._middleware):
            one.after(context, result)
        return HandlerReturned(encode_value(result, task.name))

    def _failed(self, context: TaskContext, error: Exception) -> HandlerFailed:
        for one in reversed(self._middleware):
            try:
                one.failure(context, error)
            except Exception:
                logger.exception("middleware %r failed on the failure of %s", one, context.task)
        return failure_of(error)


async def _within(seconds: float, work: Any) -> Any:
    try:
        async with asyncio.timeout(seconds) as scope:
            return await work
    except TimeoutError:
        if scope.expired():
            raise TaskTimeout(f"It ran for longer than {seconds:g} s.") from None
        raise


def failure_of(error: BaseException) -> HandlerFailed:
    """What is told of an error. A call that does not fit the function will not fit it the next time."""
    is_final = isinstance(error, Reject | InvalidCall | TaskTooLarge)
    delay = seconds_of(error.delay, "delay") if isinstance(error, Retry) and error.delay is not None else None
    message = str(error)[:TASK_TRACEBACK_CHARS_MAX] or type(error).__name__
    return HandlerFailed(type(error).__name__, message, _traceback(error), delay, is_final)


def _traceback(error: BaseException) -> str:
    """Its end, which says most. The frames of this module say nothing."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None and at.tb_frame.f_code.co_filename == __file__:
        at = at.tb_next
    text = "".join(traceback.format_exception(type(error), error, at))
    kept = text[-TASK_TRACEBACK_CHARS_MAX:]
    return kept.encode("utf-8", "replace").decode()
