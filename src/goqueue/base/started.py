"""A node that has begun to serve."""

from __future__ import annotations

import msgspec


class Started(msgspec.Struct, frozen=True):
    """What a start found, for the person who asked for it."""

    version: str
    data_dir: str
    addresses: dict[str, str]
    fsync: str
    topics: int
    partitions: int
    messages: int | None  # None while it is not known yet how many are acknowledged
    bytes_checked: int
    bytes_cut: int
    bytes_replayed: int
    damaged_ranges: int
    damaged_entries: int
    seconds: float
