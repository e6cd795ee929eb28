"""Publish: the one way into a log, for encoded batches and for messages in the open.

Order of things: find the topic, ask access, check the batch, ask schema and quota, ask the disk for room, append, wait
until it is as safe as promised, answer. Batches are decoded for topics that validate only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from goqueue.base.clock import Clock
from goqueue.base.commands import (
    Acks,
    Appended,
    Caller,
    Message,
    Placed,
    PublishBatch,
    PublishMessages,
    PublishResult,
    Scheduled,
)
from goqueue.base.delays import with_expiry
from goqueue.base.errors import (
    CorruptBatch,
    GoQueueError,
    InternalTopic,
    KeyRequired,
    MessageTooLarge,
    ShuttingDown,
)
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import BUILD_BATCH_BYTES
from goqueue.core.schedule.delays import due_of, entry_of
from goqueue.core.schedule.records import Entry
from goqueue.drive.partition import Partition
from goqueue.drive.schedule_entries import Entries
from goqueue.drive.topic_table import Topic
from goqueue.format.batch import HEADER_BYTES, BatchHeader, Buffer, read_header, verified_header
from goqueue.format.compression import CODECS
from goqueue.format.records import InTransaction, NewRecord, build
from goqueue.log.space import SpaceGuard
from goqueue.service.delayed_batches import may_ask_for_delay, part
from goqueue.service.hooks import Hooks, SchemaCheck
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.paced import paced
from goqueue.service.record_checks import check_keys, check_time, check_times
from goqueue.service.topics import Topics
from goqueue.service.tracer import Sampled
from goqueue.service.tracing import Moments

TransactionCheck = Callable[[int, int, TopicPartition], None]  # producer id, epoch, where it writes


def _no_transactions(producer_id: int, epoch: int, at: TopicPartition) -> None:
    raise ShuttingDown("Transactions are not loaded yet; try again in a moment.")


class Publish:
    """The verb."""

    def __init__(self, topics: Topics, space: SpaceGuard, clock: Clock, metrics: BrokerMetrics, hooks: Hooks) -> None:
        self._topics = topics
        self._space = space
        self._clock = clock
        self._metrics = metrics
        self._hooks = hooks
        self.schedule: Entries | None = None  # without one nothing can be delayed
        self.check_transaction: TransactionCheck = _no_transactions

    async def batch(self, command: PublishBatch) -> Appended:
        """Stores one encoded batch as it is, and waits until it is as safe as promised."""
        appended = self.append(command)
        if command.acks is not Acks.NONE:
            await self.settle(command.at)
        return appended

    def append(self, command: PublishBatch) -> Appended:
        """Puts one encoded batch into its log, at once. It is not safe before `settle`."""
        started = time.perf_counter()
        try:
            topic = self._topics.require(command.at.topic)
            partition = topic.partition(command.at.partition)
            header = verified_header(command.batch)
            if header.is_control:
                raise CorruptBatch("Control batches are written by the broker only.")
            if topic.config.compacts:
                check_keys(command.at, header, command.batch)
            if not command.is_copy:
                _check_size(topic, header)
                check_times(topic.config, header, command.batch, self._clock.now_ms())
            if header.is_transactional:
                self.check_transaction(header.producer_id, header.producer_epoch, command.at)
            if self._hooks.schema is not None and topic.config.validates and not command.is_copy:
                self._hooks.schema.batch(topic, header, command.batch)
            delays = topic.config.queue_delay_headers == "true" and may_ask_for_delay(command.batch, header)
            delays = delays and not command.is_copy
            if delays:
                appended = self._append_parted(topic, partition, header, command, started)
            else:
                began = None if command.is_copy else started
                appended = self._append(topic, partition, command.batch, header, command.acks, command.caller, began)
        except GoQueueError as error:
            self._metrics.publish_errors.labels(error.code).inc()
            raise
        self._metrics.publish_seconds.observe(time.perf_counter() - started)
        return appended

    def is_settled(self, at: TopicPartition) -> bool:
        """Nothing that was appended still waits to be made safe."""
        return self._topics.require(at.topic).partition(at.partition).is_settled

    async def settle(self, at: TopicPartition) -> None:
        """Returns when all that was appended to the partition is as safe as the node promises."""
        await self._topics.require(at.topic).partition(at.partition).settle()

    async def messages(self, command: PublishMessages) -> list[PublishResult]:
        """Stores messages in the open, one batch for each partition (or a few, if they are large)."""
        started = time.perf_counter()
        topic = await self._topics.for_publish(command.topic, command.caller)
        sorting = _Sorting(topic, self._clock.now_ms(), self._hooks.schema)
        results: list[PublishResult | None] = [*await paced(sorting.take, command.messages, topic.config.validates)]
        touched: dict[Partition, list[int]] = {}
        moments = self._moments(started)
        self._trace_delayed(topic, sorting.delayed, moments, command.caller)
        for pile in sorting.piles:
            partition = topic.partitions[pile.partition]
            outcome = self._store(topic, partition, pile, command.acks, command.caller, moments=moments)
            for delta, at in enumerate(pile.places):
                if isinstance(outcome, GoQueueError):
                    results[at] = outcome
                else:
                    results[at] = Placed(pile.partition, outcome + delta)
            touched.setdefault(partition, []).extend(pile.places)
        if sorting.delayed:
            self._schedule(topic, sorting.delayed, results, command)
            touched[self._require_schedule().log.partition] = [one.place for one in sorting.delayed]
        if command.acks is not Acks.NONE:
            await self._settle(touched, results)
        if sorting.delayed:
            await self._require_schedule().keep_up()
        for result in results:
            if isinstance(result, GoQueueError):
                self._metrics.publish_errors.labels(result.code).inc()
        self._metrics.publish_seconds.observe(time.perf_counter() - started)
        return results  # type: ignore[return-value]

    async def plan(self, command: PublishMessages) -> Plan:
        """Where messages would go, without storing any."""
        topic = await self._topics.for_publish(command.topic, command.caller)
        sorting = _Sorting(topic, self._clock.now_ms(), self._hooks.schema)
        told = await paced(sorting.take, command.messages, topic.config.validates)
        if sorting.delayed:
            self._admit_delayed(topic, sorting.delayed, command.caller)
            self._trace_delayed(topic, sorting.delayed, self._moments(time.perf_counter()), command.caller)
        return Plan(topic, sorting.piles, sorting.delayed, [error for error in told if error is not None])

    def record(self, topic: Topic, message: Message) -> NewRecord:
        """How a message that does not wait looks in the log."""
        return _record(topic, message, None, self._clock.now_ms(), self._hooks.schema)

    def store(self, topic: Topic, number: int, records: list[NewRecord], txn: InTransaction, caller: Caller) -> Offset:
        """One batch of an open transaction, at once. It is not safe before `settle`."""
        partition = topic.partition(number)
        self.check_transaction(txn.producer_id, txn.epoch, partition.at)
        moments = self._moments(time.perf_counter())
        outcome = self._store(topic, partition, Pile(number, records), Acks.ALL, caller, txn, moments)
        if isinstance(outcome, GoQueueError):
            self._metrics.publish_errors.labels(outcome.code).inc()
            raise outcome
        return outcome

    def _store(
        self,
        topic: Topic,
        partition: Partition,
        pile: Pile,
        acks: Acks,
        caller: Caller,
        txn: InTransaction | None = None,
        moments: Moments | None = None,
    ) -> Offset | GoQueueError:
        codec, trace = CODECS.get(topic.config.compression_type, 0), self._hooks.trace
        records, sampled = pile.records, list[Sampled]()
        if trace is not None:
            records, sampled = trace.stamp(topic, partition, records, pile.size)
        batch = build(records, codec, txn)
        try:
            header = read_header(batch)
            _check_size(topic, header)
            offset = self._append(topic, partition, batch, header, acks, caller).base_offset
        except GoQueueError as error:
            return error
        if trace is not None and moments is not None and sampled:
            producer_id = -1 if txn is None else txn.producer_id
            trace.published(topic, partition.at.partition, sampled, moments, caller.door, producer_id)
        return offset

    def _moments(self, started: float | None) -> Moments | None:
        """When it came in and now; None if nobody wants to know."""
        return None if started is None or self._hooks.trace is None else (started, time.perf_counter())

    def _trace_delayed(self, topic: Topic, delayed: list[Delayed], moments: Moments | None, caller: Caller) -> None:
        trace = self._hooks.trace
        if trace is not None and moments is not None and delayed:
            traced = trace.take_in(topic, [one.entry for one in delayed], moments, caller.door)
            for one, entry in zip(delayed, traced, strict=True):
                one.entry = entry

    async def _settle(self, touched: dict[Partition, list[int]], results: list[PublishResult | None]) -> None:
        """Waits for all partitions; one round of the group commit serves them. Where it fails, nothing was promised."""
        for partition, places in touched.items():
            try:
                await partition.settle()
            except GoQueueError as error:
                for at in places:
                    results[at] = error

    def _schedule(
        self, topic: Topic, delayed: list[Delayed], results: list[PublishResult | None], command: PublishMessages
    ) -> None:
        """Stores messages that wait for their time; the same checks as for others come first."""
        try:
            self._admit_delayed(topic, delayed, command.caller)
            stored = self._require_schedule().accept([one.entry for one in delayed])
        except GoQueueError as error:
            stored = [error] * len(delayed)
        for one, outcome in zip(delayed, stored, strict=True):
            if isinstance(outcome, GoQueueError):
                results[one.place] = outcome
            else:
                results[one.place] = Scheduled(one.entry.partition, outcome, one.entry.due_ms)

    def _admit_delayed(self, topic: Topic, delayed: list[Delayed], caller: Caller) -> None:
        self._admit(topic, caller, sum(one.record.size_max for one in delayed))

    def _require_schedule(self) -> Entries:
        if self.schedule is None:
            raise ShuttingDown("The schedule is not loaded yet; try again in a moment.")
        return self.schedule

    def deliver(self, topic: Topic, partition: Partition, records: list[NewRecord]) -> None:
        """Scheduled messages enter their log, in one batch. What a publish checks was checked when they were taken."""
        batch = build(records, CODECS.get(topic.config.compression_type, 0))
        self._write(topic, partition, batch, read_header(batch))

    def _append_parted(
        self, topic: Topic, partition: Partition, header: BatchHeader, command: PublishBatch, started: float
    ) -> Appended:
        """Some records wait: they are stored first, then the batch without them. A crash in between voids them."""
        self._admit(topic, command.caller, header.size)
        partition.state.check_acks(command.acks, topic.config.min_insync_replicas)
        if (stored := partition.dedupe.check(header)) is not None:
            return Appended(partition.at, stored.base_offset, stored.last_offset, -1, partition.log.start_offset)
        place = (topic.record.id, partition.at.partition, partition.log.end_offset)
        parted = part(command.batch, header, *place, self._clock.now_ms())
        moments = self._moments(started)
        if parted is None:
            return self._write(topic, partition, command.batch, header, moments)
        entries, trace = parted.entries, self._hooks.trace
        if trace is not None and moments is not None:
            entries = trace.take_in(topic, entries, moments, command.caller.door)
        rest = (parted.rest, read_header(parted.rest))
        return self._require_schedule().accept_with(
            entries, partition, lambda: self._write(topic, partition, *rest, moments)
        )

    def _append(
        self,
        topic: Topic,
        partition: Partition,
        batch: Buffer,
        header: BatchHeader,
        acks: Acks,
        caller: Caller,
        started: float | None = None,
    ) -> Appended:
        """The single pipeline. Checks come before the write; after it only counting."""
        self._admit(topic, caller, header.size)
        partition.state.check_acks(acks, topic.config.min_insync_replicas)
        if (stored := partition.dedupe.check(header)) is not None:
            return Appended(partition.at, stored.base_offset, stored.last_offset, -1, partition.log.start_offset)
        return self._write(topic, partition, batch, header, self._moments(started))

    def _admit(self, topic: Topic, caller: Caller, size: int) -> None:
        """May the caller, does it fit, is there room?"""
        hooks = self._hooks
        if topic.is_internal:
            raise InternalTopic(f"{topic.name} holds the broker's own books; publish to a topic of yours.")
        if hooks.access is not None:
            hooks.access(caller, "write", topic.name)
        if hooks.quota is not None:
            hooks.quota(caller, "write", topic.name, size)
        self._space.check()

    def _write(
        self,
        topic: Topic,
        partition: Partition,
        batch: Buffer,
        header: BatchHeader,
        moments: Moments | None = None,
    ) -> Appended:
        """With `moments`, a producer's own batch: it may have to be traced."""
        trace, now = self._hooks.trace, self._clock.now_ms()
        append_time = topic.config.message_timestamp_type == "LogAppendTime"
        base_offset = partition.append(batch, header, now, append_time)
        counters = self._metrics.topic(topic.name)
        counters.messages_in.inc(header.record_count)
        counters.batches_in.inc()
        counters.bytes_in.inc(header.size)
        if trace is not None and moments is not None:
            trace.wrote(topic, partition.at, base_offset, header, batch, moments)
        return Appended(
            partition.at,
            base_offset,
            base_offset + header.last_offset_delta,
            now if append_time else -1,
            partition.log.start_offset,
        )


