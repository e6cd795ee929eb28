"""What a report is made of: plain rows, whatever table they came from. Times are milliseconds since 1970.

A list that is None was never computed: its pipeline has not run on this lake. An empty list was computed and is empty.
"""

from __future__ import annotations

import msgspec


class Traffic(msgspec.Struct, frozen=True):
    """One window of a topic. `keys` are the different ones in it."""

    topic: str
    start_ms: int
    length_ms: int
    messages: int
    bytes: int
    keys: int


class Lane(msgspec.Struct, frozen=True):
    """One window of one priority, over all topics or of one."""

    lane: str
    topic: str
    start_ms: int
    length_ms: int
    messages: int


class Lag(msgspec.Struct, frozen=True):
    """How far a group was behind in a topic at one moment."""

    group: str
    topic: str
    at_ms: int
    messages: int


class StageRow(msgspec.Struct, frozen=True):
    """How long one part of messages' lives took, in microseconds."""

    name: str
    topic: str
    count: int
    p50_us: float
    p90_us: float
    p99_us: float
    max_us: float


class EventRow(msgspec.Struct, frozen=True):
    """One event of a trace: `at_us` after its start it was over, having taken `took_us`."""

    name: str
    at_us: int
    took_us: int = 0


class TraceRow(msgspec.Struct, frozen=True):
    """One message's life."""

    trace_id: str
    topic: str
    partition: int
    offset: int | None
    status: str
    took_us: int
    events: tuple[EventRow, ...] = ()


class Failure(msgspec.Struct, frozen=True):
    """How often one thing went wrong in traces: a refusal's words, a lease that ran out."""

    name: str
    topic: str
    reason: str
    count: int


class DeadLetterRow(msgspec.Struct, frozen=True):
    """Dead letters that died of the same: one reason, one fingerprint of the error."""

    topic: str
    group: str
    reason: str
    fingerprint: str
    count: int
    first_ms: int
    last_ms: int
    schema: str = ""
    error: str = ""
    example: str = ""


class Deaths(msgspec.Struct, frozen=True):
    """Dead letters of one reason in one window."""

    reason: str
    start_ms: int
    length_ms: int
    count: int


class CheckedRow(msgspec.Struct, frozen=True):
    """Rows of a topic that were checked, and those of them in quarantine."""

    topic: str
    rows: int
    bad: int


class BreakRow(msgspec.Struct, frozen=True):
    """How often one rule was broken, with one of the values that broke it."""

    topic: str
    rule: str
    count: int
    example: str = ""


class Drift(msgspec.Struct, frozen=True):
    """A field whose share, type or range changed between two halves of the time looked at."""

    topic: str
    field: str
    change: str
    before: str = ""
    after: str = ""


class Table(msgspec.Struct, frozen=True):
    """A Delta table of the lake. `small` are the files below the size that `compact` makes."""

    name: str
    rows: int
    files: int
    bytes: int
    small: int
    version: int
    written_ms: int


class AuditRow(msgspec.Struct, frozen=True):
    """One partition in the archive: how many offsets are missing, and how many are there more than once.

    Of the missing ones `explained` never held a message, `expired` were removed by age, `lost` are in the node's log
    and not here, and nobody knows about `unknown`.
    """

    topic: str
    partition: int
    first: int
    last: int
    rows: int
    explained: int
    expired: int
    lost: int
    unknown: int
    doubled: int

    @property
    def wrong(self) -> int:
        """What somebody should look at."""
        return self.lost + self.unknown + self.doubled


class Hole(msgspec.Struct, frozen=True):
    """One gap or overlap: offsets `start` to `end`, both included, and what is known about it."""

    topic: str
    partition: int
    kind: str
    verdict: str
    start: int
    end: int


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that a page tells."""

    lake: str
    made_ms: int
    traffic: list[Traffic] | None = None
    lanes: list[Lane] | None = None
    lags: list[Lag] | None = None
    stages: list[StageRow] | None = None
    slowest: list[TraceRow] | None = None
    failures: list[Failure] | None = None
    letters: list[DeadLetterRow] | None = None
    deaths: list[Deaths] | None = None
    checked: list[CheckedRow] | None = None
    breaks: list[BreakRow] | None = None
    drifts: list[Drift] | None = None
    tables: list[Table] | None = None
    audits: list[AuditRow] | None = None
    holes: list[Hole] | None = None
