"""A task: a function that is called here and runs in a worker."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar

import msgspec

from goqueue.worker.backend import TaskPost
from goqueue.worker.calls import StepCall, TaskCall, encode
from goqueue.worker.errors import InvalidCall, InvalidOption
from goqueue.worker.functions import TaskFunction
from goqueue.worker.ids import id_time_ms, new_id
from goqueue.worker.options import TaskOptions
from goqueue.worker.plan import TaskSend
from goqueue.worker.results import GroupResult, Result
from goqueue.worker.spans import TimeSpan, seconds_of

if TYPE_CHECKING:
    from goqueue.worker.app import App

P = ParamSpec("P")
R = TypeVar("R")
When: TypeAlias = datetime | TimeSpan


class Signature(msgspec.Struct, frozen=True):
    """A call that is not sent yet, for workflows and for `send`. Unless it is `fixed`, the result of the step before it
    becomes its first argument."""

    task: AppTask[Any, Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    is_fixed: bool = False

    def step(self, *, is_member: bool) -> StepCall:
        options, args = self.task.options, list(self.args)
        place = (new_id(), options.name, options.queue)
        return StepCall(*place, args, self.kwargs, options.priority, self.is_fixed, is_member)


class AppTask(Generic[P, R]):
    """Made by `@app.task`. Called like the function it is, it runs here; by `delay` and the like, in a worker."""

    def __init__(self, app: App, function: TaskFunction, options: TaskOptions) -> None:
        self.app = app
        self.function = function
        self.options = options
        self.__name__ = function.call.__name__
        self.__doc__ = function.call.__doc__
        self.__module__ = function.call.__module__
        self.__wrapped__ = function.call

    @property
    def name(self) -> str:
        return self.options.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.function.call(*args, **kwargs)

    # --- calls ------------------------------------------------------------------------------------------

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """Calls it in a worker, as soon as one is free."""
        return self._results(self.app.backend.send([self._post(args, kwargs)]))[0]

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """The same, for programs on asyncio."""
        return self._results(await self.app.backend.asend([self._post(args, kwargs)]))[0]

    def at(self, when: When, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """Calls it at a time (a `datetime` with a zone), or so long from now: seconds, "10m", a `timedelta`."""
        return self._results(self.app.backend.send([self._post(args, kwargs, when)]))[0]

    async def aat(self, when: When, *args: P.args, **kwargs: P.kwargs) -> Result[R]:
        """The same, for programs on asyncio."""
        return self._results(await self.app.backend.asend([self._post(args, kwargs, when)]))[0]

    def send(self, calls: Iterable[Signature | tuple[Any, ...] | object]) -> GroupResult[R]:
        """Many calls in one request. Each is a tuple of arguments, one argument, or `task.s(...)`."""
        results = self._results(self.app.backend.send([self._post_of(one) for one in calls]))
        return GroupResult(results, self.app.backend)

    async def asend(self, calls: Iterable[Signature | tuple[Any, ...] | object]) -> GroupResult[R]:
        """The same, for programs on asyncio."""
        results = self._results(await self.app.backend.asend([self._post_of(one) for one in calls]))
        return GroupResult(results, self.app.backend)

    def s(self, *args: Any, **kwargs: Any) -> Signature:
        """A call for a workflow, which puts the result of the step before it first among the arguments."""
        return Signature(self, args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Signature:
        """A call for a workflow with these arguments and no others."""
        return Signature(self, args, kwargs, is_fixed=True)

    # --- what is sent -----------------------------------------------------------------------------------

    def _post_of(self, call: object) -> TaskPost:
        if isinstance(call, Signature):
            if call.task is not self:
                raise InvalidCall(f"{call.task.name} is another task than {self.name}; use a group.")
            return self._post(call.args, call.kwargs)
        return self._post(call if isinstance(call, tuple) else (call,), {})

    def _post(self, args: tuple[Any, ...], kwargs: dict[str, Any], when: When | None = None) -> TaskPost:
        self.function.check(args, kwargs)
        call = TaskCall(new_id(), self.name, list(args), kwargs)
        due_ms = None if when is None else _due_ms(when, id_time_ms(call.id))
        unique = None if self.options.unique is None else (self._unique_key(args, kwargs), self.options.unique)
        return TaskPost(TaskSend(self.options.queue, call, self.options.priority), due_ms, unique)

    def _unique_key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        bound = self.function.bound(args, kwargs)
        named = {name: bound[name] for name in self.options.unique_by} if self.options.unique_by else bound
        try:
            told = encode(sorted(named.items()))
        except Exception as error:
            raise InvalidCall(f"{self.name}: an argument cannot be encoded ({error}).") from None
        return f"{self.name}:{hashlib.sha256(told).hexdigest()[:32]}"

    def _results(self, ids: list[str]) -> list[Result[R]]:
        return [Result(one, self.app.backend, self.function.result) for one in ids]

    def __repr__(self) -> str:
        return f"<task {self.name}>"


def _due_ms(when: When, now_ms: int) -> int:
    if not isinstance(when, datetime):
        return now_ms + round(seconds_of(when, "when") * 1000)
    if when.tzinfo is None:
        raise InvalidOption(f"{when} has no time zone; use datetime.now(UTC) or add one.")
    return round(when.timestamp() * 1000)
