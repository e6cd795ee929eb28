"""Traces of what is handed out: leases, answers, leases that run out, dead letters and their way back.

The trace of a message in a consumer's hands is kept beside its lease, so that an answer finds it without a look into
the log; only those that are traced are kept. A start recalls them from the last events on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from goqueue.base.header_values import text_in
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.trace_context import TraceContext, context_of, with_context
from goqueue.core.dead_letter import PREFIX, REDRIVEN_FROM_HEADER, REDRIVES_HEADER
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.records import (
    Acked,
    DeadLettering,
    Extended,
    Opened,
    Passed,
    RangesAcked,
    Returned,
    ViewId,
    unpack_cells,
)
from goqueue.core.delivery.records import Record as Move
from goqueue.core.delivery.tally import EXPIRED as LEASE_EXPIRED
from goqueue.core.delivery.tally import REJECTED as WAS_REJECTED
from goqueue.core.traces.span import (
    ACKED,
    EXPIRED,
    EXTENDED,
    FETCHED,
    NACKED,
    REDRIVEN,
    REJECTED,
    RELEASED,
    ROUTED,
    TIMEOUT,
    Span,
    key_text,
)
from goqueue.drive.topic_table import Topic
from goqueue.format.records import NewRecord, Record
from goqueue.service.leased_run import has_headers
from goqueue.service.topics import Topics
from goqueue.service.tracer import Tracer

HELD_MAX: Final = 100_000  # traced messages in consumers' hands
_ENDS: Final = frozenset({ACKED, NACKED, REJECTED, TIMEOUT, RELEASED})

More = dict[str, str | int]


class _Lease(msgspec.Struct, frozen=True, gc=False):
    context: TraceContext
    since_ns: int
    key: str


class TracedLeases:
    """For the queue's verbs and their runner."""

    def __init__(self, tracer: Tracer, topics: Topics, is_known: Callable[[ViewId], bool]) -> None:
        self._tracer = tracer
        self._topics = topics
        self._is_known = is_known
        self._held: dict[ViewId, dict[Offset, _Lease]] = {}
        self._count = 0
        self.forgotten = 0  # whose answers will not be told

    @property
    def held(self) -> int:
        return self._count

    # --- handing out ---------------------------------------------------------------------------------------

    def leased(self, delivery: Delivery, records: Sequence[Record], owner: str, lease_ms: Millis) -> Sequence[Record]:
        """Just handed out. Consumers get the header also of those whose producers sent none."""
        view = delivery.view
        topic = self._topics.find(view.topic)
        if topic is None or self._is_plain(topic, records):
            return records
        shown: list[Record] | None = None
        for place, record in enumerate(records):
            context = self._tracer.context(topic, view.partition, record)
            if context is None:
                continue
            self._fetched(
                view, record, context, {"attempt": delivery.tracked(record.offset).handed, "owner": owner}, lease_ms
            )
            if context_of(record.headers) is None:
                shown = list(records) if shown is None else shown
                shown[place] = replace(record, headers=with_context(record.headers, context))
        return records if shown is None else shown

    def share(self, topic: Topic) -> int | None:
        """0 if only messages are traced whose producers say so; None if none is looked at."""
        return self._tracer.share(topic)

    def _is_plain(self, topic: Topic, records: Iterable[Record]) -> bool:
        share = self._tracer.share(topic)
        return share is None or (not share and not has_headers(records))

    def _fetched(self, view: ViewId, record: Record, context: TraceContext, more: More, lease_ms: Millis) -> None:
        key = key_text(record.key)
        at = (context, view.topic, view.partition, record.offset)
        self._tracer.emit(FETCHED, *at, group=view.group, key=key, more={**more, "lease_ms": lease_ms})
        self._keep(view, record.offset, _Lease(context, self._tracer.now_ns(), key))

    def shift(self, by_ms: Millis) -> None:
        """The clock was set: how long a lease lasts must not change with it."""
        for known in self._held.values():
            for offset, lease in known.items():
                known[offset] = replace(lease, since_ns=lease.since_ns + by_ms * 1_000_000)

    def _keep(self, view: ViewId, offset: Offset, lease: _Lease) -> None:
        if self._count >= HELD_MAX:
            self._sweep()
        if self._count >= HELD_MAX:
            self.forgotten += 1
            return
        known = self._held.setdefault(view, {})
        self._count += offset not in known
        known[offset] = lease

    def _sweep(self) -> None:
        """What belongs to groups and topics that are gone."""
        for view in [view for view in self._held if not self._is_known(view)]:
            self._count -= len(self._held.pop(view))

    def expired(self, view: ViewId, records: Iterable[Record]) -> None:
        """These are too old to be handed out."""
        topic = self._topics.find(view.topic)
        for record in records:
            context = None if topic is None else self._tracer.context(topic, view.partition, record)
            if context is not None:
                at = (context, view.topic, view.partition, record.offset)
                self._tracer.emit(EXPIRED, *at, group=view.group, key=key_text(record.key))

    # --- what becomes of leases ----------------------------------------------------------------------------

    def moved(self, view: ViewId, moves: Sequence[Move]) -> None:
        """The view wrote these down."""
        held = self._held.get(view)
        if not held:
            return
        for move in moves:
            match move:
                case Acked():
                    self._end(view, ACKED, _among(held, move.offsets), {})
                case RangesAcked():
                    self._end(view, ACKED, _between(held, move.ends), {})
                case Returned(is_expired=True):
                    self._end(view, TIMEOUT, _among(held, move.offsets), {"reason": LEASE_EXPIRED})
                case Returned():
                    self._end(view, NACKED if move.is_failure else RELEASED, _among(held, move.offsets), {})
                case DeadLettering():
                    offsets = _among(held, [offset for _, offset in unpack_cells(move.cells)])
                    self._end(view, _verdict(move.reason), offsets, {"reason": move.text or move.reason})
                case Extended(owner=None):
                    self._extended(view, _among(held, move.offsets), move.until_ms)
                case Passed():
                    self._end(view, ACKED, [one for one in held if one < move.offset], {"by": "commit"})
                case Opened():
                    self._end(view, RELEASED, list(held), {"by": "reset"})
                case _:
                    pass
        if not held:
            self._held.pop(view, None)

    def _end(self, view: ViewId, name: str, offsets: Iterable[Offset], more: More) -> None:
        for offset in offsets:
            lease = self._held[view].pop(offset)
            self._count -= 1
            at = (lease.context, view.topic, view.partition, offset)
            self._tracer.emit(name, *at, group=view.group, key=lease.key, start_ns=lease.since_ns, more=more)

    def _extended(self, view: ViewId, offsets: Iterable[Offset], until_ms: Millis) -> None:
        for offset in offsets:
            lease = self._held[view][offset]
            at = (lease.context, view.topic, view.partition, offset)
            self._tracer.emit(EXTENDED, *at, group=view.group, key=lease.key, more={"until": until_ms})

    # --- dead letters --------------------------------------------------------------------------------------

    def carry(self, view: ViewId, message: Record, copy: NewRecord) -> NewRecord:
        """The copy of a message whose trace follows from its old place takes it along to the new one."""
        if context_of(copy.headers) is not None:
            return copy
        topic = self._topics.find(view.topic)
        context = None if topic is None else self._tracer.context(topic, view.partition, message)
        return copy if context is None else replace(copy, headers=with_context(copy.headers, context))

    def copied(self, at: TopicPartition, base: Offset, copies: Sequence[NewRecord], is_burial: bool) -> None:
        """They are safe in their new place: dead letters, or back from there."""
        for offset, copy in enumerate(copies, base):
            context = context_of(copy.headers)
            if context is not None and context.is_sampled:
                told = {name: text_in(value) for name, value in copy.headers}
                name, group, more = _routed(told) if is_burial else _redriven(told)
                place = (context, at.topic, at.partition, offset)
                self._tracer.emit(name, *place, group=group, key=key_text(copy.key), more=more)

    # --- after a start -------------------------------------------------------------------------------------

    def recall(self, spans: Iterable[Span]) -> None:
        """What the last life saw of leases that may still hold."""
        found: dict[tuple[ViewId, Offset], _Lease] = {}
        for span in spans:
            place = (ViewId(span.group, span.topic, span.partition), span.offset)
            if span.name == FETCHED:
                found[place] = _Lease(TraceContext(span.trace_id, span.parent_id), span.end_ns, span.key)
            elif span.name in _ENDS:
                found.pop(place, None)
        for (view, offset), lease in found.items():
            self._keep(view, offset, lease)


