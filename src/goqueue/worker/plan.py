"""What has to be sent when a workflow begins, when one of its tasks ends, and when all members did. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.worker.calls import (
    MemberDone,
    MemberFailed,
    StepCall,
    Steps,
    TaskCall,
    TaskResult,
    WorkflowBegun,
    WorkflowRecord,
)


class TaskSend(msgspec.Struct, frozen=True):
    """One call for a queue."""

    queue: str
    call: TaskCall
    priority: str | int | None = None


class Plan(msgspec.Struct, frozen=True):
    """All of it has to be stored, or nothing."""

    sends: list[TaskSend] = []
    records: list[WorkflowRecord] = []
    results: list[TaskResult] = []

    def __bool__(self) -> bool:
        return bool(self.sends or self.records or self.results)


def begin(steps: Steps, before: list[Any] | None = None) -> Plan:
    """The calls of the first step. `before` holds the result that is their first argument, if there is one."""
    first, rest = steps[0], steps[1:]
    if not first[0].is_member:
        return Plan([_send(first[0], before, rest, None)])
    if not rest:
        return Plan([_send(one, before, [], None) for one in first])
    callback = rest[0][0]
    members = [_send(one, before, [], (callback.id, place)) for place, one in enumerate(first)]
    return Plan(members, [WorkflowBegun(callback.id, len(first), callback, rest[1:])])


def succeeded(call: TaskCall, value: msgspec.Raw) -> Plan:
    """What follows a task of a workflow that is done."""
    if call.member is not None:
        return Plan(records=[MemberDone(*call.member, value)])
    return begin(call.then, [value]) if call.then else Plan()


def failed(call: TaskCall, kind: str, message: str) -> Plan:
    """What is told when a task of a workflow ended in the dead letters: nobody waits for what will not come."""
    if call.member is not None:
        return Plan(records=[MemberFailed(*call.member, kind, message[:1000])])
    return Plan(results=[_never_ran(one, call.task, kind, message) for step in call.then for one in step])


def fire(begun: WorkflowBegun, values: list[msgspec.Raw]) -> Plan:
    """The callback, with the results of all members."""
    return begin([[begun.callback], *begun.then], [values])


def give_up(begun: WorkflowBegun, kind: str, message: str) -> Plan:
    """The failure of a member is that of the callback and of what follows it."""
    steps = [[begun.callback], *begun.then]
    return Plan(results=[_never_ran(one, "a member", kind, message) for step in steps for one in step])


def _send(step: StepCall, before: list[Any] | None, then: Steps, member: tuple[str, int] | None) -> TaskSend:
    args = step.args if before is None or step.is_fixed else [*before, *step.args]
    return TaskSend(step.queue, TaskCall(step.id, step.task, args, step.kwargs, then, member), step.priority)


def _never_ran(step: StepCall, before: str, kind: str, message: str) -> TaskResult:
    return TaskResult(step.id, kind=kind, message=f"{step.task} did not run, since {before} failed: {message[:1000]}")
