"""The schedule log: an partition of an internal compacted topic. Small batches, so that one entry is cheap to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.base.limits import KIB, MIB
from goqueue.core.schedule.records import ScheduleEntry, ScheduleRecord, decode_record, encode_record
from goqueue.drive.host_parts import Codec
from goqueue.drive.partition import Partition
from goqueue.format.batch import split
from goqueue.format.records import Record, decode
from goqueue.log.home import NO_RESOURCES, out_of_resources
from goqueue.log.reader import NeedsVerification

SCHEDULE_TOPIC: Final = "__goqueue_schedule"
SCHEDULE_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(32 * MIB)}
_ENTRIES_MAX: Final = 16  # a batch
_BATCH_BYTES: Final = 64 * KIB
_READ_BYTES: Final = 8 * KIB


def _decode(stored: Record) -> ScheduleRecord | None:
    return decode_record(stored.key, stored.value, stored.headers)


SCHEDULE_CODEC: Final[Codec[ScheduleRecord]] = Codec("delayed messages", encode_record, _decode)


def entry_batches(entries: Sequence[ScheduleEntry]) -> Iterator[list[ScheduleEntry]]:
    batch: list[ScheduleEntry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) >= _ENTRIES_MAX or size + entry.size > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch


def records_from(partition: Partition, start: Offset) -> Iterator[tuple[Offset, ScheduleRecord]]:
    """Everything readable from an offset on. Blocks."""
    for batch in partition.log.batches(max(start, partition.log.start_offset)):
        for stored in decode(batch):
            record = _decode(stored)
            if record is not None and stored.offset >= start:
                yield stored.offset, record


def read_entries(partition: Partition, offsets: Sequence[Offset], bytes_max: int) -> dict[Offset, ScheduleEntry | None]:
    """Entries in the order asked for, until they are many bytes; None where there is none to read. Blocks."""
    found: dict[Offset, ScheduleEntry | None] = {}
    beside: dict[Offset, Record] = {}  # of the batch read last: neighbours are often wanted together
    size = 0
    for offset in offsets:
        if offset not in beside:
            beside = _batch_with(partition, offset)
        record = _decode(beside[offset]) if offset in beside else None
        found[offset] = entry = record if isinstance(record, ScheduleEntry) else None
        size += 0 if entry is None else entry.size
        if size > bytes_max:
            break
    return found


def _batch_with(partition: Partition, offset: Offset) -> dict[Offset, Record]:
    log = partition.log
    try:
        batch = next(split(log.read(offset, _READ_BYTES, log.end_offset, wait=True)), None)
        return {one.offset: one for one in decode(batch)} if batch is not None else {}
    except (GoQueueError, NeedsVerification):
        return {}


def sync_now(partition: Partition) -> None:
    """Makes everything durable before it returns. Blocks."""
    log = partition.log
    if (job := log.begin_sync()) is not None:
        # A sync of a new segment that is under way elsewhere may not have made its name durable yet.
        job.new_names |= log.segments[-1].base_offset >= log.synced_offset
        try:
            job.run()
        except OSError as error:
            if error.errno in NO_RESOURCES and not job.sync_failed:
                log.refuse_sync(job, error)
                raise out_of_resources(error) from error
            raise log.fail(error) from error
        log.finish_sync(job)
        partition.synced()
