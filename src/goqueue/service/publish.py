"""Publish: the one way into a log, for encoded batches and for messages in the open.

Order of things: find the topic, check the batch, ask schema and quota, ask the disk for room, append, wait
until it is as safe as promised, answer. Batches are decoded only where the topic's settings ask what is in them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import attrgetter

from goqueue.base.commands import (
    Acks,
    Appended,
    Caller,
    InputMessage,
    PublishBatch,
    PublishMessages,
    PublishResult,
    ScheduledAt,
    StoredAt,
)
from goqueue.base.errors import (
    CorruptBatch,
    GoQueueError,
    InternalTopic,
    InvalidBatch,
    NotLoaded,
    TakingOver,
)
from goqueue.base.ids import Offset
from goqueue.base.limits import TAKEOVER_S
from goqueue.core.dedupe import StoredBatch
from goqueue.drive.decoding import Decoding
from goqueue.drive.partition import Partition
from goqueue.drive.schedule import Schedule
from goqueue.drive.schedules import Schedules
from goqueue.drive.topic_table import Topic
from goqueue.format.batch import NO_PRODUCER_ID, BatchHeader, Buffer, read_header, verified_header
from goqueue.format.compression import CODECS
from goqueue.format.records import InTransaction, NewRecord, Sequenced, build
from goqueue.log.space import SpaceGuard
from goqueue.service.acknowledging import Acknowledging, wait_all
from goqueue.service.batch_inspection import (
    NOTHING,
    SAW_NOTHING,
    InspectedBatch,
    Inspection,
    asks_for_nothing,
    look,
    look_here,
    wanted_of,
)
from goqueue.service.batch_numbers import Numbering
from goqueue.service.delayed_again import leave_out_stored
from goqueue.service.delayed_batches import Delays
from goqueue.service.hooks import Hooks, TooMuchHere, TransactionCheck
from goqueue.service.partition_writer import PartitionWriter
from goqueue.service.record_checks import check_size, check_times
from goqueue.service.sorting import PartitionBatch, SortedMessages, Sorting, WaitingMessage, record_of
from goqueue.service.time_slices import paced
from goqueue.service.topics import Topics
from goqueue.service.tracer import Sampled
from goqueue.service.tracing import Moments, Tracing


class Publish(Acknowledging):
    """The verb."""

    def __init__(
        self,
        topics: Topics,
        space: SpaceGuard,
        schedules: Schedules,
        writer: PartitionWriter,
        hooks: Hooks,
        decoding: Decoding,
    ) -> None:
        super().__init__(topics, schedules)
        self._decoding = decoding
        self._space = space
        self._write = writer.write
        self._clock = writer.clock
        self._metrics = writer.metrics
        self._hooks = hooks

    async def batch(self, command: PublishBatch) -> Appended:
        """Stores one encoded batch as it is, and waits until it is as safe as promised."""
        appended = await self.append_any(command)
        if command.acks is not Acks.NONE:
            await self.wait_durable(command.at, command.acks, epoch=appended.epoch)
        return appended

    async def append_any(self, command: PublishBatch) -> Appended:
        """The same for a batch of any size, and for a partition that is about to be served."""
        looked: Inspection | None = None
        has_waited = False
        while True:  # the topic's settings may change while it is looked at
            try:
                return self.append(command, looked)
            except TooMuchHere:
                looked = await self.look(command)
            except TakingOver:
                if has_waited:
                    raise
                has_waited = True
                await self._topics.require(command.at.topic).partition(command.at.partition).wait_served(TAKEOVER_S)

    def append(self, command: PublishBatch, looked: Inspection | None = None) -> Appended:
        """Puts one encoded batch into its log, at once. It is not safe before `wait_durable`.

        `TooMuchHere` if its records have to be looked at, and are many, or if its transaction has to be asked about
        elsewhere: `look` first, and give what it found.
        """
        started = time.perf_counter()
        try:
            topic = self._topics.require(command.at.topic)
            partition = topic.partition(command.at.partition)
            header = verified_header(command.batch)
            if header.is_control:
                raise CorruptBatch("Control batches are written by the broker only.")
            if header.producer_id < NO_PRODUCER_ID:
                raise InvalidBatch("Producer ids below -1 are the broker's own.")
            if not command.is_copy:
                check_size(topic.config, header)
                check_times(topic.config, header, command.batch, self._clock.now_ms())
            if header.is_transactional:
                self._transactions.check(partition, header.producer_id, header.producer_epoch)
            delays = self._looked(topic, header, command, looked).delays
            if delays is not None:
                appended = self._append_parted(topic, partition, header, command, delays, started)
            else:
                began = None if command.is_copy else started
                appended = self._append(topic, partition, command.batch, header, command.acks, command.caller, began)
        except GoQueueError as error:
            self._metrics.publish_errors.labels(error.code).inc()
            raise
        self._metrics.publish_seconds.observe(time.perf_counter() - started, _exemplar(self._hooks.trace))
        return appended

    async def look(self, command: PublishBatch) -> Inspection:
        """Looks at a batch that is too large for the loop; raises what its publish is refused with."""
        try:
            topic = self._topics.require(command.at.topic)
            header = verified_header(command.batch)
            check_size(topic.config, header)
            self._admit(topic, command.caller, 0, 0)
            if header.is_transactional:
                await self.learn(topic.partition(command.at.partition), header.producer_id, header.producer_epoch)
            wanted = wanted_of(topic, command.is_copy, self._hooks.schema is not None)
            if wanted is NOTHING:
                return SAW_NOTHING
            asked = InspectedBatch(topic, command.at, wanted, command.batch, header, self._clock.now_ms())
            return await self._decoding.run(lambda: look(asked, self._hooks.schema))
        except GoQueueError as error:
            self._metrics.publish_errors.labels(error.code).inc()
            raise

    def _looked(self, topic: Topic, header: BatchHeader, command: PublishBatch, known: Inspection | None) -> Inspection:
        if not header.codec and asks_for_nothing(topic.config, command):
            return SAW_NOTHING
        wanted = wanted_of(topic, command.is_copy, self._hooks.schema is not None)
        if wanted is NOTHING:
            return SAW_NOTHING
        if known is not None and known.wanted == wanted:
            return known
        asked = InspectedBatch(topic, command.at, wanted, command.batch, header, self._clock.now_ms())
        return look_here(asked, self._hooks.schema)

    async def messages(self, command: PublishMessages) -> list[PublishResult]:
        """Stores messages in the open, one batch for each partition (or a few, if they are large)."""
        started = time.perf_counter()
        topic = await self._topics.for_publish(command.topic, command.caller)
        sorting = Sorting(topic, self._clock.now_ms(), self._hooks, command.is_placed)
        results: list[PublishResult | None] = [*await paced(sorting.take, command.messages, topic.config.validates)]
        if command.marks:
            await leave_out_stored(self._schedules, sorting, command, results)
        touched: dict[Partition, list[int]] = {}
        moments = self._moments(started)
        self._trace_delayed(topic, sorting.delayed, moments, command.caller)
        numbering = Numbering(command.identities)
        for pile in sorting.piles:
            partition = topic.partitions[pile.partition]
            outcome = numbering.failed(pile.partition) or self._store(
                topic, partition, pile, command.acks, command.caller, numbering.of(pile), moments
            )
            numbering.stored(pile, outcome)
            _note_outcome(pile, outcome, results)
            if not isinstance(outcome, GoQueueError):
                touched.setdefault(partition, []).extend(pile.places)
        exemplar = _exemplar(self._hooks.trace)
        waits = self._store_delayed(topic, sorting.delayed, results, command) if sorting.delayed else []
        touched |= {schedule.partition: [one.place for one in some] for schedule, some in waits}
        if command.acks is not Acks.NONE:
            await wait_all(touched, results, command.acks, topic.config.min_insync_replicas)
        for schedule, _ in waits:
            await schedule.keep_up()
        for error in (one for one in results if isinstance(one, GoQueueError)):
            self._metrics.publish_errors.labels(error.code).inc()
        self._metrics.publish_seconds.observe(time.perf_counter() - started, exemplar)
        return results  # type: ignore[return-value]

    async def plan(self, command: PublishMessages) -> SortedMessages:
        """Where messages would go, without storing any."""
        topic = await self._topics.for_publish(command.topic, command.caller)
        sorting = Sorting(topic, self._clock.now_ms(), self._hooks)
        told = await paced(sorting.take, command.messages, topic.config.validates)
        if sorting.delayed:
            self._admit_delayed(topic, sorting.delayed, command.caller)
            self._trace_delayed(topic, sorting.delayed, self._moments(time.perf_counter()), command.caller)
        return SortedMessages(topic, sorting.piles, sorting.delayed, [error for error in told if error is not None])

    def record(self, topic: Topic, message: InputMessage) -> NewRecord:
        """How a message that does not wait looks in the log."""
        return record_of(topic, message, self._clock.now_ms(), self._hooks)

    def store(self, topic: Topic, number: int, records: list[NewRecord], txn: InTransaction, caller: Caller) -> Offset:
        """One batch of an open transaction, at once. It is not safe before `wait_durable`."""
        partition = topic.partition(number)
        self._transactions.check(partition, txn.producer_id, txn.epoch)
        moments = self._moments(time.perf_counter())
        outcome = self._store(topic, partition, PartitionBatch(number, records), Acks.ALL, caller, txn, moments)
        if isinstance(outcome, GoQueueError):
            self._metrics.publish_errors.labels(outcome.code).inc()
            raise outcome
        return outcome

    @property
    def _transactions(self) -> TransactionCheck:
        if self._hooks.transactions is None:
            raise NotLoaded("Transactions are not loaded yet; try again in a moment.")
        return self._hooks.transactions

    async def learn(self, partition: Partition, producer_id: int, epoch: int) -> None:
        """Before batches of an open transaction are stored: whether they may be is known here when this returns."""
        await self._transactions.learn(partition, producer_id, epoch)

    def _store(
        self,
        topic: Topic,
        partition: Partition,
        pile: PartitionBatch,
        acks: Acks,
        caller: Caller,
        producer: Sequenced | None = None,
        moments: Moments | None = None,
    ) -> Offset | GoQueueError:
        codec, trace = CODECS.get(topic.config.compression_type, 0), self._hooks.trace
        records, sampled = pile.records, list[Sampled]()
        if trace is not None:
            records, sampled = trace.stamp(topic, partition, records, pile.size)
        batch = build(records, codec, producer)
        try:
            header = read_header(batch)
            check_size(topic.config, header)
            offset = self._append(topic, partition, batch, header, acks, caller).base_offset
        except GoQueueError as error:
            return error
        if trace is not None and moments is not None and sampled:
            producer_id = producer.producer_id if isinstance(producer, InTransaction) else -1
            trace.published(topic, partition.at.partition, sampled, moments, caller.door, producer_id)
        return offset

    def _moments(self, started: float | None) -> Moments | None:
        """When it came in and now; None if nobody wants to know."""
        return None if started is None or self._hooks.trace is None else (started, time.perf_counter())

    def _trace_delayed(
        self, topic: Topic, delayed: list[WaitingMessage], moments: Moments | None, caller: Caller
    ) -> None:
        trace = self._hooks.trace
        if trace is not None and moments is not None and delayed:
            traced = trace.take_in(topic, [one.entry for one in delayed], moments, caller.door)
            for one, entry in zip(delayed, traced, strict=True):
                one.entry = entry

    def _store_delayed(
        self, topic: Topic, delayed: list[WaitingMessage], results: list[PublishResult | None], command: PublishMessages
    ) -> list[tuple[Schedule, Sequence[WaitingMessage]]]:
        """Stores messages that wait for their time, and tells where; the same checks as for others come first."""
        try:
            self._admit_delayed(topic, delayed, command.caller)
        except GoQueueError as error:
            for one in delayed:
                results[one.place] = error
            return []
        parted = self._schedules.parted(delayed, attrgetter("entry"))
        for schedule, some in parted:
            for one, outcome in zip(some, schedule.accept([one.entry for one in some]), strict=True):
                results[one.place] = outcome if isinstance(outcome, GoQueueError) else _waiting_at(one, outcome)
        return parted

    def _admit_delayed(self, topic: Topic, delayed: list[WaitingMessage], caller: Caller) -> None:
        self._admit(topic, caller, sum(one.record.size_max for one in delayed), len(delayed), len(delayed))

    def _append_parted(
        self,
        topic: Topic,
        partition: Partition,
        header: BatchHeader,
        command: PublishBatch,
        delays: Delays,
        started: float,
    ) -> Appended:
        """Some records wait: they are stored first, then the batch without them. A crash in between voids them."""
        self._admit(topic, command.caller, header.size, header.record_count, len(delays.found))
        if (stored := partition.check_batch(header, command.acks, topic.config.min_insync_replicas)) is not None:
            return _appended_before(partition, stored)
        parted = delays.parted(header, topic.record.id, partition.at.partition, partition.end_offset)
        moments = self._moments(started)
        entries, trace = parted.entries, self._hooks.trace
        if trace is not None and moments is not None:
            entries = trace.take_in(topic, entries, moments, command.caller.door)
        rest = (parted.rest, read_header(parted.rest))
        schedule = self._schedules.at(partition.at)
        self._logs.also(partition, schedule.partition)
        return schedule.accept_with(entries, partition, lambda: self._write(topic, partition, *rest, moments))

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
        self._admit(topic, caller, header.size, header.record_count)
        if (stored := partition.check_batch(header, acks, topic.config.min_insync_replicas)) is not None:
            return _appended_before(partition, stored)
        return self._write(topic, partition, batch, header, self._moments(started))

    def _admit(self, topic: Topic, caller: Caller, size: int, count: int, delayed: int = 0) -> None:
        """Is it a topic of users, does it fit the quota, is there room? Whether the caller may was asked before."""
        hooks = self._hooks
        if topic.is_internal:
            raise InternalTopic(f"{topic.name} holds the broker's own books; publish to a topic of yours.")
        if hooks.limits is not None:
            if delayed:
                hooks.limits.delay(topic.name, delayed, self._schedules.pending_of)
            hooks.limits.publish(caller, topic.name, size, count)
        self._space.check()


def _appended_before(partition: Partition, stored: StoredBatch) -> Appended:
    """What a producer sends again is there."""
    start, epoch = partition.start_offset, partition.leader_epoch
    return Appended(partition.at, stored.base_offset, stored.last_offset, -1, start, epoch)


def _exemplar(trace: Tracing | None) -> dict[str, str] | None:
    """The trace of what was just stored, if it has one."""
    trace_id = None if trace is None else trace.take_newest()
    return None if trace_id is None else {"trace_id": trace_id}


def _note_outcome(pile: PartitionBatch, outcome: Offset | GoQueueError, results: list[PublishResult | None]) -> None:
    """Of every message in the batch."""
    for delta, at in enumerate(pile.places):
        results[at] = outcome if isinstance(outcome, GoQueueError) else StoredAt(pile.partition, outcome + delta)


def first_error(results: Sequence[PublishResult]) -> GoQueueError | None:
    return next((result for result in results if isinstance(result, GoQueueError)), None)


def _waiting_at(one: WaitingMessage, offset: Offset) -> ScheduledAt:
    return ScheduledAt(one.entry.partition, offset, one.entry.due_ms)
