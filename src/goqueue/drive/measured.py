"""How much of the loop's time a piece of work takes, over all its steps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import ContextVar
from time import perf_counter
from types import coroutine
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

Spent: TypeAlias = Callable[[float], None]  # told the seconds of each step

_told: Final[ContextVar[Spent | None]] = ContextVar("measured", default=None)


def is_measured() -> bool:
    """Whether whoever asks is part of such work."""
    return _told.get() is not None


async def measured(work: Awaitable[T], spent: Spent) -> T:
    token = _told.set(spent)
    try:
        return await _steps(work, spent)
    finally:
        _told.reset(token)


def also_measured(work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """For work that goes on in a task of its own: what it takes counts as that of whoever begins it."""
    spent = _told.get()
    return work if spent is None else _in_a_task(work, spent)


async def _in_a_task(work: Awaitable[T], spent: Spent) -> T:
    return await _steps(work, spent)


@coroutine
def _steps(work: Awaitable[T], spent: Spent) -> Generator[Any, None, T]:
    inner = work.__await__()
    error: BaseException | None = None
    while True:
        began = perf_counter()
        try:
            wanted = next(inner) if error is None else inner.throw(error)
        except StopIteration as over:
            found: T = over.value
            return found
        finally:
            spent(perf_counter() - began)
        error = None
        try:
            yield wanted
        except BaseException as thrown:
            error = thrown
