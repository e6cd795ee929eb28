"""What goes through the broker for a task: its call, its result, and the records of a workflow. JSON, by msgspec."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from goqueue.base.limits import TASK_BYTES_MAX, TASK_RESULT_BYTES_MAX
from goqueue.worker.errors import InvalidCall, TaskTooLarge


class StepCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task of a workflow that is still to come. Unless it is `fixed`, the result before it is its first argument."""

    id: str
    task: str
    queue: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    priority: str | int | None = None
    is_fixed: bool = False
    is_member: bool = False  # of a group, if only of one


Steps: TypeAlias = list[list[StepCall]]  # one after the other; several of one step run beside each other


class TaskCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a task's message. `member` is the workflow that waits for it, and its place there."""

    id: str
    task: str
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    then: Steps = []
    member: tuple[str, int] | None = None


class TaskResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a task ended: with a value, or with its last error. `expires` is milliseconds since 1970."""

    id: str
    value: msgspec.Raw = msgspec.Raw(b"null")
    kind: str = ""
    message: str = ""
    traceback: str = ""
    expires: int = 0

    @property
    def is_failure(self) -> bool:
        return bool(self.kind)


class WorkflowBegun(msgspec.Struct, frozen=True, omit_defaults=True, tag="begun"):
    """When all `count` members are done, the callback is called with their results in order."""

    id: str
    count: int
    callback: StepCall
    then: Steps = []


class MemberDone(msgspec.Struct, frozen=True, omit_defaults=True, tag="done"):
    id: str
    index: int
    value: msgspec.Raw


class MemberFailed(msgspec.Struct, frozen=True, omit_defaults=True, tag="failed"):
    """The member is in the dead letters. A redrive may still make it `done`."""

    id: str
    index: int
    kind: str
    message: str


class WorkflowEnded(msgspec.Struct, frozen=True, omit_defaults=True, tag="ended"):
    """The callback was sent, or with `is_failure` its failure told."""

    id: str
    is_failure: bool = False


WorkflowRecord: TypeAlias = WorkflowBegun | MemberDone | MemberFailed | WorkflowEnded

decode_call: Final = msgspec.json.Decoder(TaskCall).decode
decode_result: Final = msgspec.json.Decoder(TaskResult).decode
decode_record: Final = msgspec.json.Decoder(WorkflowRecord).decode


class _Unencodable(Exception):
    pass


def _refuse(value: object) -> Any:
    raise _Unencodable(f"{type(value).__name__} cannot be JSON")


_encoder: Final = msgspec.json.Encoder(enc_hook=_refuse)
encode: Final = _encoder.encode


def encode_call(call: TaskCall) -> bytes:
    """The message's value; says which argument cannot be encoded."""
    try:
        data = _encoder.encode(call)
    except (_Unencodable, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidCall(f"{call.task}: {_culprit(call, error)}") from None
    if len(data) > TASK_BYTES_MAX:
        raise TaskTooLarge(
            f"A call of {call.task} takes {len(data):,} bytes, and {TASK_BYTES_MAX:,} is the most. "
            "Put large data elsewhere and pass where it is."
        )
    return data


def encode_value(value: object, task: str) -> msgspec.Raw:
    """A handler's result."""
    try:
        data = _encoder.encode(value)
    except (_Unencodable, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidCall(f"The result of {task} cannot be encoded: {error}.") from None
    if len(data) > TASK_RESULT_BYTES_MAX:
        raise TaskTooLarge(
            f"The result of {task} takes {len(data):,} bytes, and {TASK_RESULT_BYTES_MAX:,} is the most."
        )
    return msgspec.Raw(data)


def _culprit(call: TaskCall, error: Exception) -> str:
    found = _first_bad(call.args, call.kwargs)
    what = f"argument {found}" if found is not None else "an argument"
    return f"{what} cannot be encoded ({error}). Pass what is JSON: text, numbers, lists, mappings, dataclasses, dates."


def _first_bad(args: Sequence[object], kwargs: Mapping[str, object]) -> str | None:
    named = [(str(place + 1), value) for place, value in enumerate(args)] + [(repr(k), v) for k, v in kwargs.items()]
    for name, value in named:
        try:
            _encoder.encode(value)
        except Exception:
            return name
    return None
