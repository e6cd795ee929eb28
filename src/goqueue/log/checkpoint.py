"""What is known to be safe: written beside the log after every sync, itself not synced.

It is a lower bound and judges damage: below `synced_offset` everything had been safe, so a bad batch there is damage
and is fenced off; from there on it is a write that the crash interrupted, and is cut. If the last segment has exactly
the base and length that were noted, and its indexes fit, it needs no check at all.
"""

from __future__ import annotations

import msgspec

from goqueue.base.ids import Millis, Offset


class Checkpoint(msgspec.Struct, frozen=True):
    """The active segment as it was when last synced."""

    synced_offset: Offset
    base_offset: Offset
    length: int
    first_timestamp: Millis
    max_timestamp: Millis
    max_timestamp_offset: Offset


class Meta(msgspec.Struct, frozen=True):
    """A partition directory's own facts."""

    version: int
    start_offset: Offset = 0
    compacted_to: Offset = 0  # every segment that begins below was compacted
    gaps_to: Offset = 0  # below, compaction may have left offsets without a record
