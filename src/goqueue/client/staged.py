"""Staged sets as Python users have them, and the requests for them. See docs/staged.md for what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec

from goqueue.client import checks
from goqueue.client.calls import RestCall
from goqueue.client.errors import invalid
from goqueue.client.replies import TopicParts

T = TypeVar("T")


class StagedWriterId(msgspec.Struct, frozen=True, omit_defaults=True):
    """A writer of a batch: who it is for every write, and what the commit names. A commit that is told how many
    `messages` the writer stored refuses if some were lost in a power cut."""

    transactional_id: str
    producer_id: int
    epoch: int
    messages: int | None = None


class StagedEnd(msgspec.Struct, frozen=True):
    """`outcome` is `committed` or `already` of a commit, `aborted` or `already committed` of an abort. `dropped` is how
    many writers were aborted by the way."""

    outcome: str
    dropped: int


class OpenWriter(msgspec.Struct, frozen=True):
    """A writer whose messages wait for the commit of their batch."""

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
    """An owner: the last batch that it committed (None before the first), when, and what it has staged."""

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


class _Owners(msgspec.Struct):
    owners: list[StagedOwner]


def stage(owner: str, batch: int, writer: str | int, attempt: int, timeout_s: float) -> RestCall[StagedWriterId]:
    checks.whole_number(batch, "batch")
    checks.whole_number(attempt, "attempt")
    checks.seconds(timeout_s, "timeout_s")
    body = {"writer": str(writer), "attempt": attempt, "timeout": round(timeout_s * 1000)}
    path = f"{_path(owner)}/{batch}/writers"
    return RestCall("POST", path, _reader(StagedWriterId), body=msgspec.json.encode(body))


def commit(owner: str, batch: int, writers: Sequence[StagedWriterId]) -> RestCall[StagedEnd]:
    body = msgspec.json.encode({"writers": writers})
    return RestCall("POST", f"{_path(owner)}/{batch}/commit", _reader(StagedEnd), body=body)


def abort(owner: str, batch: int) -> RestCall[StagedEnd]:
    return RestCall("POST", f"{_path(owner)}/{batch}/abort", _reader(StagedEnd))


def staged(owner: str) -> RestCall[Staged]:
    return RestCall("GET", _path(owner), _reader(Staged))


def owners(limit: int) -> RestCall[list[StagedOwner]]:
    def read(status: int, body: bytes) -> list[StagedOwner]:
        return msgspec.json.decode(body, type=_Owners).owners

    return RestCall("GET", "/staged", read, {"limit": str(limit)})


def _path(owner: str) -> str:
    """An owner may hold anything; an empty one or `..` would silently be another route."""
    if owner in ("", ".", ".."):
        raise invalid("An owner is 1 to 200 characters, and neither . nor ..", "owner")
    return f"/staged/{quote(owner, safe='', errors='replace')}"


def _reader(kind: type[T]) -> Callable[[int, bytes], T]:
    return lambda status, body: msgspec.json.decode(body, type=kind)
