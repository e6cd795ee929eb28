"""One segment: a file of batches, its two indexes, and its life: active, rolled, sealed, verified.

Active: appended to, indexes in memory. Rolled: closed to appends, not yet sealed. Sealed: synced, its length and
checksum on record; file and indexes are opened when needed and let go when many are open. A sealed segment from an
earlier run is verified against its seal when first read.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.base.ids import Millis, Offset, Position
from goqueue.format.batch import BatchHeader, Buffer
from goqueue.log.contents import SegmentContents
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import File
from goqueue.log.home import SegmentHome, unless_full
from goqueue.log.index import SegmentIndexes
from goqueue.log.scan import DamagedRegion, checksum

logger = logging.getLogger(__name__)

FORMAT_VERSION: Final = 1
SUFFIXES: Final = (".log", ".index", ".timeindex", ".seal", ".damage")
_NOWHERE: Final = 1 << 63


class Seal(msgspec.Struct, frozen=True):
    """What a sealed segment must look like."""

    version: int
    length: int
    crc: int
    next_offset: Offset
    max_timestamp: Millis
    max_timestamp_offset: Offset
    first_timestamp: Millis
    tombstones_since: Millis | None = None  # when a compaction first kept this segment's tombstones


class Segment(SegmentContents):
    """See the module's first lines."""

    __slots__ = (
        "_file",
        "_lock",
        "_pinned",
        "_rewriting",
        "_unsynced",
        "home",
        "seal",
        "trusted_from",
        "verified",
    )

    def __init__(self, home: SegmentHome, base_offset: Offset) -> None:
        super().__init__(base_offset, home.index_interval_bytes)
        self.home = home
        self.seal: Seal | None = None
        self.verified = True
        self.trusted_from: Offset = _NOWHERE  # from here on it was written in this run, so it needs no check
        self._pinned = False
        self._rewriting = False  # its file has another name for now
        self._unsynced = False  # written to since the last sync
        self._file: File | None = None
        self._lock = threading.RLock()

    @classmethod
    def create(cls, home: SegmentHome, base_offset: Offset) -> Segment:
        """A new, empty, active segment. Its name is durable after the next directory sync."""
        segment = cls(home, base_offset)
        file = home.open(segment.path(".log"), create=True)
        if file.size:
            file.truncate(0)
        segment._file = file
        home.open_segments.touch_active(segment)
        return segment

    @classmethod
    def sealed(cls, home: SegmentHome, base_offset: Offset, seal: Seal) -> Segment:
        """A segment of an earlier run, as its seal describes it; nothing is opened yet."""
        segment = cls(home, base_offset)
        segment._take_facts(seal)
        segment.seal = seal
        segment.damage = tuple(decode_crc_json(home.disk.read_file(segment.path(".damage")), list[DamagedRegion]) or ())
        segment.verified = False
        segment.let_go()
        return segment

    @classmethod
    def opened(cls, home: SegmentHome, base_offset: Offset, facts: Seal) -> Segment:
        """An active segment of an earlier run, as its checkpoint describes it; its indexes wait on disk."""
        segment = cls(home, base_offset)
        segment._take_facts(facts)
        segment.verified = facts.length == 0
        segment.trusted_from = facts.next_offset
        if facts.length:
            segment._indexes = None
        return segment

    @classmethod
    def rewritten(cls, home: SegmentHome, base_offset: Offset) -> Segment:
        """A segment under construction in a `.log.compact` file, to take an older one's place."""
        segment = cls(home, base_offset)
        segment.may_skip = segment._rewriting = True
        home.disk.remove(segment.path(".log.compact"))
        segment._file = home.disk.open(segment.path(".log.compact"), create=True)
        return segment

    def _take_facts(self, seal: Seal) -> None:
        self.length = seal.length
        self.next_offset = seal.next_offset
        self.first_timestamp = seal.first_timestamp
        self.max_timestamp = seal.max_timestamp
        self.max_timestamp_offset = seal.max_timestamp_offset

    def path(self, suffix: str) -> str:
        return f"{self.home.directory}/{self.base_offset:020d}{suffix}"

    # --- open and let go ---------------------------------------------------------------------------------

    def file(self) -> File:
        """The open file; opened now if need be. Where there is a writer only its handle is kept: it knows the size."""
        file = self._file
        if file is None:
            file = self._open()
            if self.seal is None:
                return file
            self._file = file
        if self.seal is not None and not self._pinned:
            self.home.open_segments.touch(self)
        return file

    def keep_open(self) -> None:
        """Until `let_go`, while nobody appends: who looks through it opens it once."""
        self._file = self._open()

    def _open(self) -> File:
        return self.home.open(self.path(".log"))

    def _file_to_append(self) -> File:
        file = self._file
        if file is None or file.size != self.length:
            file = self._open()
            if file.size != self.length:
                raise OSError(errno.EIO, f"the file has {file.size} bytes, and should have {self.length}")
            self._file = file
        if not self._rewriting:
            self.home.open_segments.touch_active(self)
        return file

    def synced(self, length: int) -> None:
        """So much of it is safe."""
        if length == self.length:
            self._unsynced = False

    def held_file(self) -> File | None:
        """The handle, if it is open."""
        return self._file

    def stored_indexes(self) -> SegmentIndexes | None:
        """Both as they lie on disk, if they fit."""
        return SegmentIndexes.read(self.home.disk, self.path(""), self.length)

    def indexes(self) -> SegmentIndexes:
        found = self._indexes
        return self._load_indexes() if found is None else found

    def _load_indexes(self) -> SegmentIndexes:
        """An active segment's first append comes here before it changes the length, so file and index agree."""
        with self._lock:
            found = self._indexes
            if found is not None:
                return found
            if (stored := self.stored_indexes()) is None:
                return self._rebuild_indexes()
            self._indexes = stored
            return stored

    def let_go(self) -> bool:
        """Drops handle and indexes of a sealed segment, or the handle of one that is safe. Readers keep theirs."""
        if self._pinned or (self.seal is None and self._unsynced and self.home.keeps_unsynced):
            return False
        self._file = None
        if self.seal is not None:
            self._indexes = None
        return True

    def pin(self) -> None:
        """Holds on to file and indexes for good: the name on disk is about to mean another file."""
        self._pinned = True
        self.home.open_segments.forget(self)
        self.file(), self.indexes()

    # --- growing -----------------------------------------------------------------------------------------

    def append(self, buffers: Sequence[Buffer], header: BatchHeader, base_offset: Offset) -> None:
        """Writes a stamped batch at the end; raises `OSError` with the file unchanged."""
        position = self.length
        self._write(buffers)
        self.note_batch(position, header, base_offset)

    def append_run(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Writes batches that another node stamped, and that lie one behind the other, at once."""
        self._write([data])
        for header in headers:
            self.note_batch(self.length, header, header.base_offset)

    def _write(self, buffers: Sequence[Buffer]) -> None:
        file, was_unsynced = self._file, self._unsynced
        self._unsynced = True  # from here on the handle stays
        try:
            if file is None or not was_unsynced or file.size != self.length:
                file = self._file_to_append()
            file.append(buffers)
        except OSError:
            self._unsynced = was_unsynced
            raise

    # --- sealing -----------------------------------------------------------------------------------------

    def write_seal(self, tombstones_since: Millis | None = None) -> Seal:
        """Syncs the file, writes indexes and seal. Runs off the loop; nobody appends to it any more."""
        self.file().sync()
        self.write_indexes()
        # Without one damage is looked for anew at the next start.
        crc = -1 if self.damage or self.differs else checksum(self.file(), self.length)
        seal = Seal(
            FORMAT_VERSION,
            self.length,
            crc,
            self.next_offset,
            self.max_timestamp,
            self.max_timestamp_offset,
            self.first_timestamp,
            tombstones_since,
        )
        self.home.disk.write_file(self.path(".seal"), encode_crc_json(seal))
        return seal

    def write_indexes(self) -> None:
        self.indexes().write(self.home.disk, self.path(""), self.length)

    # --- damage ------------------------------------------------------------------------------------------

    def verify(self) -> None:
        """Checks a segment of an earlier run, once, off the loop, and fences off damage. Nobody appends to it."""
        with self._lock:
            if self.verified:
                return
            self.home.stats.segments_verified += 1
            if self.damage or not self._fits_seal():
                self._rescan()
                self._look_outside_batches()
            self.verified = True

    def _look_outside_batches(self) -> None:
        """No CRC of a batch covers its epoch, nor its offset. Who asks gets it; how it was another replica knows."""
        if self.damage or not self.length:
            self.differs = self.may_be_misplaced
        elif self.seal is not None and self.seal.crc >= 0:
            self.differs = checksum(self.file(), self.length) != self.seal.crc
        else:
            self.differs = not self.is_in_order(self.file())
        if self.differs:
            self.home.stats.damaged_ranges += 1
            logger.error("a segment is not as it was sealed", extra={"segment": self.path(".log")})

    def doubt(self) -> None:
        """It is checked again before it is read."""
        with self._lock:
            self.verified, self.trusted_from = False, _NOWHERE

    def _fits_seal(self) -> bool:
        seal, file = self.seal, self.file()
        return seal is not None and file.size == seal.length and checksum(file, self.length) == seal.crc

    def _rebuild_indexes(self) -> SegmentIndexes:
        self.home.stats.indexes_rebuilt += 1
        logger.warning("index rebuilt", extra={"segment": self.path(".log")})
        return self._rescan()

    def _rescan(self) -> SegmentIndexes:
        """Walks the whole file: new indexes, and new damage if there is any. Length and end stay as promised.

        Readers see the old state or the new one: the walk is done on a copy.
        """
        file, fresh = self.file(), SegmentContents(self.base_offset, self._interval, self.may_skip)
        regions = fresh.check(file, 0, min(file.size, self.length), self.next_offset, is_promised=True)
        if fresh.length < self.length and not (regions and regions[-1].next_offset == self.next_offset):
            regions.append(DamagedRegion(fresh.length, self.length, fresh.next_offset, self.next_offset))
        # A missing neighbour leaves no trace in this file.
        reached = regions[-1].next_offset if regions else self.base_offset
        regions += [gap for gap in self.damage if gap.position == gap.end and gap.next_offset > reached]
        if regions != list(self.damage):
            self.quarantine(regions)
        self._indexes, self._indexed_to = fresh.indexes(), fresh._indexed_to
        self.take_times(fresh, is_whole=not regions)
        if self.seal is not None:
            with unless_full():
                self.write_indexes()
        return fresh.indexes()

    def quarantine(self, regions: Sequence[DamagedRegion]) -> None:
        """Records damaged regions beside the segment; reads go around them."""
        self.damage = tuple(regions)
        self.home.stats.damaged_ranges += len(regions)
        with unless_full():
            self.home.disk.write_file(self.path(".damage"), encode_crc_json(self.damage))
        for region in regions:
            facts = {"segment": self.path(".log"), **msgspec.structs.asdict(region)}
            logger.error("damaged bytes quarantined", extra=facts)

    # --- shrinking ---------------------------------------------------------------------------------------

    def cut(self, position: Position, next_offset: Offset) -> None:
        """Drops everything from a batch boundary on; offsets, times and indexes follow the file."""
        damage = tuple(region for region in self.damage if region.position < position)
        self.home.stats.bytes_cut += self.file().size - position
        self.file().truncate(position)
        self._begin()
        self.check(self.file(), 0, position, next_offset)
        self.length, self.next_offset, self.damage = position, next_offset, damage

    def unseal(self) -> None:
        """Makes a sealed segment active again; it must be loaded, verified and sound."""
        self.indexes()
        self.home.open_segments.forget(self)
        self.seal = None
        for suffix in (".seal", ".index", ".timeindex"):
            self.home.disk.remove(self.path(suffix))

    def remove_files(self) -> None:
        """Deletes the segment; the log goes first, so that what stays after a crash is known to be litter."""
        self.home.open_segments.forget(self)
        for suffix in SUFFIXES:
            self.home.disk.remove(self.path(suffix))
        self.home.stats.segments_deleted += 1
