"""What a poll was handed as frames of a stream. Made in place: a message that is put into another is copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final

from goqueue.base.limits import KIB
from goqueue.edge.grpc.translate import headers_out
from goqueue.format.records import Record
from goqueue.service.leased_run import LeasedRun, has_headers
from goqueue.wire import goqueue_pb2 as pb

_fields_of: Final = attrgetter("value", "key", "timestamp_ms")
_FRAME_BYTES: Final = 256 * KIB  # about; a stream whose reader is slow holds one of these


def frames(runs: Sequence[LeasedRun]) -> Iterator[tuple[pb.SubscribeResponse, int]]:
    """Each with the number of its messages. No client refuses one, unless a single message is that large."""
    frame, count, room = pb.SubscribeResponse(), 0, _FRAME_BYTES
    for run in runs:
        for records, size in _stretches(run.records):
            if count and size > room:
                yield frame, count
                frame, count, room = pb.SubscribeResponse(), 0, _FRAME_BYTES
            _add(frame, run, records)
            count, room = count + len(records), room - size
    if count:
        yield frame, count


def columns(runs: Sequence[LeasedRun], answer: pb.PollResponse) -> None:
    """Puts what a poll was handed into its answer, in columns."""
    for run in runs:
        _add_columns(run, answer)


def _add_columns(run: LeasedRun, answer: pb.PollResponse) -> None:
    records = run.records
    values, keys, times = map(list, zip(*map(_fields_of, records), strict=True))
    head, tail = run.receipt_ends
    made = answer.runs.add(
        topic=run.at.topic,
        partition=run.at.partition,
        attempt=run.attempt,
        failures=run.failures,
        leased_until_ms=run.leased_until_ms,
        receipt_head=head,
        receipt_tail=tail,
        offsets=[one.offset for one in records],
        timestamps_ms=times[:1] if times.count(times[0]) == len(times) else times,
    )
    made.null_values.extend(_fill(values))
    made.values.extend(values)
    if keys.count(None) < len(keys):
        made.null_keys.extend(_fill(keys))
        made.keys.extend(keys)
    if has_headers(records):
        made.headers.extend([pb.Headers(headers=headers_out(one.headers)) for one in records])


def _fill(column: list[bytes | None]) -> list[int]:
    """Puts empty bytes where there are none, and says where."""
    if None not in column:
        return []
    empty = [place for place, one in enumerate(column) if one is None]
    for place in empty:
        column[place] = b""
    return empty


def _stretches(records: Sequence[Record]) -> Iterator[tuple[Sequence[Record], int]]:
    """Records that fit into a frame together, with their size."""
    sizes = [len(one.value or b"") + len(one.key or b"") for one in records]
    if (total := sum(sizes)) <= _FRAME_BYTES:
        yield records, total
        return
    begin = size = 0
    for at, one in enumerate(sizes):
        if size and size + one > _FRAME_BYTES:
            yield records[begin:at], size
            begin, size = at, 0
        size += one
    yield records[begin:], size


def _add(frame: pb.SubscribeResponse, run: LeasedRun, records: Sequence[Record]) -> None:
    delivery = frame.deliveries.deliveries.add(
        topic=run.at.topic,
        partition=run.at.partition,
        attempt=run.attempt,
        failures=run.failures,
        leased_until_ms=run.leased_until_ms,
    )
    (head, tail), add = run.receipt_ends, delivery.messages.add
    for one in records:
        offset = one.offset
        add(
            offset=offset,
            timestamp_ms=one.timestamp_ms,
            key=one.key,
            value=one.value,
            receipt=f"{head}{offset}{tail}",
        )
    if has_headers(records):
        for message, one in zip(delivery.messages, records, strict=True):
            message.headers.extend(headers_out(one.headers))
