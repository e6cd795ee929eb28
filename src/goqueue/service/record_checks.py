"""What a topic asks of the records of a batch before it takes them: keys if it is compacted, times near its own.

The header says enough for a batch that is in order; records are looked at only to say which of them are not. Only a
topic that has `cleanup.policy=compact` or `message.timestamp.before.max.ms` costs a look at every record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from goqueue.base.errors import CorruptBatch, InvalidTimestamp, KeyRequired, MessageTooLarge
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.limits import LOOKED_AT_BYTES_MAX, RECORD_FAILURES_MAX, RECORDS_LOOKED_AT_MAX
from goqueue.base.topic_config import UNBOUNDED_MS, TopicConfig
from goqueue.format.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.format.compression import decompress_within
from goqueue.format.records import varint

Failures = list[tuple[int, str]]  # place in the batch, what is wrong
NO_TIME = -1


def keyless(at: TopicPartition, places: Iterable[int]) -> KeyRequired:
    """The error for a batch with records that have no key, in these places."""
    message = f"Compacted topic cannot accept message without key in topic partition {at.topic}-{at.partition}."
    failures = _first((place, message) for place in places)
    return KeyRequired("The topic is compacted: every message needs a key.", field="key", failures=failures)


def check_size(config: TopicConfig, header: BatchHeader) -> None:
    """Raises `MessageTooLarge`."""
    most = config.max_message_bytes
    if header.size > most:
        raise MessageTooLarge(f"The batch has {header.size} bytes; the topic's max.message.bytes is {most}.")


def check_times(config: TopicConfig, header: BatchHeader, batch: Buffer, now: Millis) -> None:
    """Raises `InvalidTimestamp` for a batch with records too far from the node's time."""
    if config.message_timestamp_type != "CreateTime":
        return
    after, before = config.message_timestamp_after_max_ms, config.message_timestamp_before_max_ms
    is_late = header.max_timestamp - now > after
    if not is_late and before == UNBOUNDED_MS:
        return
    is_early = header.base_timestamp != NO_TIME and now - header.base_timestamp > before
    failures = _first(_wrong_times(config, header, batch, now))
    if failures or is_late or is_early:
        raise InvalidTimestamp(
            "One or more records have been rejected due to invalid timestamp.", field="timestamp", failures=failures
        )


def check_time(config: TopicConfig, time_ms: Millis, now: Millis) -> None:
    """The same for one message."""
    if config.message_timestamp_type == "CreateTime" and (wrong := _wrong_time(config, time_ms, now)):
        raise InvalidTimestamp(wrong, field="timestamp")


def _wrong_time(config: TopicConfig, time_ms: Millis, now: Millis) -> str:
    after, before = config.message_timestamp_after_max_ms, config.message_timestamp_before_max_ms
    if time_ms == NO_TIME or (time_ms - now <= after and now - time_ms <= before):
        return ""
    return f"The time {time_ms} is out of range; it has to be from {now - before} to {now + after}."


def _wrong_times(config: TopicConfig, header: BatchHeader, batch: Buffer, now: Millis) -> Iterator[tuple[int, str]]:
    try:
        for place, delta in enumerate(_time_deltas(header, batch)):
            if wrong := _wrong_time(config, header.base_timestamp + delta, now):
                yield place, wrong
    except (CorruptBatch, IndexError):
        return  # the header alone decides


def _time_deltas(header: BatchHeader, batch: Buffer) -> Iterator[int]:
    """Times of the first records, from the batch's own on; none of a batch that unfolds to very much."""
    body: Buffer | None = memoryview(batch)[HEADER_BYTES : header.size]
    if header.codec and body is not None:
        body = decompress_within(header.codec, body, LOOKED_AT_BYTES_MAX)
    view, at = memoryview(body or b""), 0
    for _ in range(min(header.record_count, RECORDS_LOOKED_AT_MAX)):
        if at >= len(view):
            return
        length, start = varint(view, at)
        delta, _ = varint(view, start + 1)  # behind the attributes
        yield delta
        at = start + max(0, length)


def _first(failures: Iterable[tuple[int, str]]) -> Failures:
    found: Failures = []
    for failure in failures:
        found.append(failure)
        if len(found) == RECORD_FAILURES_MAX:
            break
    return found
