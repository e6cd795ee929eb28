"""What is known to be safe: written beside the log after every sync, itself not synced.

It is a lower bound and judges damage: below `synced_offset` everything had been safe, so a bad batch there is damage
and is fenced off; from there on it is a write that the crash interrupted, and is cut. If the last segment has exactly
the base and length that were noted, and its indexes fit, it needs no check at all.

Two slots are overwritten in turn, in place: that costs the file system no new names, and a torn one leaves the other.
"""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.ids import Millis, Offset
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk
from goqueue.log.epoch_history import Epochs

FILE: Final = "checkpoint"
_SLOT_BYTES: Final = 512


class SegmentCheckpoint(msgspec.Struct, frozen=True):
    """The active segment as it was when last synced."""

    sync: int  # counts syncs, so that the newer of two is known
    synced_offset: Offset
    base_offset: Offset
    length: int
    first_timestamp: Millis
    max_timestamp: Millis
    max_timestamp_offset: Offset
    topic_id: str = ""  # whose log it is; empty if an earlier version wrote it


class Meta(msgspec.Struct, frozen=True):
    """A partition directory's own facts."""

    version: int
    start_offset: Offset = 0
    compacted_to: Offset = 0  # every segment that begins below was compacted
    gaps_to: Offset = 0  # below, compaction may have left offsets without a record
    deleted_to: Offset = 0  # below, somebody asked for it to go: not this replica's retention, nor damage
    topic_id: str = ""  # whose messages these are; empty if an earlier version wrote it
    cuts: int = 0  # how often the log was cut: what the journal holds from before that is void
    held_to: Offset = 0  # where it ended before its end was lost, as long as others may count what was there
    epochs: Epochs = ()  # none beside messages if an earlier version wrote it, which knew epoch 0 alone


def write_checkpoint(disk: Disk, directory: str, checkpoint: SegmentCheckpoint) -> None:
    """Overwrites the older slot."""
    slot = encode_crc_json(checkpoint).ljust(_SLOT_BYTES)
    disk.write_at(f"{directory}/{FILE}", checkpoint.sync % 2 * _SLOT_BYTES, slot)


def read_checkpoint(disk: Disk, directory: str, topic_id: str = "") -> SegmentCheckpoint | None:
    """The newest sound one. A power cut may bring back that of a deleted topic, whose name another has now."""
    data = disk.read_file(f"{directory}/{FILE}") or b""
    slots = [decode_crc_json(data[at : at + _SLOT_BYTES].rstrip(), SegmentCheckpoint) for at in (0, _SLOT_BYTES)]
    own = [slot for slot in slots if slot is not None and (not topic_id or slot.topic_id in ("", topic_id))]
    return max(own, key=lambda slot: slot.sync, default=None)


def forget_checkpoint(disk: Disk, directory: str) -> None:
    """Takes the promise back, durably."""
    disk.remove(f"{directory}/{FILE}")
    disk.sync_dir(directory)
