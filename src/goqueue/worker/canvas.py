"""Workflows: tasks one after the other, beside each other, and one when all others are done."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from goqueue.base.limits import WORKFLOW_TASKS_MAX
from goqueue.worker import plan
from goqueue.worker.app import App
from goqueue.worker.calls import Steps, encode_call
from goqueue.worker.errors import InvalidCall
from goqueue.worker.results import GroupResult, Result
from goqueue.worker.task import Signature


class group:  # noqa: N801 (what people know it by)
    """Calls beside each other. In a chain, the step behind it gets the list of their results."""

    def __init__(self, *calls: Signature | Iterable[Signature]) -> None:
        self.calls = [one for call in calls for one in ([call] if isinstance(call, Signature) else call)]
        _check(self.calls)

    def send(self) -> GroupResult[Any]:
        """Sends all of them, in one transaction."""
        app, steps = self._prepared()
        app.backend.start(plan.begin(steps))
        return self._results(app, steps)

    async def asend(self) -> GroupResult[Any]:
        app, steps = self._prepared()
        await app.backend.astart(plan.begin(steps))
        return self._results(app, steps)

    def _prepared(self) -> tuple[App, Steps]:
        return self.calls[0].task.app, [[one.step(is_member=True) for one in self.calls]]

    def _results(self, app: App, steps: Steps) -> GroupResult[Any]:
        pairs = zip(steps[0], self.calls, strict=True)
        found = [Result[Any](step.id, app.backend, call.task.function.result) for step, call in pairs]
        return GroupResult(found, app.backend)


class chain:  # noqa: N801
    """Calls one after the other, each with the result of the one before it. A step may be a group."""

    def __init__(self, *steps: Signature | group) -> None:
        self.steps = steps
        _check([one for step in steps for one in _calls(step)])
        for step, behind in pairwise(steps):
            if isinstance(step, group) and isinstance(behind, group):
                raise InvalidCall("Behind a group comes a single task, which gets the list of its results.")

    def send(self) -> Result[Any]:
        """Sends the first step. The result is that of the last, which cannot be a group here."""
        app, steps = self._prepared()
        app.backend.start(plan.begin(steps))
        return self._result(app, steps)

    async def asend(self) -> Result[Any]:
        app, steps = self._prepared()
        await app.backend.astart(plan.begin(steps))
        return self._result(app, steps)

    def _prepared(self) -> tuple[App, Steps]:
        if isinstance(self.steps[-1], group):
            raise InvalidCall("A chain ends with a single task; put one behind the group.")
        steps = [[one.step(is_member=isinstance(step, group)) for one in _calls(step)] for step in self.steps]
        for send in plan.begin(steps).sends:
            encode_call(send.call)  # too large, or not JSON: before anything is sent
        return _calls(self.steps[0])[0].task.app, steps

    def _result(self, app: App, steps: Steps) -> Result[Any]:
        return Result(steps[-1][0].id, app.backend, _calls(self.steps[-1])[0].task.function.result)


class chord(chain):  # noqa: N801
    """Calls beside each other, and one with the list of their results when all are done: exactly once."""

    def __init__(self, calls: Iterable[Signature] | group, callback: Signature) -> None:
        super().__init__(calls if isinstance(calls, group) else group(calls), callback)


def _calls(step: Signature | group) -> list[Signature]:
    return [step] if isinstance(step, Signature) else step.calls


def _check(calls: list[Signature]) -> None:
    if not calls:
        raise InvalidCall("A workflow has at least one call.")
    if len(calls) > WORKFLOW_TASKS_MAX:
        raise InvalidCall(f"A workflow has at most {WORKFLOW_TASKS_MAX:,} calls.")
    if any(one.task.app is not calls[0].task.app for one in calls):
        raise InvalidCall("All tasks of a workflow belong to one app.")
