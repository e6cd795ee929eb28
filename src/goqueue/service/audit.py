"""The audit log: each refusal, each change, each look of an administrator at messages, as one line of JSON.

Lines are written a moment later, off the loop. A disk that fails keeps nobody from anything but is complained about.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from goqueue.base.access import Need
from goqueue.base.clock import Clock
from goqueue.base.commands import Caller
from goqueue.base.security_settings import SecuritySettings
from goqueue.core.audit_lines import AuditEvent, AuditLines, Happening
from goqueue.drive.audit_file import AuditFile
from goqueue.drive.offload import Offload
from goqueue.drive.repeating import Repeating

logger = logging.getLogger(__name__)

EVERY_S: Final = 0.2


class AuditLog:
    """Told on the loop."""

    def __init__(self, settings: SecuritySettings, clock: Clock, offload: Offload) -> None:
        self._file = AuditFile(Path(settings.audit_log), settings.audit_log_bytes)
        self._clock = clock
        self._offload = offload
        self._lines = AuditLines()
        self._repeating = Repeating(EVERY_S, self._write)

    def note(self, event: Happening, caller: Caller, verb: str, needs: Sequence[Need], outcome: str) -> None:
        things = tuple(f"{operation.value} {resource}" for operation, resource in needs)
        told = AuditEvent(event, caller.principal, caller.door, caller.host, verb, things, outcome)
        self._lines.add(told, self._clock.now_ms())

    def start(self) -> None:
        self._repeating.start()

    async def stop(self) -> None:
        """What was told is in the file."""
        await self._repeating.stop()
        await self._append(self._lines.rest(self._clock.now_ms()))

    async def _write(self) -> None:
        await self._append(self._lines.take(self._clock.now_ms()))

    async def _append(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        try:
            await self._offload(lambda: self._file.append(lines))
        except OSError as error:
            logger.error("lines of the audit log are lost", extra={"lines": len(lines), "error": str(error)})
