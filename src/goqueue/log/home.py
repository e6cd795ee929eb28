"""What the segments of a partition share: disk, directory, counters, and how many of them may be open."""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Protocol

import msgspec

from goqueue.base.errors import DiskFull
from goqueue.base.limits import OPEN_SEALED_SEGMENTS_MAX
from goqueue.log.disk import Disk
from goqueue.log.stats import StorageStats

logger = logging.getLogger(__name__)

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def unless_full() -> Iterator[None]:
    """For notes that the next start can do without: no space is no reason to fail."""
    try:
        yield
    except OSError as why:
        if why.errno not in NO_SPACE:
            raise
        logger.warning("no space for a note", extra={"why": str(why)})


@contextlib.contextmanager
def refused_when_full() -> Iterator[None]:
    """For notes that somebody waits for: no space is an answer, not a failure."""
    try:
        yield
    except OSError as why:
        if why.errno not in NO_SPACE:
            raise
        raise DiskFull("No space left on the disk; free some or add retention. Nothing was changed.") from why


class Closable(Protocol):
    """What can be let go and opened again."""

    def let_go(self) -> None: ...


class OpenSegments:
    """Keeps at most so many sealed segments open, node-wide; the least recently used is let go first."""

    def __init__(self, limit: int = OPEN_SEALED_SEGMENTS_MAX) -> None:
        self._limit = limit
        self._open: OrderedDict[int, Closable] = OrderedDict()
        self._lock = threading.Lock()

    def touch(self, segment: Closable) -> None:
        with self._lock:
            self._open[id(segment)] = segment
            self._open.move_to_end(id(segment))
            while len(self._open) > self._limit:
                _, oldest = self._open.popitem(last=False)
                oldest.let_go()

    def forget(self, segment: Closable) -> None:
        with self._lock:
            self._open.pop(id(segment), None)


class SegmentHome(msgspec.Struct, frozen=True):
    """What every segment of one partition shares."""

    disk: Disk
    directory: str
    index_interval_bytes: int
    open_segments: OpenSegments
    stats: StorageStats
