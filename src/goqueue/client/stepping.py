"""Carries out steps that need nothing but requests and pauses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from goqueue.client.calls import RestCall
from goqueue.client.errors import GoQueueClientError
from goqueue.client.steps import Pause, Step, Steps

T = TypeVar("T")


def run_steps(steps: Steps[T], perform: Callable[[RestCall[Any]], Any]) -> T:
    """In the caller's thread."""
    try:
        step = next(steps)
        while True:
            try:
                answer = _do(step, perform)
            except GoQueueClientError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        found: T = end.value
        return found


def _do(step: Step, perform: Callable[[RestCall[Any]], Any]) -> Any:
    if isinstance(step, RestCall):
        return perform(step)
    assert isinstance(step, Pause)
    time.sleep(step.seconds)
    return None


async def run_steps_async(steps: Steps[T], perform: Callable[[RestCall[Any]], Awaitable[Any]]) -> T:
    """On the caller's event loop."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await _do_async(step, perform)
            except GoQueueClientError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        found: T = end.value
        return found


async def _do_async(step: Step, perform: Callable[[RestCall[Any]], Awaitable[Any]]) -> Any:
    if isinstance(step, RestCall):
        return await perform(step)
    assert isinstance(step, Pause)
    return await asyncio.sleep(step.seconds)
