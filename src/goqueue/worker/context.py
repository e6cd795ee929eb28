"""What a handler may ask about the call that it carries out, and what flows from it into calls of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec


class TaskContext(msgspec.Struct, frozen=True):
    """The call under way. `attempt` counts how often it was handed out, this time included; `failures` how often it
    failed before."""

    id: str
    task: str
    queue: str = ""
    attempt: int = 1
    failures: int = 0
    traceparent: str | None = None


_current: ContextVar[TaskContext | None] = ContextVar("goqueue-task", default=None)


def current() -> TaskContext | None:
    """The call that this code runs in; None outside of one."""
    return _current.get()


@contextmanager
def running(context: TaskContext) -> Iterator[None]:
    """The block is the task's: it has its context, and a span of OpenTelemetry if that is in use."""
    token = _current.set(context)
    try:
        if _opentelemetry() is None:
            yield
        else:
            with _span(context):
                yield
    finally:
        _current.reset(token)


def outgoing_headers() -> dict[str, str]:
    """What a call carries so that its task belongs to the caller's trace (W3C `traceparent`)."""
    if _opentelemetry() is not None:
        from opentelemetry import propagate

        found: dict[str, str] = {}
        propagate.inject(found)
        if found:
            return found
    context = _current.get()
    return {} if context is None or context.traceparent is None else {"traceparent": context.traceparent}


def _opentelemetry() -> Any:
    """Only if the program uses it itself."""
    return sys.modules.get("opentelemetry.trace")


@contextmanager
def _span(context: TaskContext) -> Iterator[None]:
    from opentelemetry import propagate, trace

    parent = propagate.extract({} if context.traceparent is None else {"traceparent": context.traceparent})
    told: dict[str, str | int] = {
        "messaging.system": "goqueue",
        "messaging.message.id": context.id,
        "goqueue.attempt": context.attempt,
    }
    tracer = trace.get_tracer("goqueue.worker")
    with tracer.start_as_current_span(context.task, parent, kind=trace.SpanKind.CONSUMER, attributes=told):
        yield