def _check_size(topic: Topic, header: BatchHeader) -> None:
    most = topic.config.max_message_bytes
    if header.size > most:
        raise MessageTooLarge(f"The batch has {header.size} bytes; the topic's max.message.bytes is {most}.")


class Delayed(msgspec.Struct, gc=False):
    """A message that waits, its place in the request, and how it would look in the log."""

    place: int
    record: NewRecord
    entry: Entry


class Pile(msgspec.Struct):
    """Records bound for one batch, and the places of their messages in the request."""

    partition: int
    records: list[NewRecord] = []
    places: list[int] = []
    size: int = HEADER_BYTES


class Plan(msgspec.Struct):
    """Messages sorted by where they go, and why some cannot."""

    topic: Topic
    piles: list[Pile]
    delayed: list[Delayed]
    errors: list[GoQueueError]


class _Sorting:
    """Sorts a request's messages into piles by partition; what cannot be stored gets its error at once."""

    def __init__(self, topic: Topic, now: Millis, check: SchemaCheck | None) -> None:
        self._topic = topic
        self._now = now
        self._check = check
        self._open: dict[int, Pile] = {}
        self._size_max = topic.config.max_message_bytes
        self.piles: list[Pile] = []
        self.delayed: list[Delayed] = []
        topic.partitioner.begin_publish()

    def take(self, place: int, message: Message) -> GoQueueError | None:
        try:
            partition = self._choose(message)
            due = due_of(message, self._topic.config, self._now)
            record = _record(self._topic, message, due, self._now, self._check)
        except GoQueueError as error:
            error.field = f"messages[{place}].{error.field or 'value'}"
            return error
        if due is not None:
            entry = entry_of(message, self._topic.record.id, partition, due, self._now)
            self.delayed.append(Delayed(place, record, entry))
            return None
        size = record.size_max
        pile = self._open.get(partition)
        if pile is None or pile.size + size > min(BUILD_BATCH_BYTES, self._size_max):
            pile = self._open[partition] = Pile(partition)
            self.piles.append(pile)
        pile.records.append(record)
        pile.places.append(place)
        pile.size += size
        return None

    def _choose(self, message: Message) -> int:
        if message.key is None and self._topic.config.compacts:
            raise KeyRequired("The topic is compacted: every message needs a key.", field="key")
        topic = self._topic
        return topic.partitioner.choose(message.key, message.partition, len(topic.partitions))


def _record(topic: Topic, message: Message, due: Millis | None, now: Millis, check: SchemaCheck | None) -> NewRecord:
    if check is not None and topic.config.validates:
        check.record(topic, message.key, message.value, message.headers)
    time_ms = now if message.timestamp_ms is None else message.timestamp_ms
    check_time(topic.config, time_ms, now)
    headers = message.headers
    if message.ttl_ms is not None:
        headers = with_expiry(headers, (due or now) + message.ttl_ms)
    record = NewRecord(message.key, message.value, headers, time_ms)
    size_max = topic.config.max_message_bytes
    if HEADER_BYTES + record.size_max > size_max:
        raise MessageTooLarge(
            f"The message takes {HEADER_BYTES + record.size_max} bytes in the log; the topic's "
            f"max.message.bytes is {size_max}.",
            field="value",
        )
    return record


def first_error(results: Sequence[PublishResult]) -> GoQueueError | None:
    return next((result for result in results if isinstance(result, GoQueueError)), None)