def _among(held: Mapping[Offset, _Lease], offsets: Collection[Offset]) -> list[Offset]:
    """Those that are traced; however many answers there are, few of them are."""
    return sorted(held.keys() & offsets)


def _between(held: Iterable[Offset], ends: Sequence[Offset]) -> list[Offset]:
    pairs = list(zip(ends[::2], ends[1::2], strict=True))
    return sorted(offset for offset in held if any(first <= offset <= last for first, last in pairs))


def _verdict(reason: str) -> str:
    return {WAS_REJECTED: REJECTED, LEASE_EXPIRED: TIMEOUT}.get(reason, NACKED)


def _routed(told: Mapping[str, str]) -> tuple[str, str, More]:
    place = "/".join(told.get(f"{PREFIX}{name}", "") for name in ("topic", "partition", "offset"))
    more: More = {"from": place, "reason": told.get(f"{PREFIX}reason", ""), "error": told.get(f"{PREFIX}error", "")}
    return ROUTED, told.get(f"{PREFIX}group", ""), {name: value for name, value in more.items() if value}


def _redriven(told: Mapping[str, str]) -> tuple[str, str, More]:
    more: More = {"from": told.get(REDRIVEN_FROM_HEADER, ""), "redrives": told.get(REDRIVES_HEADER, "")}
    return REDRIVEN, "", more
