"""Scheduling: look at delayed messages and cancel them. Publishing with a delay is `Publish`'s."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from goqueue.base.commands import Repeat, Stored
from goqueue.base.errors import AlreadyDelivered, UnknownDelayed
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.core.schedule.due import Due, Member
from goqueue.core.schedule.effects import ScheduleCounts
from goqueue.core.schedule.records import EntryEnded, ScheduleEntry, State
from goqueue.drive.schedule import ScheduleEvents
from goqueue.drive.schedules import Schedules
from goqueue.drive.topic_table import Topic
from goqueue.service.hooks import Hooks
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.topics import Topics
from goqueue.service.tracing import Tracing

_LATE_KEPT: Final = 10_000
_LATE_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class DelayedMessage(msgspec.Struct, frozen=True):
    """A delayed message; without content once it is done."""

    topic: str
    partition: int
    offset: Offset
    state: State
    due_ms: Millis
    message: Stored | None = None
    repeat: Repeat | None = None
    fired: int = 0
    ttl_ms: Millis | None = None
    ended_ms: Millis | None = None


class DelayStats(msgspec.Struct, frozen=True):
    """Counts are since the node started, but for `pending`. Lateness is that of the last 10,000 messages."""

    pending: int
    near: int
    scheduled: int
    delivered: int
    cancelled: int
    expired: int
    next_due_ms: Millis | None
    late_ms_p50: float | None
    late_ms_p99: float | None
    late_ms_max: float | None


class DelayEvents(ScheduleEvents):
    """How late messages came, for metrics; what is traced is told to the tracing."""

    def __init__(self, metrics: BrokerMetrics, trace: Tracing | None) -> None:
        self.late: deque[Millis] = deque(maxlen=_LATE_KEPT)
        self._trace = trace
        self._late_seconds = Histogram(
            "goqueue_delay_late_seconds",
            "How long after its time a delayed message entered its log.",
            buckets=_LATE_S,
            registry=metrics.registry,
        )

    def taken(self, offsets: Sequence[Offset], entries: Sequence[ScheduleEntry]) -> None:
        if self._trace is not None:
            self._trace.scheduled(offsets, entries)

    def delivered(self, members: Sequence[Member], end_offset: Offset, late_ms: Sequence[Millis]) -> None:
        self.late.extend(late_ms)
        observe = self._late_seconds.observe
        for one in late_ms:
            observe(one / 1000)
        if self._trace is not None:
            self._trace.ready(members, end_offset)

    def expired(self, members: Sequence[Member]) -> None:
        if self._trace is not None:
            self._trace.expired(members)


class DelayCollector:
    """`look` takes the schedules' own numbers; `collect` shows the last ones taken."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._pending = self._near = 0
        self._counts = ScheduleCounts()

    def look(self) -> None:
        schedules = self._schedules
        self._pending, self._near, self._counts = schedules.pending_count, schedules.near_count, schedules.counts

    def collect(self) -> Iterator[Metric]:
        counts = self._counts
        for name, meaning, value in (
            ("pending", "Delayed messages that wait.", self._pending),
            ("near", "Delayed messages with a timer in memory.", self._near),
        ):
            yield _metric(GaugeMetricFamily(f"goqueue_delay_{name}", meaning), value)
        for name, meaning, value in (
            ("scheduled", "Messages taken in with a delay.", counts.scheduled),
            ("delivered", "Delayed messages that entered their logs.", counts.delivered),
            ("cancelled", "Delayed messages cancelled, or gone with their topic.", counts.cancelled),
            ("expired", "Delayed messages whose time to live passed before they could be delivered.", counts.expired),
        ):
            yield _metric(CounterMetricFamily(f"goqueue_delay_{name}", meaning), value)


def _metric(family: GaugeMetricFamily | CounterMetricFamily, value: float) -> Metric:
    family.add_metric((), value)
    return family


