"""Producers and transactions over restarts: a snapshot beside each log, and the batches behind it.

The snapshot is written before a segment is sealed, when all that it knows of is synced, and at a clean stop. What came
after it is read from the batches. A log without one had neither when its last segment was sealed; one that is damaged,
or knows of batches that were cut off since, is made anew from the whole log.
"""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.ids import Epoch, Millis, Offset
from goqueue.core.dedupe import Dedupe, ProducerState
from goqueue.core.partition_txns import Aborted, PartitionTxns
from goqueue.format.batch import BatchHeader, Buffer, read_header
from goqueue.format.control import is_commit
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.epoch_history import NO_EPOCH, epoch_of
from goqueue.log.partition_log import PartitionLog

FILE: Final = "producers"


class ProducerSnapshot(msgspec.Struct, frozen=True):
    """The producers and transactions of all batches below an offset, the last of which is of that epoch."""

    offset: Offset
    producers: list[ProducerState]
    open: dict[int, Offset] = {}
    aborted: list[Aborted] = []
    epoch: Epoch = NO_EPOCH  # which earlier versions did not note


def snapshot_producers(dedupe: Dedupe, txns: PartitionTxns, log: PartitionLog) -> bytes:
    """Of the log as it is now."""
    end = log.end_offset
    epoch = epoch_of(log.notes.meta.epochs, end - 1)
    return encode_crc_json(ProducerSnapshot(end, dedupe.producers(), txns.open, list(txns.aborted), epoch))


def note_transaction(
    txns: PartitionTxns, dedupe: Dedupe, batch: Buffer, header: BatchHeader, base_offset: Offset
) -> None:
    """A transactional batch is in the log there: a message or a marker. A marker that is written again after a crash
    ends nothing that the producer wrote in a later epoch."""
    if not header.is_control:
        txns.wrote(header.producer_id, base_offset)
    elif header.producer_epoch >= dedupe.epoch_of(header.producer_id):
        txns.ended(header.producer_id, base_offset, is_commit(batch))


def write_producers(log: PartitionLog, snapshot: bytes, is_needed: bool) -> None:
    """Blocks; runs off the loop. Durable: after a power cut the batches before it are not read again."""
    path = f"{log.home.directory}/{FILE}"
    if log.segments and (is_needed or log.home.disk.read_file(path) is not None):
        log.home.disk.write_file(path, snapshot)


def recover_producers(log: PartitionLog, was_clean: bool, now: Millis) -> tuple[Dedupe, PartitionTxns, bool]:
    """Blocks; runs off the loop. After a clean stop without a snapshot there was nothing to note. True if batches that
    would have said something are damaged."""
    dedupe, txns = Dedupe(), PartitionTxns()
    stored = log.home.disk.read_file(f"{log.home.directory}/{FILE}")
    if not log.segments:
        _forget(log, stored)
        return dedupe, txns, False
    snapshot = decode_crc_json(stored, ProducerSnapshot)
    if snapshot is not None and not _is_of(log, snapshot):
        snapshot = None  # it may have seen markers that are gone: only the log can tell
    if snapshot is not None:
        dedupe.restore(snapshot.producers)
        txns.restore(snapshot.open, snapshot.aborted)
        txns.cut_head(log.start_offset)
    start = _unnoted_from(log, snapshot, stored is not None, was_clean)
    note_batches(log, dedupe, txns, start, log.end_offset, now)
    lost = (region for segment in log.segments for region in segment.lost_regions())
    return dedupe, txns, any(region.next_offset > start for region in lost)


def note_batches(
    log: PartitionLog, dedupe: Dedupe, txns: PartitionTxns, start: Offset, end: Offset, now: Millis
) -> None:
    """What the log says from one offset up to another. Blocks."""
    for batch in log.batches(start):
        header = read_header(batch)
        if header.base_offset >= end:
            return
        dedupe.appended(header, header.base_offset, now)
        if header.is_transactional:
            note_transaction(txns, dedupe, batch, header, header.base_offset)


def _forget(log: PartitionLog, stored: bytes | None) -> None:
    """The log is empty, and may begin anew: what others write to it is not what the snapshot knows of."""
    if stored is not None:
        log.home.disk.remove(f"{log.home.directory}/{FILE}")
        log.home.disk.sync_dir(log.home.directory)


def _is_of(log: PartitionLog, snapshot: ProducerSnapshot) -> bool:
    """Whether the log has the batches that the snapshot knows of. It may have been cut and be as long again: then
    another leader wrote what is there, and logs are equal up to a place that one leader wrote in both."""
    last = snapshot.offset - 1
    if snapshot.epoch == NO_EPOCH or last < log.start_offset:
        return snapshot.offset <= log.end_offset
    return last < log.end_offset and epoch_of(log.notes.meta.epochs, last) == snapshot.epoch


def _unnoted_from(log: PartitionLog, snapshot: ProducerSnapshot | None, was_there: bool, was_clean: bool) -> Offset:
    """From where on the log says more than the snapshot."""
    if snapshot is not None:
        return max(snapshot.offset, log.start_offset)
    if was_there:
        return log.start_offset
    if was_clean:
        return log.end_offset
    unsealed = next((one.base_offset for one in log.segments if one.seal is None), log.end_offset)
    return max(unsealed, log.start_offset)
