"""Requests about backups."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from goqueue.api.backups import BackupFilesOut, BackupOut, BackupPart, BackupReadIn
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall


def begin_backup() -> RestCall[BackupOut]:
    return RestCall("POST", "/admin/backups", lambda status, body: from_json(body, BackupOut))


def backup_files(name: str, after: int) -> RestCall[BackupFilesOut]:
    query = {"after": str(after)}
    return RestCall("GET", f"{_path(name)}/files", lambda status, body: from_json(body, BackupFilesOut), query=query)


def read_backup(name: str, parts: Sequence[BackupPart], digests: bool = False) -> RestCall[bytes]:
    body = msgspec.json.encode(BackupReadIn(list(parts), digests))
    return RestCall("POST", f"{_path(name)}/read", lambda status, answer: answer, body=body)


def end_backup(name: str) -> RestCall[None]:
    return RestCall("DELETE", _path(name), lambda status, body: None)


def _path(name: str) -> str:
    return f"/admin/backups/{name}"