class Scheduling:
    """The verbs."""

    def __init__(self, schedules: Schedules, events: DelayEvents, topics: Topics, hooks: Hooks) -> None:
        self._schedules = schedules
        self._late = events.late
        self._topics = topics
        self._hooks = hooks

    # --- look ----------------------------------------------------------------------------------------------

    def pending(self, topic: str) -> int:
        """How many messages of a topic wait."""
        return self._schedules.pending_of(self._topics.require(topic).record.id)

    async def show(self, name: str, partition: int, offset: Offset) -> DelayedMessage:
        topic, schedule = self._topics.require(name), self._schedules.at(TopicPartition(name, partition))
        found = await schedule.find(topic.record.id, partition, offset)
        if found is None:
            raise _unknown(name, partition, offset)
        if isinstance(found, EntryEnded):
            return _ended(topic, found)
        return _pending(topic, found, (await schedule.payloads([offset]))[offset])

    async def due_ends(self, name: str) -> tuple[Millis, Millis] | None:
        """When the first and the last message that waits for a topic is due; None if none does."""
        topic_id = self._topics.require(name).record.id
        found = [ends for schedule in self._schedules if (ends := await schedule.due_ends(topic_id)) is not None]
        return outer_ends(found)

    async def due_counts(self, name: str, step_ms: Millis) -> dict[Millis, int]:
        """How many wait for a topic, by the beginning of the step in which they are due."""
        topic_id = self._topics.require(name).record.id
        return summed_counts([await schedule.due_counts(topic_id, step_ms) for schedule in self._schedules])

    async def stats(self) -> DelayStats:
        counts = self._schedules.counts
        late = sorted(self._late)
        return DelayStats(
            self._schedules.pending_count,
            self._schedules.near_count,
            counts.scheduled,
            counts.delivered,
            counts.cancelled,
            counts.expired,
            await self._schedules.next_due(),
            late[len(late) // 2] if late else None,
            late[len(late) * 99 // 100] if late else None,
            late[-1] if late else None,
        )

    # --- end -----------------------------------------------------------------------------------------------

    async def cancel(self, name: str, partition: int, offset: Offset) -> None:
        """Returns when the message can never be seen; `AlreadyDelivered` or `UnknownDelayed` otherwise."""
        topic, schedule = self._topics.require_users(name), self._schedules.at(TopicPartition(name, partition))
        trace = self._hooks.trace
        entry = None if trace is None else (await schedule.payloads([offset])).get(offset)
        found = await schedule.cancel(topic.record.id, partition, offset)
        if trace is not None and isinstance(found, Due):
            trace.cancelled(offset, entry)
        if found is None:
            raise _unknown(name, partition, offset)
        if isinstance(found, EntryEnded) and found.state != "cancelled":
            message = f"The message was {found.state}; it cannot be cancelled any more."
            raise AlreadyDelivered(message, state=found.state)

    async def cancel_all(self, name: str) -> int:
        """Cancels everything that waits for a topic; how many that were."""
        return await self._schedules.cancel_all(self._topics.require_users(name).record.id)

    async def entering(self, name: str) -> list[DelayedMessage]:
        """Messages whose time has come, and that perhaps nobody can read yet; without their values."""
        topic = self._topics.require(name)
        return [_without_value(_pending(topic, *one)) async for one in self._schedules.entering(topic)]

    async def keys(self, name: str, limit: int, skip: int) -> list[tuple[Millis, Offset]]:
        """Where they stand in the listing, however many bytes they are."""
        return await self._schedules.keys(self._topics.require(name), limit, skip)

    async def list(self, name: str, limit: int, skip: int = 0) -> list[DelayedMessage]:
        """What waits for a topic, by time; a page ends after some megabytes."""
        topic = self._topics.require(name)
        return [_pending(topic, due, entry) for due, entry in await self._schedules.page(topic, limit, skip)]


def outer_ends(parts: Iterable[tuple[Millis, Millis] | None]) -> tuple[Millis, Millis] | None:
    found = [one for one in parts if one is not None]
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


def summed_counts(parts: Iterable[Mapping[Millis, int]]) -> dict[Millis, int]:
    total: Counter[Millis] = Counter()
    for part in parts:
        total.update(part)
    return dict(sorted(total.items()))


def _unknown(topic: str, partition: int, offset: Offset) -> UnknownDelayed:
    return UnknownDelayed(
        f"No delayed message of {topic!r} is known at {partition}/{offset}.",
        field="offset",
    )


def _without_value(one: DelayedMessage) -> DelayedMessage:
    message = None if one.message is None else msgspec.structs.replace(one.message, value=None)
    return msgspec.structs.replace(one, message=message)


def _pending(topic: Topic, due: Due, entry: ScheduleEntry | None) -> DelayedMessage:
    message = None
    if entry is not None:
        message = Stored(
            topic.name, due.partition, due.offset, entry.accepted_ms, entry.key, entry.value, entry.headers
        )
    return DelayedMessage(
        topic.name,
        due.partition,
        due.offset,
        "pending",
        due.due_ms,
        message,
        entry.repeat if entry is not None else None,
        due.count,
        entry.ttl_ms if entry is not None else None,
    )


def _ended(topic: Topic, ended: EntryEnded) -> DelayedMessage:
    return DelayedMessage(topic.name, ended.partition, ended.offset, ended.state, ended.due_ms, ended_ms=ended.ended_ms)
