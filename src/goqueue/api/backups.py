"""Backups of a running node, as REST shows them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.base.limits import BACKUP_PARTS_MAX, BACKUP_READ_BYTES_MAX


class BackupOut(msgspec.Struct, frozen=True):
    """One under way: the files as they were at `taken_ms`. `pause_ms` is how long the node stood still; of several, the
    one that did so longest. `nodes` are those of a cluster; empty of one machine."""

    id: str
    taken_ms: int
    version: str
    files: int
    size_bytes: int
    pause_ms: float
    nodes: list[int] = []


class BackupListOut(msgspec.Struct, frozen=True):
    backups: list[BackupOut]


class BackupFileOut(msgspec.Struct, frozen=True):
    """A file with the same path and `version` as before has the same bytes; one without a version may differ."""

    path: str
    size_bytes: int
    version: str


class BackupFilesOut(msgspec.Struct, frozen=True):
    """`next` is where the rest of the list begins; null at its end."""

    files: list[BackupFileOut]
    next: int | None


class BackupPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`file` is its number in the list, from 0."""

    file: Annotated[int, msgspec.Meta(ge=0)]
    position: Annotated[int, msgspec.Meta(ge=0)]
    size: Annotated[int, msgspec.Meta(ge=0, le=BACKUP_READ_BYTES_MAX)]


class BackupReadIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer has the parts' bytes one behind the other, at most 4 MiB; with `digests` their SHA-256, 32 bytes of
    each part."""

    parts: Annotated[list[BackupPart], msgspec.Meta(min_length=1, max_length=BACKUP_PARTS_MAX)]
    digests: bool = False
