"""What everything that records events shares: which topics are traced, ids, and the way to the recorder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.delays import DELAY_HEADERS, EXPIRES_HEADER
from goqueue.base.entropy import Entropy
from goqueue.base.ids import Offset
from goqueue.base.priority import HEADER as PRIORITY
from goqueue.base.trace_context import TraceContext, context_of
from goqueue.core.traces.sampling import WHOLE, Identities, is_chosen, phase_of, share_of
from goqueue.core.traces.span import (
    CHECKED,
    PARTITIONED,
    PERSISTED,
    PUBLISHED,
    RECEIVED,
    TXN_ADDED,
    VALIDATED,
    Span,
    key_text,
)
from goqueue.drive.topic_table import Topic
from goqueue.drive.trace_entries import encode_lines
from goqueue.drive.trace_recorder import Recorder
from goqueue.format.records import Record

_BLANK: Final = 1 << 62  # stands for an offset
_AT_ONCE: Final = 100  # lines that are formatted in one go
BROKERS_OWN: Final = "goqueue-"  # what the headers begin with that say that the broker wrote a message itself
PRODUCERS: Final = frozenset({PRIORITY, EXPIRES_HEADER, *DELAY_HEADERS})  # those that producers set


class Ids:
    """Span ids: from a random place on, so that no two lives of a node share any."""

    def __init__(self, entropy: Entropy) -> None:
        self._next = int.from_bytes(entropy.token(7), "big") + 1  # far from the end of 64 bits

    def __call__(self) -> str:
        return f"{self.take(1):016x}"

    def take(self, count: int) -> int:
        """The first of so many."""
        first, self._next = self._next, self._next + count
        return first


class Sampled(msgspec.Struct, frozen=True, gc=False):
    """A message that is traced. `is_root` if its trace begins here and not with its producer."""

    offset: Offset
    context: TraceContext
    is_root: bool
    key: str = ""


class Steps(msgspec.Struct, frozen=True):
    """When a publish came in, was checked, and was done."""

    received_ns: int
    checked_ns: int
    done_ns: int


class Tracer:
    def __init__(self, recorder: Recorder, sample_rate: float, clock: Clock, entropy: Entropy) -> None:
        self.recorder = recorder
        self.ids = Ids(entropy)
        self._clock = clock
        self._shares: dict[str, int | None] = {"default": share_of(sample_rate), "on": WHOLE, "off": None}

    def now_ns(self) -> int:
        return self._clock.now_ns()

    def share(self, topic: Topic) -> int | None:
        """How many of the topic's messages are traced, in parts of `WHOLE`; None if none is even looked at."""
        asked = topic.config.trace
        if asked not in self._shares:
            self._shares[asked] = share_of(float(asked))
        return self._shares[asked]

    def context(self, topic: Topic, partition: int, record: Record) -> TraceContext | None:
        """The trace of a message that is met again, if it has one."""
        share = self.share(topic)
        if share is None or (not share and not record.headers):
            return None
        found = context_of(record.headers)
        if found is not None:
            return found if found.is_sampled else None
        if not share or not is_chosen(record.offset, share, phase_of(topic.record.id, partition)):
            return None
        if any(name.startswith(BROKERS_OWN) and name not in PRODUCERS for name, _ in record.headers):
            return None  # its life began elsewhere
        return Identities(topic.record.id, partition).of(record.offset)

    def emit(
        self,
        name: str,
        context: TraceContext,
        topic: str,
        partition: int,
        offset: Offset = -1,
        *,
        group: str = "",
        key: str = "",
        start_ns: int | None = None,
        more: dict[str, str | int] | None = None,
    ) -> None:
        """Something happened, just now; `start_ns` is when it began, if it took time."""
        now = self._clock.now_ns()
        began = now if start_ns is None else min(start_ns, now)
        at = (topic, partition, context.span_id, offset, group, key)
        self.recorder.add(Span(context.trace_id, self.ids(), name, began, now, *at, more or {}))


class Published(msgspec.Struct, frozen=True):
    """What a publish did with those of its messages that are traced."""

    topic: str
    partition: int
    steps: Steps
    door: str
    first_id: int  # of as many as there are spans
    sampled: Sequence[Sampled]
    waits: bool = False  # they are not in the log yet
    producer_id: int = -1  # of the transaction that they are part of

    @property
    def each(self) -> int:
        return 3 if self.waits else 4 + (self.producer_id >= 0)

    @property
    def count(self) -> int:
        return self.each * len(self.sampled)

    def spans(self) -> list[Span]:
        ids = map("{:016x}".format, count(self.first_id))
        return [span for one in self.sampled for span in self._spans_of(one, ids)]

    def lines(self) -> bytes:
        return encode_lines(self.spans())

    def _spans_of(self, one: Sampled, ids: Iterator[str]) -> Iterator[Span]:
        """The first is the root of a trace that begins here; the others follow from it, or from the producer's."""
        steps, cause = self.steps, one.context.span_id
        first, parent = (cause, "") if one.is_root else (next(ids), cause)
        yield self._span(one, first, RECEIVED, steps.received_ns, steps.received_ns, parent, {"door": self.door})
        yield self._span(one, next(ids), VALIDATED, steps.received_ns, steps.checked_ns, cause, {})
        yield self._span(one, next(ids), PARTITIONED, steps.checked_ns, steps.checked_ns, cause, {})
        if not self.waits:
            yield self._span(one, next(ids), PERSISTED, steps.checked_ns, steps.done_ns, cause, {})
        if self.producer_id >= 0:
            told: dict[str, str | int] = {"producer_id": self.producer_id}
            yield self._span(one, next(ids), TXN_ADDED, steps.done_ns, steps.done_ns, cause, told)

    def _span(
        self, one: Sampled, span_id: str, name: str, start: int, end: int, parent: str, more: dict[str, str | int]
    ) -> Span:
        when = (name, start, end, self.topic, self.partition, parent)
        return Span(one.context.trace_id, span_id, *when, one.offset, "", one.key, more)


class PublishedBatch(msgspec.Struct, frozen=True):
    """The same for a batch that nobody decoded: offsets are all that is known of its messages.

    There may be tens of thousands of these a second, so that each gets one span, which stands for all of its steps.
    """

    topic: str
    topic_id: str
    partition: int
    steps: Steps
    door: str
    offsets: Sequence[Offset]

    @property
    def count(self) -> int:
        return len(self.offsets)

    def spans(self) -> list[Span]:
        identities = Identities(self.topic_id, self.partition)
        return [self._span(identities.trace_id(at), identities.span_id(at), at) for at in self.offsets]

    def _span(self, trace_id: str, span_id: str, offset: Offset) -> Span:
        steps = self.steps
        more: dict[str, str | int] = {"door": self.door, CHECKED: steps.checked_ns}
        where = (self.topic, self.partition, "", offset, "", "", more)
        return Span(trace_id, span_id, PUBLISHED, steps.received_ns, steps.done_ns, *where)

    def lines(self) -> bytes:
        """Written by a form, since only ids and offsets differ."""
        identities = Identities(self.topic_id, self.partition)
        blank = encode_lines([self._span(identities.prefix + "%016x", "%016x", _BLANK)])
        form = blank.replace(b'"offset":%d' % _BLANK, b'"offset":%d')
        parts = (self.offsets[at : at + _AT_ONCE] for at in range(0, len(self.offsets), _AT_ONCE))
        return b"".join(form * len(part) % tuple(identities.flat(part)) for part in parts)


def sampled_of(offset: Offset, key: bytes | None, context: TraceContext) -> Sampled:
    """One that its producer marked."""
    return Sampled(offset, context, False, key_text(key))
