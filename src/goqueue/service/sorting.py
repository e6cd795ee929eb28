"""Messages in the open, sorted by where they go: into batches, one pile each, or into the schedule."""

from __future__ import annotations

import msgspec

from goqueue.base.commands import InputMessage
from goqueue.base.delays import with_expiry
from goqueue.base.errors import GoQueueError, KeyRequired, MessageTooLarge
from goqueue.base.ids import Millis
from goqueue.base.limits import BUILD_BATCH_BYTES
from goqueue.base.topic_config import TopicConfig
from goqueue.core.schedule.delays import due_of, entry_of
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.drive.topic_table import Topic
from goqueue.format.batch import HEADER_BYTES
from goqueue.format.records import NewRecord
from goqueue.service.hooks import Hooks
from goqueue.service.record_checks import check_time


class WaitingMessage(msgspec.Struct, gc=False):
    """A message that waits, its place in the request, and how it would look in the log."""

    place: int
    record: NewRecord
    entry: ScheduleEntry


class PartitionBatch(msgspec.Struct):
    """Records bound for one batch, and the places of their messages in the request."""

    partition: int
    records: list[NewRecord] = []
    places: list[int] = []
    size: int = HEADER_BYTES


class SortedMessages(msgspec.Struct):
    """Messages sorted by where they go, and why some cannot."""

    topic: Topic
    piles: list[PartitionBatch]
    delayed: list[WaitingMessage]
    errors: list[GoQueueError]


class Sorting:
    """Sorts a request's messages into piles by partition; what cannot be stored gets its error at once."""

    def __init__(self, topic: Topic, now: Millis, hooks: Hooks, is_placed: bool = False) -> None:
        self._topic = topic
        self._config = config = topic.config
        self._now = now
        self._check = hooks.schema if config.validates else None
        self._size_max = hooks.message_bytes_max(topic)
        self._open: dict[int, PartitionBatch] = {}
        self._compacts = config.compacts
        self._partitions = len(topic.partitions)
        self._pile_max = min(BUILD_BATCH_BYTES, config.max_message_bytes)
        self._choose = topic.partitioner.choose
        self.piles: list[PartitionBatch] = []
        self.delayed: list[WaitingMessage] = []
        if not is_placed:
            topic.partitioner.begin_publish()

    def take(self, place: int, message: InputMessage) -> GoQueueError | None:
        due = None
        try:
            if self._compacts and message.key is None:
                raise KeyRequired("The topic is compacted: every message needs a key.", field="key")
            partition = self._choose(message.key, message.partition, self._partitions)
            if message.is_timed or self._config.queue_delay_ms:
                due = due_of(message, self._config, self._now)
            if self._check is not None:
                self._check.record(self._topic, message.key, message.value, message.headers)
            record = _record(self._config, message, due, self._now)
            size = _checked_size(self._size_max, record)
        except GoQueueError as error:
            error.field = f"messages[{place}].{error.field or 'value'}"
            return error
        if due is not None:
            entry = entry_of(message, self._topic.record.id, partition, due, self._now)
            self.delayed.append(WaitingMessage(place, record, entry))
            return None
        pile = self._open.get(partition)
        if pile is None or pile.size + size > self._pile_max:
            pile = self._open[partition] = PartitionBatch(partition)
            self.piles.append(pile)
        pile.records.append(record)
        pile.places.append(place)
        pile.size += size
        return None


def record_of(topic: Topic, message: InputMessage, now: Millis, hooks: Hooks) -> NewRecord:
    """How a message that does not wait looks in the log."""
    if hooks.schema is not None and topic.config.validates:
        hooks.schema.record(topic, message.key, message.value, message.headers)
    record = _record(topic.config, message, None, now)
    _checked_size(hooks.message_bytes_max(topic), record)
    return record


def _record(config: TopicConfig, message: InputMessage, due: Millis | None, now: Millis) -> NewRecord:
    time_ms = now
    if message.timestamp_ms is not None:
        time_ms = message.timestamp_ms
        check_time(config, time_ms, now)
    headers = message.headers
    if message.ttl_ms is not None:
        headers = with_expiry(headers, (due or now) + message.ttl_ms)
    return NewRecord(message.key, message.value, headers, time_ms)


def _checked_size(size_max: int, record: NewRecord) -> int:
    """Its largest size in a batch; `MessageTooLarge` if the topic takes none that large."""
    size = record.size_max
    if HEADER_BYTES + size > size_max:
        raise MessageTooLarge(
            f"The message takes {HEADER_BYTES + size} bytes in the log; max.message.bytes of the topic, or the "
            f"limit of its tenant, is {size_max}.",
            field="value",
        )
    return size
