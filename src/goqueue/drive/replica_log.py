"""A log as replication sees it, on both sides. On a node it is a partition; a test may have something smaller."""

from __future__ import annotations

from typing import Protocol

from goqueue.base.ids import Epoch, Offset
from goqueue.base.replication import LogKey


class ReplicaLog(Protocol):
    @property
    def key(self) -> LogKey: ...

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def synced_offset(self) -> Offset:
        """Everything below is on the disk."""
        ...

    @property
    def high_watermark(self) -> Offset: ...

    @property
    def minimum(self) -> int:
        """Of replicas that have to be in sync."""
        ...

    @property
    def last_epoch(self) -> Epoch:
        """Of the last batch; -1 if there is none."""
        ...

    def end_of_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """The largest epoch here that is not larger, and where it ends."""
        ...

    def bytes_from(self, offset: Offset) -> int:
        """About how much lies behind an offset."""
        ...

    def read_tail(self, offset: Offset, bytes_max: int) -> bytes:
        """Whole batches from there on, also above the high watermark; at least one if there is one."""
        ...

    def is_readable(self, offset: Offset) -> bool:
        """False if it was found damaged there."""
        ...

    def take(self, batches: bytes) -> int:
        """Appends batches as another node wrote them; how many they are."""
        ...

    async def wait_synced(self) -> None:
        """Returns when everything that it holds is on the disk."""
        ...

    def cut(self, offset: Offset) -> None:
        """Drops what is behind."""
        ...

    def begin_anew(self, start: Offset) -> None:
        """The leader has nothing before that any more, and this log ends before it: it is dropped whole."""
        ...

    @property
    def deleted_to(self) -> Offset:
        """Before where somebody asked for everything to go."""
        ...

    def note_deleted(self, to: Offset) -> None:
        """Somebody did; it is dropped next."""
        ...

    def begin_at(self, start: Offset) -> None:
        """The leader has dropped what is before."""
        ...

    def mark(self, high_watermark: Offset) -> None:
        """Readers may go so far."""
        ...
