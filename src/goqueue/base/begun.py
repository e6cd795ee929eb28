"""Work whose first step is taken at once, and the rest when somebody waits for it."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Begun(Generic[T]):
    """Work whose first step was taken at once. Mostly there is no other, and then no task to make for it."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._waits_for: Any = None
        self.results: list[T] = []  # one, if it is done
        self._step(None)

    def _step(self, error: BaseException | None) -> bool:
        """Whether it has to wait for something."""
        try:
            self._waits_for = self._work.send(None) if error is None else self._work.throw(error)
        except StopIteration as done:
            self.results.append(done.value)
        return not self.results

    def __await__(self) -> Generator[Any, None, T]:
        """The rest of it, in a task."""
        waits = not self.results
        while waits:
            error: BaseException | None = None
            try:
                yield self._waits_for
            except BaseException as thrown:
                error = thrown
            waits = self._step(error)
        return self.results[0]
