"""What the segments of a partition share: disk, directory, counters, and how many of them may be open."""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Protocol

import msgspec

from goqueue.base.errors import DiskFull, OutOfResources
from goqueue.base.limits import OPEN_ACTIVE_SEGMENTS_MAX, OPEN_SEALED_SEGMENTS_MAX
from goqueue.log.disk import Disk, File
from goqueue.log.stats import StorageStats

logger = logging.getLogger(__name__)

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LOOKED_AT: Final = 16
# The system is busy: nothing is wrong with what is on disk, and the same may work in a moment.
NO_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
# The disk cannot give back what was written.
UNREADABLE: Final = (errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO))


def out_of_resources(why: OSError) -> OutOfResources:
    return OutOfResources(
        f"The system has no file descriptors or memory left ({why.strerror}); nothing was changed. Try again in a "
        "moment, or allow the node more open files (ulimit -n)."
    )


@contextlib.contextmanager
def unless_full() -> Iterator[None]:
    """For notes that the next start can do without: no space is no reason to fail."""
    try:
        yield
    except OSError as error:
        if error.errno not in (*NO_SPACE, *NO_RESOURCES):
            raise
        logger.warning("no space for a note", extra={"error": str(error)})


@contextlib.contextmanager
def refused_when_full() -> Iterator[None]:
    """For notes that somebody waits for: no space, or no descriptor, is an answer, not a failure."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_RESOURCES:
            raise out_of_resources(error) from error
        if error.errno not in NO_SPACE:
            raise
        raise DiskFull("No space left on the disk; free some or add retention. Nothing was changed.") from error


class Closable(Protocol):
    """What can be let go and opened again."""

    def let_go(self) -> bool:
        """False if it cannot be let go now."""


class OpenSegments:
    """Keeps at most so many segments open, node-wide; the least recently used is let go first.

    Those that are written to have a table of their own: of them only the handle is let go, and only once what was
    written is safe, or the first error of a sync could go unseen.
    """

    def __init__(self, sealed_max: int = OPEN_SEALED_SEGMENTS_MAX, active_max: int = OPEN_ACTIVE_SEGMENTS_MAX) -> None:
        self._sealed = _Recent(sealed_max)
        self._active = _Recent(active_max)

    def touch(self, segment: Closable) -> None:
        self._active.forget(segment)
        self._sealed.touch(segment)

    def touch_active(self, segment: Closable) -> None:
        self._active.touch(segment)

    def forget(self, segment: Closable) -> None:
        self._sealed.forget(segment)
        self._active.forget(segment)

    def trim(self) -> None:
        """Something is safe by now: handles that were kept for it may go."""
        self._active.trim()

    def make_room(self) -> bool:
        """The system gives no more descriptors: half of those that can be let go are. Whether there were any."""
        return self._active.halve() + self._sealed.halve() > 0

    @property
    def active_count(self) -> int:
        return len(self._active)


class _Recent:
    """By the last use."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: OrderedDict[int, Closable] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def touch(self, segment: Closable) -> None:
        with self._lock:
            self._open[id(segment)] = segment
            self._open.move_to_end(id(segment))
            if len(self._open) > self._limit:
                self._let_go(id(segment))

    def trim(self) -> None:
        if len(self._open) > self._limit:
            with self._lock:
                self._let_go(-1)

    def halve(self) -> int:
        """How many went, the least recently used first."""
        with self._lock:
            free = [key for key, one in list(self._open.items())[: len(self._open) // 2 + 1] if one.let_go()]
            for key in free:
                del self._open[key]
            return len(free)

    def _let_go(self, newest: int) -> None:
        """Looks at a few only: where all are in use, there are more open than there should be for a while."""
        for key in list(islice(self._open, _LOOKED_AT)):
            if len(self._open) <= self._limit or key == newest:
                return
            if self._open[key].let_go():
                del self._open[key]
            else:
                self._open.move_to_end(key)

    def forget(self, segment: Closable) -> None:
        with self._lock:
            self._open.pop(id(segment), None)


class SegmentHome(msgspec.Struct, eq=False):
    """What every segment of one partition shares."""

    disk: Disk
    directory: str  # changes once, when the log is deleted
    index_interval_bytes: int
    open_segments: OpenSegments
    stats: StorageStats
    keeps_unsynced: bool = True  # whether a handle stays open until what was written through it is safe
    uses_spare: bool = False  # whether its files may take descriptors that are held back
    begun: Callable[[], None] = lambda: None  # called as its directory is made
    settled: Callable[[], None] = lambda: None  # called before that directory is said to be durable

    def open(self, path: str, *, create: bool = False) -> File:
        """Where the system gives no descriptor, others that can be opened again are let go for it."""
        try:
            return self.disk.open(path, create=create, spare=self.uses_spare)
        except OSError as error:
            if error.errno not in NO_RESOURCES or not self.open_segments.make_room():
                raise
            return self.disk.open(path, create=create, spare=self.uses_spare)
