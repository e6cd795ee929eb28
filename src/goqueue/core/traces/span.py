"""The events of a message's life, and how they add up to a trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from goqueue.base.ids import Millis, Offset
from goqueue.base.tenants import is_within

Status = Literal["completed", "pending", "error"]

PUBLISHED: Final = "publish"  # all four of the following in short, for one of the many messages of a batch
CHECKED: Final = "checked_ns"  # where that says when the second and third were
RECEIVED: Final = "publish.received"
VALIDATED: Final = "publish.validated"
PARTITIONED: Final = "publish.partitioned"
PERSISTED: Final = "publish.persisted"
FETCHED: Final = "consume.fetched"
ACKED: Final = "consume.acked"
NACKED: Final = "consume.nacked"
REJECTED: Final = "consume.rejected"
EXPIRED: Final = "consume.expired"
SCHEDULED: Final = "delay.scheduled"
READY: Final = "delay.ready"
CANCELLED: Final = "delay.cancelled"
DELAY_EXPIRED: Final = "delay.expired"
TIMEOUT: Final = "visibility.timeout"
EXTENDED: Final = "visibility.extended"
RELEASED: Final = "visibility.released"
ROUTED: Final = "dlq.routed"
REDRIVEN: Final = "dlq.redriven"
TXN_ADDED: Final = "txn.added"
TXN_PREPARED: Final = "txn.prepared"
TXN_COMMITTED: Final = "txn.committed"
TXN_ABORTED: Final = "txn.aborted"

FAILURES: Final = frozenset({NACKED, REJECTED, EXPIRED, DELAY_EXPIRED, TIMEOUT, ROUTED, TXN_ABORTED})
_COMPLETE: Final = frozenset({ACKED, CANCELLED})

_TEXT_CHARS_MAX: Final = 200
_MILLION: Final = 1_000_000
_ID_MASK: Final = (1 << 64) - 1


class Span(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One event. It is over at `end_ns`; where it took time, that began at `start_ns`."""

    trace_id: str
    span_id: str
    name: str
    start_ns: int
    end_ns: int
    topic: str
    partition: int
    parent_id: str = ""
    offset: Offset = -1
    group: str = ""
    key: str = ""
    more: dict[str, str | int] = {}

    @property
    def is_failure(self) -> bool:
        return self.name in FAILURES


class TraceSummary(msgspec.Struct, frozen=True):
    """One message's life. Where it began: `topic`, `partition`, and the first offset that is known of it."""

    trace_id: str
    spans: Sequence[Span]  # in the order in which they happened

    @property
    def first(self) -> Span:
        return self.spans[0]

    @property
    def started_ns(self) -> int:
        return self.spans[0].start_ns

    @property
    def ended_ns(self) -> int:
        return self.spans[-1].end_ns

    @property
    def offset(self) -> Offset:
        return next((span.offset for span in self.spans if span.offset >= 0), -1)

    @property
    def key(self) -> str:
        return next((span.key for span in self.spans if span.key), "")

    @property
    def groups(self) -> list[str]:
        return sorted({span.group for span in self.spans if span.group})

    @property
    def status(self) -> Status:
        return status_of(self.spans[-1].name)


def spelled_out(span: Span) -> list[Span]:
    """The events that a span stands for: itself, as a rule."""
    if span.name != PUBLISHED:
        return [span]
    more = dict(span.more)
    checked, first = int(more.pop(CHECKED, span.end_ns)), int(span.span_id, 16)
    ids = [f"{first + number & _ID_MASK:016x}" for number in (1, 2, 3)]
    later = {"parent_id": span.span_id, "more": {}}
    return [
        replace(span, name=RECEIVED, end_ns=span.start_ns, more=more),
        replace(span, name=VALIDATED, span_id=ids[0], end_ns=checked, **later),
        replace(span, name=PARTITIONED, span_id=ids[1], start_ns=checked, end_ns=checked, **later),
        replace(span, name=PERSISTED, span_id=ids[2], start_ns=checked, **later),
    ]


def trace_of(trace_id: str, spans: Iterable[Span]) -> TraceSummary:
    """Each event once, in order."""
    once = {one.span_id: one for span in spans for one in spelled_out(span)}
    return TraceSummary(trace_id, sorted(once.values(), key=_when))


def _when(span: Span) -> int:
    return span.end_ns


def status_of(last: str) -> Status:
    """How a message stands, by the last that happened to it."""
    return "completed" if last in _COMPLETE else "error" if last in FAILURES else "pending"


class TraceFilter(msgspec.Struct, frozen=True):
    """Which traces are meant; everything given has to fit, some event of the trace each. Times bound one event."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    key: str | None = None
    status: Status | None = None
    from_ms: Millis | None = None
    to_ms: Millis | None = None
    tenant: str = ""  # events in topics of others are not looked at

    @property
    def wanted(self) -> int:
        """One bit for each thing that an event can fit."""
        given = (self.topic or self.partition is not None, self.group, self.key, self._has_times)
        return sum(1 << bit for bit, one in enumerate(given) if one)

    @property
    def _has_times(self) -> bool:
        return self.from_ms is not None or self.to_ms is not None

    def fits(self, span: Span) -> int:
        """The bits that an event fits."""
        here = (self.topic is None or span.topic == self.topic) and (
            self.partition is None or span.partition == self.partition
        )
        at_ms = span.end_ns // _MILLION
        then = (self.from_ms is None or at_ms >= self.from_ms) and (self.to_ms is None or at_ms < self.to_ms)
        return here | (span.group == self.group) << 1 | (span.key == self.key) << 2 | then << 3


class FoundTraces:
    """Goes through events and tells which traces fit, the last that something happened to first."""

    def __init__(self, chosen: TraceFilter) -> None:
        self._filter = chosen
        self._wanted = chosen.wanted
        self._traces: dict[str, tuple[int, int, str]] = {}  # what fitted, when the last was, and which

    def look(self, span: Span) -> None:
        if self._filter.tenant and not is_within(self._filter.tenant, span.topic):
            return
        fitted, last_ns, last = self._traces.get(span.trace_id, (0, 0, ""))
        fitted |= self._filter.fits(span)
        if span.end_ns >= last_ns:
            last_ns, last = span.end_ns, span.name
        self._traces[span.trace_id] = (fitted, last_ns, last)

    def newest(self, limit: int) -> list[str]:
        wanted, status = self._wanted, self._filter.status
        fitting = [
            (last_ns, trace_id)
            for trace_id, (fitted, last_ns, last) in self._traces.items()
            if fitted & wanted == wanted and (status is None or status_of(last) == status)
        ]
        return [trace_id for _, trace_id in sorted(fitting, reverse=True)[:limit]]


def key_text(key: bytes | None) -> str:
    """A key as traces show and search it; what is not UTF-8 in hexadecimal."""
    if not key:
        return ""
    begin = key[: 4 * _TEXT_CHARS_MAX]  # a character has at most four bytes
    try:
        return begin.decode()[:_TEXT_CHARS_MAX]
    except UnicodeDecodeError as error:
        if len(begin) < len(key) and error.reason == "unexpected end of data":
            return begin[: error.start].decode()[:_TEXT_CHARS_MAX]  # cut in the middle of a character
        return f"0x{begin.hex()}"[:_TEXT_CHARS_MAX]
