"""Reading the audit log: the newest lines that fit, the newest first, of this node or of all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.decoders import from_json
from goqueue.base.errors import GoQueueError
from goqueue.base.limits import AUDIT_BYTES_READ_MAX
from goqueue.core.audit_lines import AuditLine
from goqueue.drive.offload import Offload
from goqueue.service.router import Router, may_pass, together

_BLOCK: Final = 256 * 1024


class AuditPage(msgspec.Struct, frozen=True):
    """`is_kept`: some node keeps an audit log. What happened at `silent` nodes is missing: they did not answer."""

    lines: list[AuditLine]
    is_kept: bool
    silent: list[int] = []


class AuditTrail:
    """`path` is empty where no audit log is kept."""

    def __init__(self, path: str, offload: Offload) -> None:
        self._path = path
        self._offload = offload

    async def page(self, limit: int, user: str = "", event: str = "", text: str = "") -> AuditPage:
        """Of the last megabytes of the file, and of the one that was moved aside before it."""
        found = await self._offload(lambda: self._found(limit, user, event, text)) if self._path else []
        return AuditPage(found, bool(self._path))

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


class RoutedAudit:
    """Every node writes what it was asked: all that live are asked for their lines."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def page(self, limit: int, user: str = "", event: str = "", text: str = "") -> AuditPage:
        nodes = sorted({self._router.shards.node, *self._router.shards.nodes()})
        pages = await together(self._try(node, limit, user, event, text) for node in nodes)
        told = {node: page for node, page in zip(nodes, pages, strict=True) if page is not None}
        lines = [msgspec.structs.replace(line, node=node) for node, page in told.items() for line in page.lines]
        newest = sorted(lines, key=lambda one: one.time, reverse=True)[:limit]
        silent = [node for node in nodes if node not in told]
        return AuditPage(newest, any(one.is_kept for one in told.values()), silent)

    async def _try(self, node: int, *args: object) -> AuditPage | None:
        try:
            found: AuditPage = await self._router.ask(node, AuditTrail, "page", args)
        except GoQueueError as error:
            if node == self._router.shards.node or not may_pass(error, repeatable=True):
                raise
            return None
        return found


def _line(raw: bytes) -> AuditLine | None:
    try:
        return from_json(raw, AuditLine)
    except msgspec.MsgspecError:
        return None
