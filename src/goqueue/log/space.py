"""Refuses writes before the disk is full, so that there is room left to compact, to note and to recover."""

from __future__ import annotations

from goqueue.base.errors import DiskFull
from goqueue.log.disk import Disk, Usage


class SpaceGuard:
    """Holds the last measured usage; `check` costs a comparison."""

    def __init__(self, disk: Disk, used_percent_max: float) -> None:
        self._disk = disk
        self._limit = used_percent_max
        self.usage = disk.usage()

    def measure(self) -> Usage:
        """Looks again; call it about once a second."""
        self.usage = self._disk.usage()
        return self.usage

    @property
    def is_full(self) -> bool:
        return self.usage.used_percent >= self._limit

    def check(self) -> None:
        """`DiskFull` if writes are refused now."""
        if self.is_full:
            raise DiskFull(
                f"The disk is {self.usage.used_percent:.0f} % full; writes are refused from {self._limit:.0f} % on. "
                "Free space, shorten retention, or raise log.disk_used_percent_max.",
                used_percent=round(self.usage.used_percent, 1),
            )
