"""Reading the audit log of this node: its newest lines that fit, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.base.limits import AUDIT_BYTES_READ_MAX
from goqueue.core.audit_lines import AuditLine
from goqueue.drive.offload import Offload

_BLOCK: Final = 256 * 1024


class AuditTrail:
    """`path` is empty where no audit log is kept."""

    def __init__(self, path: str, offload: Offload) -> None:
        self._path = path
        self._offload = offload

    @property
    def is_kept(self) -> bool:
        return bool(self._path)

    async def lines(self, limit: int, user: str = "", event: str = "", text: str = "") -> list[AuditLine]:
        """Of the last megabytes of the file, and of the one that was moved aside before it."""
        return await self._offload(lambda: self._found(limit, user, event, text)) if self._path else []

    def _found(self, limit: int, user: str, event: str, text: str) -> list[AuditLine]:
        found: list[AuditLine] = []
        for raw in self._backwards():
            line = _line(raw)
            if (
                line is None
                or (event and line.event != event)
                or (user and user not in (line.user, f"User:{line.user}"))
            ):
                continue
            if not text or text in line.verb or text in line.outcome or any(text in one for one in line.resources):
                found.append(line)
            if len(found) >= limit:
                break
        return found

    def _backwards(self) -> Iterator[bytes]:
        left = AUDIT_BYTES_READ_MAX
        for path in (Path(self._path), Path(f"{self._path}.1")):
            try:
                with path.open("rb") as file:
                    at = file.seek(0, 2)
                    rest = b""
                    while at > 0 and left > 0:
                        size = min(_BLOCK, at, left)
                        at, left = at - size, left - size
                        file.seek(at)
                        first, *whole = (file.read(size) + rest).split(b"\n")
                        yield from reversed([one for one in whole if one])
                        rest = first
                    if at == 0 and rest:
                        yield rest
            except OSError:
                continue  # it was never written, or is being moved aside


def _line(raw: bytes) -> AuditLine | None:
    try:
        return from_json(raw, AuditLine)
    except msgspec.MsgspecError:
        return None
