"""The lines of the audit log: what is the same within a second is one line and a count, so that a flood stays small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from goqueue.base.ids import Millis
from goqueue.base.limits import AUDIT_KINDS_PER_S, AUDIT_LINES_WAITING_MAX, AUDIT_NAME_CHARS_MAX
from goqueue.base.times import time_text

Happening: TypeAlias = Literal["refused", "change", "read", "login"]

_SECOND_MS: Final = 1000


class AuditEvent(msgspec.Struct, frozen=True):
    """Who did what through which door, to which things, and what came of it. Never a secret, never a message."""

    event: Happening
    user: str
    door: str
    host: str
    verb: str
    resources: tuple[str, ...]
    outcome: str


class AuditLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """`count` events that differ in nothing but their time, the last of them then. `node` is where it was, for who asks
    several; each writes its own lines without it."""

    time: str
    event: str
    user: str = ""
    door: str = ""
    host: str = ""
    verb: str = ""
    resources: tuple[str, ...] = ()
    outcome: str = ""
    count: int = 1
    node: int | None = None


class AuditLines:
    """Takes events, gives lines."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._second = -1
        self._again: dict[AuditEvent, int] = {}  # events of this second that have a line, and how often they came again
        self._others = 0  # events of this second that were too many to be told apart
        self._dropped = 0  # lines that nobody took

    def add(self, event: AuditEvent, now: Millis) -> None:
        self._close(now)
        if event in self._again:
            self._again[event] += 1
        elif len(self._again) >= AUDIT_KINDS_PER_S and event.event != "change":
            self._others += 1
        else:
            self._again[event] = 0
            self._write(now, event, 1)

    def take(self, now: Millis) -> Sequence[bytes]:
        """The lines since the last time."""
        self._close(now)
        if self._dropped and len(self._lines) < AUDIT_LINES_WAITING_MAX:
            self._append(AuditLine(time_text(now), "dropped", count=self._dropped))
            self._dropped = 0
        taken, self._lines = self._lines, []
        return taken

    def rest(self, now: Millis) -> Sequence[bytes]:
        """The same at the end, with all that was counted."""
        self._end_second(now)
        return self.take(now)

    def _close(self, now: Millis) -> None:
        if now // _SECOND_MS != self._second:
            self._end_second(now)
            self._second = now // _SECOND_MS

    def _end_second(self, now: Millis) -> None:
        for event, count in self._again.items():
            if count:
                self._write(now, event, count)
        if self._others:
            self._append(AuditLine(time_text(now), "more", count=self._others))
        self._again, self._others = {}, 0

    def _write(self, now: Millis, event: AuditEvent, count: int) -> None:
        named = tuple(one[:AUDIT_NAME_CHARS_MAX] for one in event.resources)
        user = event.user[:AUDIT_NAME_CHARS_MAX]
        told = (event.event, user, event.door, event.host, event.verb, named, event.outcome)
        self._append(AuditLine(time_text(now), *told, count))

    def _append(self, line: AuditLine) -> None:
        if len(self._lines) >= AUDIT_LINES_WAITING_MAX:
            self._dropped += 1
        else:
            self._lines.append(msgspec.json.encode(line) + b"\n")
