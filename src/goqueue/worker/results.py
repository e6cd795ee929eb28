"""Results of tasks: they are messages of one topic, found by the task's id and the time that is in it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from goqueue.base.limits import RESULTS_KNOWN_MAX
from goqueue.client import Page
from goqueue.client.calls import ReadOptions, RestCall, read_topic
from goqueue.client.retry import Retries
from goqueue.client.steps import Steps, persist
from goqueue.worker.calls import TaskResult, decode_result
from goqueue.worker.errors import ResultTimeout, TaskFailed
from goqueue.worker.ids import id_time_ms

if TYPE_CHECKING:
    from goqueue.worker.backend import Backend

R = TypeVar("R")
_PAGE: Final = 1_000
_WAIT_SECONDS_MAX: Final = 5.0  # of one request
_CLOCKS_APART_MS: Final = 60_000  # between who made an id and the broker


class Result(Generic[R]):
    """What a call gives back at once: its id, and where its result will be."""

    def __init__(self, task_id: str, backend: Backend, convert: Callable[[Any], Any] | None = None) -> None:
        self.id = task_id
        self._backend = backend
        self._convert = convert

    def get(self, timeout: float | None = None) -> R:
        """The task's result, when it is there. `TaskFailed` if it ended in the dead letters; `ResultTimeout` if nothing
        came for `timeout` seconds (None waits for ever)."""
        return self._value(self._backend.results([self.id], timeout)[self.id])

    async def aget(self, timeout: float | None = None) -> R:
        """The same, for programs on asyncio."""
        return self._value((await self._backend.aresults([self.id], timeout))[self.id])

    def __await__(self) -> Generator[Any, None, R]:
        return self.aget().__await__()

    def _value(self, found: TaskResult) -> R:
        if found.is_failure:
            raise TaskFailed(found.kind, found.message, found.traceback)
        value = msgspec.json.decode(found.value)
        given: R = value if self._convert is None else self._convert(value)
        return given

    def __repr__(self) -> str:
        return f"Result({self.id!r})"


class GroupResult(Generic[R]):
    """Those of several tasks, in the order of their calls."""

    def __init__(self, results: list[Result[R]], backend: Backend) -> None:
        self.results = results
        self._backend = backend

    def get(self, timeout: float | None = None) -> list[R]:
        """All of them; raises for the first that failed."""
        found = self._backend.results([one.id for one in self.results], timeout)
        return [one._value(found[one.id]) for one in self.results]

    async def aget(self, timeout: float | None = None) -> list[R]:
        found = await self._backend.aresults([one.id for one in self.results], timeout)
        return [one._value(found[one.id]) for one in self.results]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Any:
        return iter(self.results)


class ResultReader:
    """Reads the topic of results from the time of the first id that was asked for, and remembers what it saw."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._since_ms: int | None = None
        self._cursor: str | int = 0
        self._seen: OrderedDict[str, TaskResult] = OrderedDict()

    def wait(self, ids: Iterable[str], timeout: float | None) -> Steps[dict[str, TaskResult]]:
        """The results of all these ids."""
        wanted = list(dict.fromkeys(ids))
        deadline = None if timeout is None else time.monotonic() + timeout
        found: dict[str, TaskResult] = {}
        self._begin(min((id_time_ms(one) for one in wanted), default=0))
        if any(one in self._seen and self._seen[one].is_failure for one in wanted):
            yield from self._read(0.0)  # it may have been redriven since
        while True:
            found |= {one: self._seen[one] for one in wanted if one in self._seen}
            missing = len(wanted) - len(found)
            left = _WAIT_SECONDS_MAX if deadline is None else deadline - time.monotonic()
            if not missing:
                return found
            if left < 0:
                raise ResultTimeout(f"{missing} of {len(wanted)} results did not come within {timeout:g} s.")
            yield from self._read(min(left, _WAIT_SECONDS_MAX))

    def _begin(self, oldest_ms: int) -> None:
        """Where nothing is known that far back, it is read again from there."""
        since = max(0, oldest_ms - _CLOCKS_APART_MS)
        if self._since_ms is None or since < self._since_ms or len(self._seen) >= RESULTS_KNOWN_MAX:
            self._since_ms = since
            self._cursor = since
            self._seen.clear()

    def _read(self, wait: float) -> Steps[None]:
        page = yield from persist(self._request(wait), Retries(lost_answers=True), time.monotonic)
        self._cursor = page.next or self._cursor
        now = time.time() * 1000
        for message in page.messages:
            result = decode_result(message.value or b"")
            if not result.expires or result.expires > now:
                self._remember(result)

    def _request(self, wait: float) -> RestCall[Page]:
        return read_topic(self._topic, self._cursor, ReadOptions(limit=_PAGE, timeout=wait))

    def _remember(self, result: TaskResult) -> None:
        """The last word holds: a dead letter that was redriven may end well."""
        self._seen[result.id] = result
        self._seen.move_to_end(result.id)
        if len(self._seen) > RESULTS_KNOWN_MAX:
            self._seen.popitem(last=False)
