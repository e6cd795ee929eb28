"""An app: tasks with a name each, and the broker that they go through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, Unpack, cast, overload

from goqueue.base.limits import TASK_NAME_CHARS_MAX
from goqueue.client.transport import DEFAULT_TIMEOUT, DEFAULT_URL, check_url
from goqueue.worker.backend import Backend, BrokerBackend
from goqueue.worker.cron import CronEntry, cron_entry
from goqueue.worker.errors import InvalidOption
from goqueue.worker.functions import TaskFunction
from goqueue.worker.middleware import Middleware
from goqueue.worker.options import TaskOptionsIn, options_of
from goqueue.worker.results import Result
from goqueue.worker.spans import TimeSpan, seconds_of
from goqueue.worker.task import AppTask
from goqueue.worker.testing import EagerBackend
from goqueue.worker.topics import TaskTopics

P = ParamSpec("P")
R = TypeVar("R")


class App:
    """`name` is the consumer group of its workers and the first part of its topics' names. A worker's hold on a task is
    renewed all the time; if the worker dies, others get the task after `lease`."""

    def __init__(
        self,
        url: str | Sequence[str] = DEFAULT_URL,
        *,
        name: str = "tasks",
        lease: TimeSpan = 30.0,
        result_ttl: TimeSpan = 86_400.0,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self.urls = [check_url(one) for one in ([url] if isinstance(url, str) else url)]
        self.lease = seconds_of(lease, "lease")
        self.result_ttl = seconds_of(result_ttl, "result_ttl")
        self.topics = TaskTopics(name, self.result_ttl)
        self.tasks: dict[str, AppTask[Any, Any]] = {}
        self.cron_entries: list[CronEntry] = []
        self.middleware: list[Middleware] = []
        self._broker = BrokerBackend(self.urls, self.topics, timeout)
        self._testing: EagerBackend | None = None

    @property
    def name(self) -> str:
        return self.topics.group

    @property
    def url(self) -> str:
        """The first of its addresses."""
        return self.urls[0]

    @property
    def backend(self) -> Backend:
        return self._testing or self._broker

    # --- tasks ------------------------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[P, Awaitable[R]], /) -> AppTask[P, R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> AppTask[P, R]: ...

    @overload
    def task(self, **options: Unpack[TaskOptionsIn]) -> Callable[[Callable[P, R]], AppTask[P, R]]: ...

    def task(self, function: Any = None, /, **options: Any) -> Any:  # type: ignore[misc]
        """Makes a function a task: `@app.task`, or `@app.task(retries=5, ...)`. `TaskOptions` tells the options."""
        if function is not None:
            return self._add(function, {})
        given = cast(TaskOptionsIn, options)
        return lambda found: self._add(found, given)

    def cron(
        self, line: str, *, timezone: str = "UTC", **options: Unpack[TaskOptionsIn]
    ) -> Callable[[Callable[P, R]], AppTask[P, R]]:
        """A task that runs by the clock, once each time however many workers there are: `@app.cron("0 3 * * *")`."""

        def add(function: Callable[P, R]) -> AppTask[P, R]:
            task = self._add(function, options)
            self.cron_entries.append(cron_entry(task.name, line, timezone))
            return task

        return add

    def _add(self, function: Callable[..., Any], options: TaskOptionsIn) -> AppTask[Any, Any]:
        module = function.__module__.removeprefix("__main__.")
        name = options.get("name", f"{module}.{function.__qualname__}")
        if not 0 < len(name) <= TASK_NAME_CHARS_MAX:
            raise InvalidOption(f"A task's name has 1 to {TASK_NAME_CHARS_MAX} characters.")
        if name in self.tasks:
            raise InvalidOption(f"There are two tasks called {name}; give one another name=.")
        task: AppTask[Any, Any] = AppTask(self, TaskFunction(function, name), options_of(name, options))
        self.topics.queue(task.options.queue)
        self.tasks[name] = task
        return task

    def use(self, *middleware: Middleware) -> None:
        """Adds middleware; the first is the outermost."""
        self.middleware.extend(middleware)

    def result(self, task_id: str) -> Result[Any]:
        """The result of a call by its id, in any program, as long as results are kept."""
        return Result(task_id, self.backend)

    @property
    def queues(self) -> list[str]:
        """Those that its tasks name."""
        return sorted({task.options.queue for task in self.tasks.values()})

    # --- tests ------------------------------------------------------------------------------------------

    @contextmanager
    def testing(self) -> Iterator[EagerBackend]:
        """In the block every call runs at once, here, without a broker: retries without waiting, workflows whole."""
        before, self._testing = self._testing, EagerBackend(self)
        try:
            yield self._testing
        finally:
            self._testing = before
