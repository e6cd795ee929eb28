"""Idempotent producers over restarts: a snapshot beside each log, and the batches behind it.

The snapshot is written when a segment is sealed and at a clean stop. It need not be exact: marks beyond the log's end
are dropped, and what came after it is read from the batch headers.
"""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.ids import Millis, Offset
from goqueue.core.dedupe import Dedupe, Producer
from goqueue.format.batch import read_header
from goqueue.log.note import decode_note, encode_note
from goqueue.log.partition_log import PartitionLog

FILE: Final = "producers"


class Snapshot(msgspec.Struct, frozen=True):
    """The producers of all batches below an offset."""

    offset: Offset
    producers: list[Producer]


def snapshot_producers(dedupe: Dedupe, offset: Offset) -> bytes:
    return encode_note(Snapshot(offset, dedupe.producers()))


def write_producers(log: PartitionLog, snapshot: bytes, is_needed: bool) -> None:
    """Blocks; runs off the loop. Durable: after a power cut the batches before it are not read again."""
    path = f"{log.home.directory}/{FILE}"
    if log.segments and (is_needed or log.home.disk.read_file(path) is not None):
        log.home.disk.write_file(path, snapshot)


def recover_producers(log: PartitionLog, was_clean: bool, now: Millis) -> Dedupe:
    """Blocks; runs off the loop. After a clean stop without a snapshot there were no idempotent producers."""
    dedupe = Dedupe()
    if not log.segments:
        return dedupe
    snapshot = decode_note(log.home.disk.read_file(f"{log.home.directory}/{FILE}"), Snapshot)
    if snapshot is not None:
        dedupe.restore(snapshot.producers)
        dedupe.cut(log.end_offset)
        start = max(snapshot.offset, log.start_offset)
    else:
        start = log.end_offset if was_clean else max(log.segments[-1].base_offset, log.start_offset)
    for batch in log.batches(start):
        header = read_header(batch)
        dedupe.appended(header, header.base_offset, now)
    return dedupe
