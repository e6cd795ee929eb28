"""Traced messages of open transactions: their end is an event of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from goqueue.base.ids import Offset
from goqueue.base.trace_context import TraceContext
from goqueue.core.traces.span import TXN_ABORTED, TXN_ADDED, TXN_COMMITTED, TXN_PREPARED, Span
from goqueue.service.tracer import Sampled, Tracer

_EACH_MAX: Final = 1_000  # messages of one transaction
_ALL_MAX: Final = 10_000


class _Added(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partition: int
    offset: Offset
    context: TraceContext
    key: str


class TracedTransactions:
    """By producer id, as batches name them."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: dict[int, list[_Added]] = {}
        self._count = 0
        self.forgotten = 0  # whose end will not be told

    def added(self, producer_id: int, topic: str, partition: int, messages: Iterable[Sampled]) -> None:
        for one in messages:
            self._note(producer_id, _Added(topic, partition, one.offset, one.context, one.key))

    def _note(self, producer_id: int, one: _Added) -> None:
        known = self._open.setdefault(producer_id, [])
        if len(known) < _EACH_MAX and self._count < _ALL_MAX:
            known.append(one)
            self._count += 1
        else:
            self.forgotten += 1

    def prepared(self, producer_id: int, transactional_id: str, commits: bool) -> None:
        outcome = "commit" if commits else "abort"
        self._tell(TXN_PREPARED, self._open.get(producer_id, ()), transactional_id, {"outcome": outcome})

    def ended(self, producer_id: int, transactional_id: str, commits: bool) -> None:
        done = self._open.pop(producer_id, [])
        self._count -= len(done)
        self._tell(TXN_COMMITTED if commits else TXN_ABORTED, done, transactional_id, {})

    def _tell(self, name: str, messages: Iterable[_Added], transactional_id: str, more: dict[str, str | int]) -> None:
        for one in messages:
            told = {"transactional_id": transactional_id, **more}
            at = (one.context, one.topic, one.partition, one.offset)
            self._tracer.emit(name, *at, key=one.key, more=told)

    def recall(self, spans: Iterable[Span]) -> None:
        """After a start: what the last life saw of transactions that may still be open."""
        found: dict[str, tuple[int, _Added]] = {}
        for span in spans:
            if span.name == TXN_ADDED:
                context = TraceContext(span.trace_id, span.parent_id)
                added = _Added(span.topic, span.partition, span.offset, context, span.key)
                found[span.trace_id] = (int(span.more.get("producer_id", -1)), added)
            elif span.name in (TXN_COMMITTED, TXN_ABORTED):
                found.pop(span.trace_id, None)
        for producer_id, added in found.values():
            self._note(producer_id, added)
