"""Staged sets. Unknown members of a request are errors; those of a reply are ignored."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.api.groups import Number, OffsetNumber, TopicParts
from goqueue.api.transactions import Duration, Epoch, Id
from goqueue.base.limits import STAGED_WRITERS_MAX


class WriterIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`timeout` is how long the writer may be silent."""

    writer: str
    attempt: Number = 0
    timeout: Duration | None = None


class StagedWriterId(msgspec.Struct, frozen=True, omit_defaults=True):
    """A writer of a batch: who it is for every write, and what the commit names. A commit that is told how many
    `messages` the writer stored refuses if some were lost in a power cut."""

    transactional_id: str
    producer_id: Id
    epoch: Epoch
    messages: OffsetNumber | None = None


class StagedWriterIdIn(StagedWriterId, frozen=True, forbid_unknown_fields=True):
    """The same in a request."""


class StagedCommitIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All writers whose messages are to be seen; none is fine too."""

    writers: Annotated[list[StagedWriterIdIn], msgspec.Meta(max_length=STAGED_WRITERS_MAX)]


class StagedEnd(msgspec.Struct, frozen=True):
    """`outcome` is `committed` or `already` of a commit, `aborted` or `already committed` of an abort. `dropped` is how
    many writers were aborted by the way."""

    outcome: str
    dropped: int


class OpenWriter(msgspec.Struct, frozen=True):
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
    partitions: list[TopicParts] = []


class Staged(msgspec.Struct, frozen=True):
    """An owner: the last batch that it committed (null before the first), when, and what it has staged."""

    owner: str
    last_batch: int | None
    updated: int | None
    open: list[OpenWriter]


class StagedOwner(msgspec.Struct, frozen=True):
    """The same in short: `open` is how many writers are staged."""

    owner: str
    last_batch: int | None
    updated: int | None
    open: int


class StagedOwnerList(msgspec.Struct, frozen=True):
    owners: list[StagedOwner]
