"""Messages handed out one by one: what a consumer asks for, what it gets, and the receipt that it returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from goqueue.base.commands import ANYONE, Caller, Stored
from goqueue.base.errors import GoQueueError, InvalidReceipt
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.limits import MIB

Begin: TypeAlias = Literal["earliest", "latest"]


_CHARS_MAX: Final = 400
_DIGITS_MAX: Final = 19  # of an offset


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


def receipt_ends(at: TopicPartition, attempt: int, nonce: str) -> tuple[str, str]:
    """What stands before and behind the offset in receipts of one handing out."""
    return f"{at.topic}:{at.partition}:", f":{attempt}:{nonce}"


class ReceiptRun(msgspec.Struct, frozen=True):
    """Receipts that differ in the offset alone, as those of one poll do."""

    topic: str
    partition: int
    attempt: int
    nonce: str
    offsets: Sequence[Offset]  # a `range` if each is the one behind the one before it


def parse_receipt_run(texts: Sequence[str]) -> ReceiptRun | None:
    """All of them at once; None if they are not a run, or one is no receipt."""
    parts = texts[0].rsplit(":", 4)
    if len(parts) < 5 or "\n" in texts[0] or len(texts[0]) > _CHARS_MAX:
        return None
    topic, partition, first, attempt, nonce = parts
    head, tail, text = f"{topic}:{partition}:", f":{attempt}:{nonce}", "\n".join(texts)
    if not (topic and partition and attempt and text.endswith(tail)):
        return None
    if (row := _row(first, head, tail, text, len(texts))) is not None and (partition + attempt).isdecimal():
        return ReceiptRun(topic, int(partition), int(attempt), nonce, row)
    if max(map(len, texts)) > _CHARS_MAX:
        return None
    # With nothing but digits between, there are as many line ends as were put in: each text is head, number, tail.
    numbers = text[len(head) : -len(tail)].split(f"{tail}\n{head}")
    if len(numbers) != len(texts) or not (partition + attempt + "".join(numbers)).isdecimal():
        return None
    try:
        return ReceiptRun(topic, int(partition), int(attempt), nonce, list(map(int, numbers)))
    except ValueError:
        return None


def _row(first: str, head: str, tail: str, text: str, count: int) -> range | None:
    """The offsets, if each is the one behind the one before it, as in a poll of new messages. The text is compared with
    what it is then; if it has as many line ends, no receipt has one in it."""
    if not (first.isascii() and first.isdecimal() and len(first) < _DIGITS_MAX):
        return None
    row = range(int(first), int(first) + count)
    numbers = repr([*row])[1:-1].replace(", ", f"{tail}\n{head}")
    return row if len(head) + len(numbers) + len(tail) == len(text) and text == f"{head}{numbers}{tail}" else None


def receipt_stretches(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where stretches begin and end in which receipts begin and end alike."""
    begin = 0
    while begin < len(texts):
        parts = texts[begin].rsplit(":", 4)
        head, tail = ":".join([*parts[:2], ""]), ":".join(["", *parts[3:]])
        end = begin + 1
        while end < len(texts) and texts[end].startswith(head) and texts[end].endswith(tail):
            end += 1
        yield begin, end
        begin = end


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
    `bytes_max`. The group holds at most `locks_max` of a partition at once. With `in_ranges` messages that nobody need
    look at are handed out as batches; with `whole_batches` the last of these may pass `limit`.
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
    locks_max: int | None = None
    in_ranges: bool = False
    whole_batches: bool = False


Outcome = GoQueueError | None  # of one receipt; None is success


class QueueCounts(msgspec.Struct, frozen=True):
    """How a group stands in one topic. `ready` is an estimate from offsets while a backlog is not yet looked at."""

    ready: int
    in_flight: int
    waiting: int
    dead: int
    oldest_ready_ms: Millis | None = None
