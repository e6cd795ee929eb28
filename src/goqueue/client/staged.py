"""Staged sets as Python users have them, and the requests for them. See docs/staged.md for what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec

from goqueue.api.staged import (
    OpenWriter,
    Staged,
    StagedCommitIn,
    StagedEnd,
    StagedOwner,
    StagedOwnerList,
    StagedWriterId,
    StagedWriterIdIn,
    WriterIn,
)
from goqueue.base.decoders import from_json
from goqueue.client import checks
from goqueue.client.calls import RestCall
from goqueue.client.errors import invalid

__all__ = [
    "OpenWriter",
    "Staged",
    "StagedEnd",
    "StagedOwner",
    "StagedWriterId",
    "abort",
    "commit",
    "owners",
    "stage",
    "staged",
]

T = TypeVar("T")


def stage(owner: str, batch: int, writer: str | int, attempt: int, timeout_s: float) -> RestCall[StagedWriterId]:
    checks.whole_number(batch, "batch")
    checks.whole_number(attempt, "attempt")
    checks.seconds(timeout_s, "timeout_s")
    body = WriterIn(str(writer), attempt, round(timeout_s * 1000))
    path = f"{_path(owner)}/{batch}/writers"
    return RestCall("POST", path, _reader(StagedWriterId), body=msgspec.json.encode(body))


def commit(owner: str, batch: int, writers: Sequence[StagedWriterId]) -> RestCall[StagedEnd]:
    named = [StagedWriterIdIn(*msgspec.structs.astuple(one)) for one in writers]
    body = msgspec.json.encode(StagedCommitIn(named))
    return RestCall("POST", f"{_path(owner)}/{batch}/commit", _reader(StagedEnd), body=body)


def abort(owner: str, batch: int) -> RestCall[StagedEnd]:
    return RestCall("POST", f"{_path(owner)}/{batch}/abort", _reader(StagedEnd))


def staged(owner: str) -> RestCall[Staged]:
    return RestCall("GET", _path(owner), _reader(Staged))


def owners(limit: int) -> RestCall[list[StagedOwner]]:
    def read(status: int, body: bytes) -> list[StagedOwner]:
        return from_json(body, StagedOwnerList).owners

    return RestCall("GET", "/staged", read, {"limit": str(limit)})


def _path(owner: str) -> str:
    """An owner may hold anything; an empty one or `..` would silently be another route."""
    if owner in ("", ".", ".."):
        raise invalid("An owner is 1 to 200 characters, and neither . nor ..", "owner")
    return f"/staged/{quote(owner, safe='', errors='replace')}"


def _reader(kind: type[T]) -> Callable[[int, bytes], T]:
    return lambda status, body: from_json(body, kind)
