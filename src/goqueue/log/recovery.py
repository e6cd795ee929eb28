"""Opens a partition directory: whole after a clean stop at once, after a crash by checking what was not sealed.

Sealed segments are taken by their seals. Segments without one are walked batch by batch. A bad batch below the last
known sync is damage and is fenced off; from there on it is the crash's work: the log is cut at the last whole batch.
What a cut takes away is kept in a `.cut` file where it held more than a torn write. Foreign files are left alone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

import msgspec

from goqueue.base.errors import CorruptBatch
from goqueue.base.ids import Offset
from goqueue.base.startup_errors import DataTooNew
from goqueue.format.batch import HEADER_BYTES, read_header
from goqueue.log.appending import RollRule
from goqueue.log.checkpoint import Meta, SegmentCheckpoint, read_checkpoint
from goqueue.log.crc_json import decode_crc_json
from goqueue.log.epoch_history import Epochs, EpochStart, cut_tail, with_batches
from goqueue.log.home import SegmentHome, refused_when_full, unless_full
from goqueue.log.jobs import sync_path
from goqueue.log.notes import META_FILE, LogNotes
from goqueue.log.partition_log import PartitionLog
from goqueue.log.scan import DamagedRegion, Sound, walk
from goqueue.log.segment import FORMAT_VERSION, Seal, Segment

logger = logging.getLogger(__name__)

_SEGMENT_FILE: Final = re.compile(r"(\d{20})\.(log|index|timeindex|seal|damage)")
_LITTER: Final = re.compile(r"(\d{20}\.\w+|meta\.json|checkpoint|producers)\.(tmp|compact)")
_KEPT: Final = re.compile(r"\d{20}\.\d+\.cut|meta\.json|checkpoint|producers")


class Recovered(msgspec.Struct):
    """What opening a log found and did."""

    segments: int = 0
    bytes_checked: int = 0
    bytes_cut: int = 0
    damaged_ranges: int = 0
    foreign_files: int = 0
    bytes_replayed: int = 0  # from the journal

    @property
    def was_clean(self) -> bool:
        return self.bytes_checked == 0 and self.bytes_replayed == 0


class StrayLog(Exception):
    """The directory holds messages of another topic, which had the same name."""


def open_log(
    home: SegmentHome, roll: RollRule, topic_id: str = "", others_have_it: bool = False
) -> tuple[PartitionLog, Recovered]:
    """The log of a directory; an empty one if the directory is not there yet. `StrayLog` if another topic wrote it, or,
    where `others_have_it`, if a power cut left bytes that no sync covered and nothing that says whose they are."""
    recovery = _Recovery(home, roll, topic_id, others_have_it)
    if others_have_it and topic_id and recovery.is_of_nobody:
        raise StrayLog(f"{home.directory} does not say which topic it belongs to")
    return recovery.run()


def _with_following(bases: list[Offset]) -> Iterator[tuple[Offset, Offset | None]]:
    """Each base with the one after it; None after the last."""
    return zip_longest(bases, bases[1:])


def _first_epoch(segments: list[Segment]) -> Epochs:
    """What a log has that does not say: everything was written in epoch 0."""
    return (EpochStart(0, segments[0].base_offset),) if segments else ()


def _end_of_whole(segment: Segment, torn: DamagedRegion) -> Offset:
    """Where a batch ends that was written whole and is damaged, or 0: a write that was interrupted is shorter."""
    try:
        header = read_header(segment.file().read(torn.position, HEADER_BYTES))
    except CorruptBatch:
        return 0
    is_whole = torn.position + header.size <= torn.end and header.base_offset == torn.first_offset
    return header.next_offset if is_whole else 0


class _Recovery:
    def __init__(self, home: SegmentHome, roll: RollRule, topic_id: str, others_have_it: bool) -> None:
        self._home = home
        self._disk = home.disk
        self._roll = roll
        self._others_have_it = others_have_it
        self._found = Recovered()
        self._meta_lost = False
        self._meta = self._read_meta(topic_id)
        if self._meta.version > FORMAT_VERSION:
            raise DataTooNew(
                f"{home.directory} has format version {self._meta.version}; this version of GoQueue knows up to "
                f"{FORMAT_VERSION}. Start the version that wrote it, or a later one.",
                field="data.dir",
            )
        self._names: frozenset[str] = frozenset()
        self._checkpoint = read_checkpoint(self._disk, home.directory, self._meta.topic_id)
        self._written_end: Offset = 0  # of what was cut off and had been written whole

    def _read_meta(self, topic_id: str) -> Meta:
        path = f"{self._home.directory}/{META_FILE}"
        data = self._disk.read_file(path)
        meta = decode_crc_json(data, Meta)
        self._meta_lost = meta is None
        if data is not None and meta is None:
            logger.error("damaged note replaced by its defaults", extra={"path": path})
        if meta is not None and meta.topic_id and topic_id and meta.topic_id != topic_id:
            raise StrayLog(f"{self._home.directory} belongs to the topic with the id {meta.topic_id}")
        meta = meta or Meta(FORMAT_VERSION)
        return msgspec.structs.replace(meta, topic_id=topic_id or meta.topic_id)

    @property
    def is_of_nobody(self) -> bool:
        """There are messages, and neither facts nor a checkpoint nor a seal: it was never synced."""
        names = [] if not self._meta_lost or self._checkpoint else self._disk.names(self._home.directory)
        return any(name.endswith(".log") for name in names) and not any(name.endswith(".seal") for name in names)

    @property
    def _synced_offset(self) -> Offset:
        return self._checkpoint.synced_offset if self._checkpoint else 0

    def run(self) -> tuple[PartitionLog, Recovered]:
        segments: list[Segment] = []
        bases = self._tidy()
        for base, following in _with_following(bases):
            if segments and base < segments[-1].next_offset:
                # A merge's leftover: its records stand in the segment before it.
                Segment(self._home, base).remove_files()
                continue
            segment, is_cut = self._open_segment(base, following)
            self._note_missing(segments, segment)
            segments.append(segment)
            if is_cut:
                self._set_aside([later for later in bases if later > base])
                break
        self._note_missing_head(segments)
        self._found.segments = len(segments)
        self._found.damaged_ranges = sum(len(segment.damage) for segment in segments)
        syncs = self._checkpoint.sync if self._checkpoint else 0
        end = max(segments[-1].next_offset if segments else 0, self._meta.start_offset)
        # What was asked to go and is gone with the end is not what will be there.
        deleted_to = min(self._meta.deleted_to, end)
        meta = msgspec.structs.replace(self._meta, epochs=self._epochs(segments, end), deleted_to=deleted_to)
        is_news = meta.epochs not in (self._meta.epochs, _first_epoch(segments))
        meta_changed = deleted_to < self._meta.deleted_to or (bool(segments) and (self._meta_lost or is_news))
        for segment in segments:
            segment.let_go()
        notes = LogNotes(self._home, meta, meta_changed, has_directory=bool(segments))
        log = PartitionLog(self._home, self._roll, notes, segments, syncs)
        log.once_held(max(self._synced_offset, meta.held_to), self._written_end)
        if not self._found.was_clean and not self._is_safe(log):
            log.needs_sync()
        if segments and (self._checkpoint is None or self._checkpoint.base_offset != segments[-1].base_offset):
            sync_path(self._disk, self._home.directory)  # its file is synced, but perhaps its name never was
        return log, self._found

    def _is_safe(self, log: PartitionLog) -> bool:
        """The crash took nothing away: the last sync covered the log as it is, and its note holds."""
        is_whole = not self._found.bytes_cut and not self._found.damaged_ranges
        return is_whole and log.end_offset == self._synced_offset

    def _epochs(self, segments: list[Segment], end: Offset) -> Epochs:
        """As they are noted, as far as the log goes; those of batches that no sync covered are read from the log."""
        known = self._meta.epochs
        unsure = segments if self._meta_lost else [segment for segment in segments if self._was_checked(segment)]
        for segment in unsure:
            segment.verify()
        if segments and not known and segments[0] not in unsure:
            known = _first_epoch(segments)
        known_to = self._synced_offset if known else 0  # which is noted after the history
        return cut_tail(with_batches(known, unsure, known_to), end)

    def _was_checked(self, segment: Segment) -> bool:
        return segment.seal is None and segment.verified and segment.length > 0

    def _tidy(self) -> list[Offset]:
        """Removes litter and dropped segments; returns the bases that count, ascending."""
        logs: list[Offset] = []
        others: set[Offset] = set()
        self._names = frozenset(self._disk.names(self._home.directory))
        for name in sorted(self._names):
            if match := _SEGMENT_FILE.fullmatch(name):
                (logs.append if match[2] == "log" else others.add)(int(match[1]))
            elif _LITTER.fullmatch(name):
                self._disk.remove(f"{self._home.directory}/{name}")
            elif not _KEPT.fullmatch(name):
                self._found.foreign_files += 1
                logger.warning("foreign file ignored", extra={"path": f"{self._home.directory}/{name}"})
        kept = [
            base
            for base, following in _with_following(logs)
            if following is None or following > self._meta.start_offset
        ]
        for orphan in (others | set(logs)) - set(kept):
            Segment(self._home, orphan).remove_files()
        return kept

    def _open_segment(self, base: Offset, following: Offset | None) -> tuple[Segment, bool]:
        """The segment, and whether the log ends with it because it had to be cut."""
        if following is not None:
            seal = decode_crc_json(self._disk.read_file(Segment(self._home, base).path(".seal")), Seal)
            if seal is not None:
                return self._open_sealed(base, seal), False
        elif self._checkpoint is not None and (opened := self._open_clean(base, self._checkpoint)):
            return opened, False
        return self._check_unsealed(base, following)

    def _open_sealed(self, base: Offset, seal: Seal) -> Segment:
        segment = Segment.sealed(self._home, base, seal)
        segment.may_skip = base < self._meta.gaps_to
        if self._disk.size(segment.path(".log")) != seal.length and not segment.damage:
            segment.verify()
        return segment

    def _open_clean(self, base: Offset, known: SegmentCheckpoint) -> Segment | None:
        """The last segment as the checkpoint knows it, if file and indexes fit and the tail batch is sound."""
        segment, may_skip = Segment(self._home, base), base < self._meta.gaps_to
        length = self._disk.size(segment.path(".log"))
        if (known.base_offset, known.length) != (base, length) or (length and not self._has_indexes(base)):
            return None
        seal = Seal(
            FORMAT_VERSION,
            length,
            0,
            known.synced_offset if length or may_skip else base,  # it may be the log's start, which lies behind it
            known.max_timestamp,
            known.max_timestamp_offset,
            known.first_timestamp,
        )
        segment = Segment.opened(self._home, base, seal)
        segment.may_skip = may_skip
        if length == 0:
            return segment
        indexes = segment.stored_indexes()
        if indexes is None:
            return None
        relative, position = indexes.offsets.last_entry()
        *_, last = walk(segment.file(), position, length, base + relative, may_skip)
        if not isinstance(last, Sound) or last.header.next_offset != known.synced_offset:
            return None
        segment.let_go()
        return segment

    def _has_indexes(self, base: Offset) -> bool:
        return all(f"{base:020d}{suffix}" in self._names for suffix in (".index", ".timeindex"))

    def _check_unsealed(self, base: Offset, following: Offset | None) -> tuple[Segment, bool]:
        segment = Segment(self._home, base)
        segment.may_skip = base < self._meta.gaps_to
        segment.keep_open()
        # An old seal must not come back over what is appended from now on.
        if self._remove(segment, ".seal", ".damage"):
            self._disk.sync_dir(self._home.directory)
        length = segment.file().size
        self._found.bytes_checked += length
        regions = segment.check(segment.file(), 0, length, following)
        damage = [region for region in regions if self._is_damage(region, length, following)]
        torn = next((region for region in regions if region not in damage), None)
        if torn is not None:
            self._cut(segment, torn, length)
            damage = [region for region in damage if region.position < torn.position]
        segment.length = segment.file().size
        if damage:
            segment.quarantine(damage)
        if following is not None and torn is None and (damage or following <= self._meta.gaps_to):
            segment.next_offset = max(segment.next_offset, following)
        if damage or torn is not None or segment.next_offset > self._synced_offset:
            segment.file().sync()
        # Indexes of an earlier life may lie beside it.
        self._remove(segment, ".index", ".timeindex")
        ends_early = following is not None and self._synced_offset <= segment.next_offset < following
        return segment, torn is not None or ends_early

    def _remove(self, segment: Segment, *suffixes: str) -> bool:
        """Whether one of these files was there."""
        stale = [suffix for suffix in suffixes if f"{segment.base_offset:020d}{suffix}" in self._names]
        for suffix in stale:
            self._disk.remove(segment.path(suffix))
        return bool(stale)

    def _is_damage(self, region: DamagedRegion, length: int, following: Offset | None) -> bool:
        """Known to have been safe, and something sound follows it."""
        has_more = region.end < length or following is not None
        return region.first_offset < self._synced_offset and has_more

    def _cut(self, segment: Segment, torn: DamagedRegion, length: int) -> None:
        size = length - torn.position
        self._found.bytes_cut += size
        was_safe = torn.first_offset < self._synced_offset
        self._written_end = max(self._written_end, segment.next_offset, _end_of_whole(segment, torn))
        if was_safe or torn.end < length:
            kept = f"{self._home.directory}/{segment.base_offset:020d}.{torn.position}.cut"
            with refused_when_full():
                self._disk.write_file(kept, segment.file().read(torn.position, size))
        logger.log(
            logging.ERROR if was_safe else logging.WARNING,
            "log cut at the last whole batch",
            extra={"segment": segment.path(".log"), "bytes": size, "next_offset": torn.first_offset},
        )
        segment.cut(torn.position, torn.first_offset)

    def _set_aside(self, bases: list[Offset]) -> None:
        """Segments behind a cut were never safe; they are kept for people, not for readers."""
        for base in bases:
            segment = Segment(self._home, base)
            source = segment.path(".log")
            self._written_end = max(self._written_end, base)
            self._found.bytes_cut += self._disk.size(source)
            logger.error("segment behind a cut set aside", extra={"segment": source})
            self._disk.rename(source, f"{self._home.directory}/{base:020d}.0.cut")
            segment.remove_files()
        if bases:
            self._disk.sync_dir(self._home.directory)

    def _note_missing_head(self, segments: list[Segment]) -> None:
        """The same of the first, where others have it: the log's own facts say where it begins, unless they are lost. A
        log that nobody else has begins where its files do: so may somebody make room who has no other way."""
        start, is_known = self._meta.start_offset, self._others_have_it and not self._meta_lost
        if not is_known or not segments or segments[0].base_offset <= start:
            return
        first, head = segments[0], Segment.rewritten(self._home, start)
        head.next_offset, head.first_timestamp = first.base_offset, first.first_timestamp
        head.max_timestamp = first.first_timestamp  # or it would be the first to go
        head.quarantine([DamagedRegion(0, 0, start, first.base_offset)])
        # Sealed before it has its name: without that an empty file is what compaction leaves.
        head.may_skip = start < self._meta.gaps_to
        with unless_full():
            head.seal = head.write_seal()
        self._disk.rename(head.path(".log.compact"), head.path(".log"))
        self._disk.sync_dir(self._home.directory)
        segments.insert(0, head)

    def _note_missing(self, segments: list[Segment], segment: Segment) -> None:
        """A segment file that vanished leaves a gap between its neighbours: damage, not silence."""
        if not segments or segments[-1].next_offset >= segment.base_offset:
            return
        before = segments[-1]
        if before.seal is None and segment.base_offset <= self._meta.gaps_to:
            before.next_offset = segment.base_offset  # a merge whose last records were compacted away
            return
        gap = DamagedRegion(before.length, before.length, before.next_offset, segment.base_offset)
        before.next_offset = segment.base_offset
        if gap not in before.damage:
            before.quarantine([*before.damage, gap])
