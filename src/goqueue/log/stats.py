"""What the storage engine counts, for all partitions of a node. Plain numbers; `/metrics` reads them."""

from __future__ import annotations

import msgspec


class StorageStats(msgspec.Struct):
    """Counters only grow while the node lives."""

    batches_appended: int = 0
    bytes_appended: int = 0
    bytes_read: int = 0
    reads: int = 0
    segments_rolled: int = 0
    segments_sealed: int = 0
    segments_deleted: int = 0
    segments_verified: int = 0
    segments_compacted: int = 0
    records_compacted_away: int = 0
    bytes_compacted_away: int = 0
    bytes_cut: int = 0
    damaged_ranges: int = 0
    indexes_rebuilt: int = 0
    append_failures: int = 0
    sync_failures: int = 0
