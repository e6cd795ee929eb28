"""How messages are kept: the part of the settings that the storage engine reads."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from goqueue.base.limits import KIB, MIB

Doc = msgspec.Meta
Fsync = Literal["always", "interval", "never"]


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fsync: Annotated[
        Fsync,
        Doc(
            description="`always`: answer after the sync; `interval`: sync in the background; "
            "`never`: leave it to the system."
        ),
    ] = "interval"
    fsync_interval_ms: Annotated[int, Doc(ge=1, description="Period of the background sync.")] = 1_000
    journal_bytes: Annotated[
        int,
        Doc(
            ge=0, description="Size of the journal that small writes share under `always`; 0 syncs every log by itself."
        ),
    ] = 16 * MIB
    index_interval_bytes: Annotated[int, Doc(ge=256, description="Log bytes between two index entries.")] = 4 * KIB
    disk_used_percent_max: Annotated[
        int, Doc(ge=1, le=100, description="Writes are refused above this share of the disk in use.")
    ] = 90
    cleanup_interval_ms: Annotated[int, Doc(ge=10, description="How often retention and compaction look for work.")] = (
        30_000
    )
    scrub_interval_ms: Annotated[
        int, Doc(ge=10, description="How long after one look at all stored bytes for damage the next one begins.")
    ] = 86_400_000
    scrub_bytes_per_s: Annotated[
        int, Doc(ge=0, description="How many bytes a second are looked at for damage; 0 looks at none.")
    ] = 4 * MIB
    clock_wait_ms: Annotated[
        int, Doc(ge=0, description="After the machine's clock was set nothing expires by its age for so long.")
    ] = 600_000
