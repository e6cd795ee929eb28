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

Column = list[str] | str  # one for each message, or the same for all


async def delivered_json(runs: Iterable[LeasedRun]) -> bytes:
    """A list of `DeliveredOut`. Many are translated in stretches, so that others get their turn."""
    shown: list[str] = []
    since = 0
    for run in runs:
        for at in range(0, len(run.records), _STRETCH):
            if since >= _STRETCH:
                since = 0
                await asyncio.sleep(0)
            some = run if len(run.records) <= _STRETCH else replace(run, records=run.records[at : at + _STRETCH])
            since += len(some.records)
            shown.append(_run_json(some))
    return f"[{','.join(shown)}]".encode()


def _run_json(run: LeasedRun) -> str:
    if not has_headers(run.records):
        with suppress(UnicodeDecodeError):
            return _plain_json(run)
    return _encode([_one_delivered(one) for one in run.messages()])[1:-1].decode()


def _plain_json(run: LeasedRun) -> str:
    """Of messages without headers whose keys and values are text, as most are. What all have in common is made once,
    and put between what is each one's own."""
    records, (head, tail) = run.records, run.receipt_ends
    offsets = [*map(str, [one.offset for one in records])]
    begin = f'{{"topic":"{run.at.topic}","partition":{run.at.partition},"offset":'
    told = f'"attempt":{run.attempt},"failures":{run.failures},"leased_until":{run.leased_until_ms}}}'
    woven = _woven(
        [
            *(offsets, ',"timestamp":', _numbers([one.timestamp_ms for one in records])),
            *(',"key":', *_texts([one.key for one in records])),
            *(',"value":', *_texts([one.value for one in records])),
            *(f',"headers":{{}},"priority":"{_NORMAL}","receipt":"{head}', offsets, f'{tail}",{told},{begin}'),
        ],
        len(records),
    )
    return f"{begin}{woven[: -len(begin) - 1]}"


def _woven(columns: Sequence[Column], count: int) -> str:
    """The first of each column, then the second of each, and so on."""
    merged: list[Column] = []
    for column in columns:
        if merged and isinstance(column, str) and isinstance(merged[-1], str):
            merged[-1] += column
        else:
            merged.append(column)
    width = len(merged)
    parts = [""] * (width * count)
    for at, column in enumerate(merged):
        parts[at::width] = [column] * count if isinstance(column, str) else column
    return "".join(parts)


def _numbers(numbers: Sequence[int]) -> Column:
    return str(numbers[0]) if numbers.count(numbers[0]) == len(numbers) else [*map(str, numbers)]


def _texts(texts: Sequence[bytes | None]) -> tuple[Column, ...]:
    """Each as JSON; `UnicodeDecodeError` if one is not text."""
    missing = texts.count(None)
    if missing == len(texts):
        return ("null",)
    if not missing:
        # All at once: with a line end between, and none within, what is escaped can be taken apart again.
        parts = _encode(b"\n".join(texts).decode()).decode()[1:-1].split("\\n")  # type: ignore[arg-type]
        if len(parts) == len(texts):
            return '"', parts, '"'
    return (["null" if text is None else _encode(text.decode()).decode() for text in texts],)


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
