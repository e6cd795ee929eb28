"""Publish: the one way into a log, for encoded batches and for messages in the open.

Order of things: find the topic, ask access, check the batch, ask schema and quota, ask the disk for room, append, wait
until it is as safe as promised, answer. Batches are never decoded here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

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
)
from goqueue.base.errors import CorruptBatch, GoQueueError, InternalTopic, KeyRequired, MessageTooLarge
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.limits import BUILD_BATCH_BYTES
from goqueue.drive.partition import Partition
from goqueue.drive.topic_table import Topic
from goqueue.format.batch import HEADER_BYTES, BatchHeader, Buffer, read_header, verified_header
from goqueue.format.compression import CODECS
from goqueue.format.records import NewRecord, build, payload, raw_records
from goqueue.log.space import SpaceGuard
from goqueue.service.hooks import Hooks
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.topics import Topics


class Publish:
    """The verb."""

    def __init__(self, topics: Topics, space: SpaceGuard, clock: Clock, metrics: BrokerMetrics, hooks: Hooks) -> None:
        self._topics = topics
        self._space = space
        self._clock = clock
        self._metrics = metrics
        self._hooks = hooks

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
            if topic.config.compacts and any(
                record.key is None for record in raw_records(payload(command.batch, header))
            ):
                raise KeyRequired("The topic is compacted: every message needs a key.", field="key")
            appended = self._append(topic, partition, command.batch, header, command.acks, command.caller)
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
        sorting = _Sorting(topic, self._clock.now_ms())
        results: list[PublishResult | None] = [sorting.take(at, one) for at, one in enumerate(command.messages)]
        touched: dict[Partition, list[int]] = {}
        for pile in sorting.piles:
            partition = topic.partitions[pile.partition]
            outcome = self._store(topic, partition, pile, command.acks, command.caller)
            for delta, at in enumerate(pile.places):
                if isinstance(outcome, GoQueueError):
                    results[at] = outcome
                else:
                    results[at] = Placed(pile.partition, outcome + delta)
            touched.setdefault(partition, []).extend(pile.places)
        if command.acks is not Acks.NONE:
            await self._settle(touched, results)
        for result in results:
            if isinstance(result, GoQueueError):
                self._metrics.publish_errors.labels(result.code).inc()
        self._metrics.publish_seconds.observe(time.perf_counter() - started)
        return results  # type: ignore[return-value]

    def _store(self, topic: Topic, partition: Partition, pile: _Pile, acks: Acks, caller: Caller) -> int | GoQueueError:
        codec = CODECS.get(topic.config.compression_type, 0)
        batch = build(pile.records, codec)
        try:
            return self._append(topic, partition, batch, read_header(batch), acks, caller).base_offset
        except GoQueueError as error:
            return error

    async def _settle(self, touched: dict[Partition, list[int]], results: list[PublishResult | None]) -> None:
        """Waits for all partitions; one round of the group commit serves them. Where it fails, nothing was promised."""
        for partition, places in touched.items():
            try:
                await partition.settle()
            except GoQueueError as error:
                for at in places:
                    results[at] = error

    def _append(
        self, topic: Topic, partition: Partition, batch: Buffer, header: BatchHeader, acks: Acks, caller: Caller
    ) -> Appended:
        """The single pipeline. Checks come before the write; after it only counting."""
        hooks, config = self._hooks, topic.config
        if topic.is_internal:
            raise InternalTopic(f"{topic.name} holds the broker's own books; publish to a topic of yours.")
        if hooks.access is not None:
            hooks.access(caller, "write", topic.name)
        if header.size > config.max_message_bytes:
            raise MessageTooLarge(
                f"The batch has {header.size} bytes; the topic's max.message.bytes is {config.max_message_bytes}."
            )
        if hooks.schema is not None:
            hooks.schema(topic.name, header, batch)
        if hooks.quota is not None:
            hooks.quota(caller, "write", topic.name, header.size)
        partition.state.check_acks(acks, config.min_insync_replicas)
        self._space.check()
        now = self._clock.now_ms()
        append_time = config.message_timestamp_type == "LogAppendTime"
        if (stored := partition.dedupe.check(header)) is not None:
            return Appended(partition.at, stored.base_offset, stored.last_offset, -1, partition.log.start_offset)
        base_offset = partition.append(batch, header, now, append_time)
        counters = self._metrics.topic(topic.name)
        counters.messages_in.inc(header.record_count)
        counters.batches_in.inc()
        counters.bytes_in.inc(header.size)
        if hooks.trace is not None:
            hooks.trace("publish.persisted", partition.at, base_offset, header, batch)
        return Appended(
            partition.at,
            base_offset,
            base_offset + header.last_offset_delta,
            now if append_time else -1,
            partition.log.start_offset,
        )


class _Pile(msgspec.Struct):
    """Records bound for one batch, and the places of their messages in the request."""

    partition: int
    records: list[NewRecord] = []
    places: list[int] = []
    size: int = HEADER_BYTES


class _Sorting:
    """Sorts a request's messages into piles by partition; what cannot be stored gets its error at once."""

    def __init__(self, topic: Topic, now: Millis) -> None:
        self._topic = topic
        self._now = now
        self._open: dict[int, _Pile] = {}
        self._size_max = topic.config.max_message_bytes
        self.piles: list[_Pile] = []
        topic.partitioner.begin_publish()

    def take(self, place: int, message: Message) -> GoQueueError | None:
        try:
            partition = self._choose(message)
            record = self._record(message)
        except GoQueueError as error:
            error.field = f"messages[{place}].{error.field or 'value'}"
            return error
        size = record.size_max
        pile = self._open.get(partition)
        if pile is None or pile.size + size > min(BUILD_BATCH_BYTES, self._size_max):
            pile = self._open[partition] = _Pile(partition)
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

    def _record(self, message: Message) -> NewRecord:
        time_ms = self._now if message.timestamp_ms is None else message.timestamp_ms
        record = NewRecord(message.key, message.value, message.headers, time_ms)
        if HEADER_BYTES + record.size_max > self._size_max:
            raise MessageTooLarge(
                f"The message takes {HEADER_BYTES + record.size_max} bytes in the log; the topic's "
                f"max.message.bytes is {self._size_max}.",
                field="value",
            )
        return record


def first_error(results: Sequence[PublishResult]) -> GoQueueError | None:
    return next((result for result in results if isinstance(result, GoQueueError)), None)
