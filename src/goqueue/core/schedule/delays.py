"""When a message that is published is due, and the entry that waits for it."""

from __future__ import annotations

from goqueue.base.commands import InputMessage
from goqueue.base.delays import check_due
from goqueue.base.errors import InvalidField
from goqueue.base.ids import Millis
from goqueue.base.limits import DELAY_MS_MAX
from goqueue.base.topic_config import TopicConfig
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.core.schedule.repeat import check_repeat, first_due


def due_of(message: InputMessage, config: TopicConfig, now: Millis) -> Millis | None:
    """When it is to enter its log; None means now."""
    if message.ttl_ms is not None and not 0 < message.ttl_ms <= DELAY_MS_MAX:
        raise InvalidField("A time to live is longer than nothing and at most ten years.", field="ttl")
    due = _asked(message, now)
    if message.repeat is not None:
        check_repeat(message.repeat)
        due = first_due(message.repeat, due, now)
        if due is None or (message.repeat.until_ms and due > message.repeat.until_ms):
            raise InvalidField("The repetition has no time that is still to come.", field="repeat")
        return check_due(due, now, "repeat")
    if due is None and config.queue_delay_ms:
        due = now + config.queue_delay_ms
    return None if due is None or due <= now else due


def _asked(message: InputMessage, now: Millis) -> Millis | None:
    if message.delay_ms is not None:
        if message.deliver_at_ms is not None:
            raise InvalidField("Give delay or deliverAt, not both.", field="deliverAt")
        return check_due(now + message.delay_ms, now, "delay")
    if message.deliver_at_ms is not None:
        return check_due(message.deliver_at_ms, now, "deliverAt")
    return None


def entry_of(message: InputMessage, topic_id: str, partition: int, due: Millis, now: Millis) -> ScheduleEntry:
    return ScheduleEntry(
        topic_id,
        partition,
        due,
        message.key,
        message.value,
        message.headers,
        message.timestamp_ms,
        message.ttl_ms,
        now,
        message.repeat,
    )
