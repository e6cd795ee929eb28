"""Messages handed out one by one: what a consumer asks for, what it gets, and the receipt that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from goqueue.base.commands import ANYONE, Caller, Stored
from goqueue.base.errors import GoQueueError, InvalidReceipt
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import MIB

Begin: TypeAlias = Literal["earliest", "latest"]


_CHARS_MAX: Final = 400


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """Names one handing out of one message: `topic:partition:offset:attempt:nonce`."""

    topic: str
    partition: int
    offset: Offset
    attempt: int
    nonce: str


def parse_receipt(text: str, field: str = "receipt") -> Receipt:
    """Reads from the right, so that no topic name can confuse it; `InvalidReceipt` if it was never one."""
    try:
        topic, partition, offset, attempt, nonce = text.rsplit(":", 4)
        if (partition + offset + attempt).isdecimal() and topic and len(text) <= _CHARS_MAX:
            return Receipt(topic, int(partition), int(offset), int(attempt), nonce)
    except ValueError:
        pass
    raise InvalidReceipt(
        f"{text[:100]!r} is not a receipt; send the one that came with the message, unchanged.", field=field
    )


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """One message under a lease. `attempt` counts how often it was handed out, this time included."""

    stored: Stored
    receipt: str
    attempt: int
    failures: int
    leased_until_ms: Millis
    first_leased_ms: Millis


class Take(msgspec.Struct, frozen=True):
    """Hand out up to `limit` messages of these partitions to `owner`; wait up to `wait_ms_max` for the first.

    `lease_ms` None means the group's or the topic's. `in_flight_max` bounds what the owner holds at once.
    `begin` is for a group without a position; `strict` always serves the higher priority first. The same `attempt_id`
    gets the same messages again, as long as nothing happened to them. An answer ends with the message that passes
    `bytes_max`.
    """

    group: str
    partitions: Sequence[TopicPartition]
    owner: str
    limit: int
    lease_ms: Millis | None = None
    wait_ms_max: Millis = 0
    in_flight_max: int | None = None
    begin: Begin = "earliest"
    strict: bool = False
    caller: Caller = ANYONE
    attempt_id: str | None = None
    bytes_max: int = 8 * MIB


Outcome = GoQueueError | None  # of one receipt; None is success


class QueueCounts(msgspec.Struct, frozen=True):
    """How a group stands in one topic. `ready` is an estimate from offsets while a backlog is not yet looked at."""

    ready: int
    in_flight: int
    waiting: int
    dead: int
    oldest_ready_ms: Millis | None = None
