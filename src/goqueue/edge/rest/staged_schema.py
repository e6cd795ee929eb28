"""The JSON of staged sets, as types. Unknown fields are errors."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.base.limits import STAGED_WRITERS_MAX
from goqueue.edge.rest.group_schema import Number, OffsetNumber, TopicPartitionsOut
from goqueue.edge.rest.txn_schema import Duration, Epoch, Id


class WriterIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`timeout` is how long the writer may be silent."""

    writer: str
    attempt: Number = 0
    timeout: Duration | None = None


class NamedIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A writer, as staging it told. With `messages`, the number of messages that it stored, a loss is noticed."""

    transactional_id: str
    producer_id: Id
    epoch: Epoch
    messages: OffsetNumber | None = None


class StagedCommitIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All writers whose messages are to be seen; none is fine too."""

    writers: Annotated[list[NamedIn], msgspec.Meta(max_length=STAGED_WRITERS_MAX)]


class WriterOut(msgspec.Struct, frozen=True):
    transactional_id: str
    producer_id: int
    epoch: int


class StagedOut(msgspec.Struct, frozen=True):
    """How the set ended, and how many writers were aborted by the way."""

    outcome: Literal["committed", "already", "aborted", "already committed"]
    dropped: int


class OpenWriterOut(msgspec.Struct, frozen=True):
    """A writer whose messages wait; its `state` is `ongoing` until its end is being carried out."""

    transactional_id: str
    producer_id: int
    epoch: int
    writer: str
    attempt: int
    batch: int
    state: str
    timeout_ms: int
    started: int
    open_ms: int
    partitions: list[TopicPartitionsOut]


class OwnerOut(msgspec.Struct, frozen=True):
    """`last_batch` and `updated` are null before the first commit."""

    owner: str
    last_batch: int | None
    updated: int | None
    open: list[OpenWriterOut]


class OwnerBriefOut(msgspec.Struct, frozen=True):
    """The same with the number of open writers."""

    owner: str
    last_batch: int | None
    updated: int | None
    open: int


class OwnerListOut(msgspec.Struct, frozen=True):
    owners: list[OwnerBriefOut]
