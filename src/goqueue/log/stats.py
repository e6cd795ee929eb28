"""What the storage engine counts, for all partitions of a node. Plain numbers; `/metrics` reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, get_args

import msgspec

Doc = msgspec.Meta


class StorageStats(msgspec.Struct):
    """Counters only grow while the node lives."""

    batches_appended: Annotated[int, Doc(description="Record batches written to logs.")] = 0
    records_appended: Annotated[int, Doc(description="Messages written to logs.")] = 0
    bytes_appended: Annotated[int, Doc(description="Bytes written to logs.")] = 0
    bytes_read: Annotated[int, Doc(description="Bytes read from logs.")] = 0
    reads: Annotated[int, Doc(description="Reads from logs that found data.")] = 0
    segments_rolled: Annotated[int, Doc(description="Segments closed because they were full or old.")] = 0
    segments_sealed: Annotated[int, Doc(description="Closed segments whose checksum is on record.")] = 0
    segments_deleted: Annotated[int, Doc(description="Segments deleted by retention, compaction or cuts.")] = 0
    segments_verified: Annotated[int, Doc(description="Segments of an earlier run compared with their checksum.")] = 0
    segments_compacted: Annotated[int, Doc(description="Segments rewritten by compaction.")] = 0
    records_compacted_away: Annotated[int, Doc(description="Superseded records that compaction dropped.")] = 0
    bytes_compacted_away: Annotated[int, Doc(description="Bytes that compaction freed.")] = 0
    bytes_cut: Annotated[int, Doc(description="Bytes cut from the ends of logs, most of them torn writes.")] = 0
    damaged_ranges: Annotated[int, Doc(description="Stretches found damaged and quarantined.")] = 0
    segments_mended: Annotated[int, Doc(description="Damaged segments made whole from another replica.")] = 0
    bytes_scrubbed: Annotated[
        int, Doc(description="Bytes that were compared with their checksums in the background.")
    ] = 0
    indexes_rebuilt: Annotated[int, Doc(description="Indexes that were missing or damaged and made anew.")] = 0
    append_failures: Annotated[int, Doc(description="Writes that the disk refused.")] = 0
    sync_failures: Annotated[int, Doc(description="Syncs that failed; each makes a partition read-only.")] = 0

    journal_entries: Annotated[
        int, Doc(description="Rounds of the group commit that one sync of the journal served.")
    ] = 0
    journal_bytes: Annotated[int, Doc(description="Bytes written to the journal.")] = 0
    journal_failures: Annotated[
        int, Doc(description="Writes to the journal that failed; the logs were synced instead.")
    ] = 0
    journal_replayed: Annotated[int, Doc(description="Record batches that the start took from the journal.")] = 0
    journal_damaged: Annotated[int, Doc(description="Entries of the journal that the start found damaged.")] = 0

    def described(self) -> Iterator[tuple[str, str, int]]:
        """(name, meaning, value) of every counter."""
        for field in msgspec.structs.fields(self):
            meta = next(part for part in get_args(field.type) if isinstance(part, msgspec.Meta))
            yield field.name, meta.description or "", getattr(self, field.name)
