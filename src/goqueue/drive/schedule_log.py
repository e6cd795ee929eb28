"""The schedule log: an internal compacted topic of one partition. Small batches, so that one entry is cheap to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Offset
from goqueue.base.limits import KIB, MIB
from goqueue.core.schedule.records import Encoded, ScheduleEntry, ScheduleRecord, decode_record, encode_record
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header, split
from goqueue.format.records import NewRecord, Record, build, decode
from goqueue.log.home import NO_RESOURCES, out_of_resources
from goqueue.log.reader import NeedsVerification

SCHEDULE_TOPIC: Final = "__goqueue_schedule"
SCHEDULE_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(32 * MIB)}
_ENTRIES_MAX: Final = 16  # a batch
_BATCH_BYTES: Final = 64 * KIB
_READ_BYTES: Final = 8 * KIB


class ScheduleLog:
    """Appends on the loop; reads off it."""

    def __init__(self, partition: Partition, clock: Clock) -> None:
        self.partition = partition
        self._clock = clock

    @property
    def end_offset(self) -> Offset:
        return self.partition.log.end_offset

    def append_entries(self, entries: Sequence[ScheduleEntry]) -> tuple[list[Offset], GoQueueError | None]:
        """The offsets of those that are stored, the first ones; and why the others are not."""
        offsets: list[Offset] = []
        try:
            for batch in _batches(entries):
                offsets += self.append(batch)
        except GoQueueError as error:
            return offsets, error
        return offsets, None

    def append(self, records: Sequence[ScheduleRecord], more: Sequence[Encoded] = ()) -> range:
        """All in one batch, or nothing; the records' offsets."""
        start = self.end_offset
        encoded = [encode_record(record, start + at) for at, record in enumerate(records)]
        now = self._clock.now_ms()
        batch = build([NewRecord(key, value, headers, now) for key, value, headers in (*encoded, *more)])
        base = self.partition.append(batch, read_header(batch), now, append_time=False)
        assert base == start, "keys hold the offsets that the log gives"
        return range(start, start + len(records))

    def sync_now(self) -> None:
        """Makes everything safe before it returns. Blocks."""
        log = self.partition.log
        if (job := log.begin_sync()) is not None:
            # A sync of a new segment that is under way elsewhere may not have made its name safe yet.
            job.new_names |= log.segments[-1].base_offset >= log.synced_offset
            try:
                job.run()
            except OSError as error:
                if error.errno in NO_RESOURCES and not job.sync_failed:
                    log.refuse_sync(job, error)
                    raise out_of_resources(error) from error
                raise log.fail(error) from error
            log.finish_sync(job)
            self.partition.synced()

    def records(self, start: Offset) -> Iterator[tuple[Offset, ScheduleRecord]]:
        """Everything readable from an offset on. Blocks."""
        log = self.partition.log
        for batch in log.batches(max(start, log.start_offset)):
            for stored in decode(batch):
                record = decode_record(stored.key, stored.value, stored.headers)
                if record is not None and stored.offset >= start:
                    yield stored.offset, record

    def read_entries(self, offsets: Sequence[Offset], bytes_max: int) -> dict[Offset, ScheduleEntry | None]:
        """Entries in the order asked for, until they are many bytes; None where there is none to read. Blocks."""
        found: dict[Offset, ScheduleEntry | None] = {}
        beside: dict[Offset, Record] = {}  # of the batch read last: neighbours are often wanted together
        size = 0
        for offset in offsets:
            if offset not in beside:
                beside = self._batch_with(offset)
            entry = found[offset] = _entry(beside.get(offset))
            size += 0 if entry is None else entry.size
            if size > bytes_max:
                break
        return found

    def _batch_with(self, offset: Offset) -> dict[Offset, Record]:
        log = self.partition.log
        try:
            batch = next(split(log.read(offset, _READ_BYTES, log.end_offset, wait=True)), None)
            return {one.offset: one for one in decode(batch)} if batch is not None else {}
        except (GoQueueError, NeedsVerification):
            return {}


def _batches(entries: Sequence[ScheduleEntry]) -> Iterator[list[ScheduleEntry]]:
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


def _entry(stored: Record | None) -> ScheduleEntry | None:
    record = None if stored is None else decode_record(stored.key, stored.value, stored.headers)
    return record if isinstance(record, ScheduleEntry) else None
