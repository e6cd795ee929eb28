"""The JSON of messages under leases: of plain ones made from the columns of a run, without an object for each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec.structs import replace

from goqueue.api.messages import DeliveredOut
from goqueue.base.leases import Delivered
from goqueue.base.priority import NAMES, NORMAL, priority_of
from goqueue.edge.rest.translate import from_bytes, headers_out
from goqueue.service.leased_run import LeasedRun, has_headers

_STRETCH: Final = 500
_NORMAL: Final = NAMES[NORMAL]
_encode: Final = msgspec.json.Encoder().encode

Column = Sequence[bytes | None] | bytes  # one for each message, or the same for all
_THOUSAND: Final = 1_000
_DIGITS: Final = [b"%03d" % number for number in range(_THOUSAND)]  # the last three of a number


async def delivered_json(runs: Iterable[LeasedRun]) -> bytes:
    """A list of `DeliveredOut`. Many are translated in stretches, so that others get their turn."""
    shown: list[bytes] = []
    since = 0
    for run in runs:
        for at in range(0, len(run.records), _STRETCH):
            if since >= _STRETCH:
                since = 0
                await asyncio.sleep(0)
            some = run if len(run.records) <= _STRETCH else replace(run, records=run.records[at : at + _STRETCH])
            since += len(some.records)
            shown.append(_run_json(some))
    return b"[%b]" % b",".join(shown)


def _run_json(run: LeasedRun) -> bytes:
    if not has_headers(run.records):
        with suppress(UnicodeDecodeError):
            return _plain_json(run)
    return _encode([_one_delivered(one) for one in run.messages()])[1:-1]


def _plain_json(run: LeasedRun) -> bytes:
    """Of messages without headers whose keys and values are text, as most are. What all have in common is made once,
    and put between what is each one's own."""
    records, (head, tail) = run.records, run.receipt_ends
    offsets = _ascending([one.offset for one in records])
    begin = f'{{"topic":"{run.at.topic}","partition":{run.at.partition},"offset":'.encode()
    told = f'"attempt":{run.attempt},"failures":{run.failures},"leased_until":{run.leased_until_ms}}}'
    receipt = f',"headers":{{}},"priority":"{_NORMAL}","receipt":"{head}'.encode()
    return _woven(
        [
            *(begin, *offsets, b',"timestamp":', _numbers([one.timestamp_ms for one in records])),
            *(b',"key":', *_texts([one.key for one in records])),
            *(b',"value":', *_texts([one.value for one in records])),
            *(receipt, *offsets, f'{tail}",{told}'.encode()),
        ],
        len(records),
    )


def _woven(columns: Sequence[Column], count: int) -> bytes:
    """The first of each column, then a comma and the second of each, and so on."""
    merged: list[Column] = [b","]
    for column in columns:
        if isinstance(column, bytes) and isinstance(merged[-1], bytes):
            merged[-1] += column
        else:
            merged.append(column)
    width = len(merged)
    parts: list[bytes | None] = [None] * (width * count)
    for at, column in enumerate(merged):
        parts[at::width] = [column] * count if isinstance(column, bytes) else column
    parts[0] = merged[0][1:]  # type: ignore[assignment]
    return b"".join(parts)  # type: ignore[arg-type]


def _ascending(numbers: Sequence[int]) -> tuple[Column, ...]:
    """Each is mostly the one behind the one before it: then all but the last three digits are common to them."""
    front, first = divmod(numbers[0], _THOUSAND)
    end = first + len(numbers)
    if front and end <= _THOUSAND and numbers == [*range(numbers[0], numbers[0] + len(numbers))]:
        return b"%d" % front, _DIGITS[first:end]
    return ([b"%d" % number for number in numbers],)


def _numbers(numbers: Sequence[int]) -> Column:
    is_one = numbers.count(numbers[0]) == len(numbers)
    return b"%d" % numbers[0] if is_one else [b"%d" % number for number in numbers]


def _texts(texts: Sequence[bytes | None]) -> tuple[Column, ...]:
    """Each as JSON; `UnicodeDecodeError` if one is not text."""
    missing = texts.count(None)
    if missing == len(texts):
        return (b"null",)
    if not missing:
        # All at once, with a line end between. If nothing but these was escaped, they are JSON as they are; and if none
        # is within, what is escaped can be taken apart again.
        joined = b"\n".join(texts)  # type: ignore[arg-type]
        escaped = _encode(joined.decode())
        if len(escaped) == len(joined) + len(texts) + 1:
            return b'"', texts, b'"'
        parts = escaped[1:-1].split(b"\\n")
        if len(parts) == len(texts):
            return b'"', parts, b'"'
    return ([b"null" if text is None else _encode(text.decode()) for text in texts],)


def _one_delivered(one: Delivered) -> DeliveredOut:
    stored = one.stored
    key, key_encoding = from_bytes(stored.key)
    value, encoding = from_bytes(stored.value)
    return DeliveredOut(
        stored.topic,
        stored.partition,
        stored.offset,
        stored.timestamp_ms,
        key,
        value,
        headers_out(stored.headers) if stored.headers else {},
        NAMES[priority_of(stored.headers)] if stored.headers else _NORMAL,
        encoding,
        key_encoding,
        receipt=one.receipt,
        attempt=one.attempt,
        failures=one.failures,
        leased_until=one.leased_until_ms,
    )
