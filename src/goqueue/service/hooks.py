"""The places in the verbs where access, schemas, quotas and traces attach. Each is a plain function, or absent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from goqueue.base.commands import Caller
from goqueue.base.ids import Offset, TopicPartition
from goqueue.format.batch import BatchHeader, Buffer

Operation = Literal["read", "write", "create", "alter", "delete", "describe"]

Access = Callable[[Caller, Operation, str], None]  # raises if the caller may not do that to the topic
SchemaCheck = Callable[[str, BatchHeader, Buffer], None]  # raises if a record does not fit the topic's schema
Quota = Callable[[Caller, Operation, str, int], None]  # raises if so many bytes are over the caller's rate
Trace = Callable[[str, TopicPartition, Offset, BatchHeader, Buffer], None]  # event, where, base offset, batch


class Hooks(msgspec.Struct, frozen=True):
    """All absent until something is wired in; an absent one costs a comparison."""

    access: Access | None = None
    schema: SchemaCheck | None = None
    quota: Quota | None = None
    trace: Trace | None = None
