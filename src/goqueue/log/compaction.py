"""Keeps the last value of every key. Offsets and order stay; only superseded records go.

One pass reads the segments that are new since the last pass, remembers the last offset of each key in them, and
rewrites all sealed segments up to there, neighbours merged while they fit one segment. Records without a key and
control batches stay; records of aborted transactions go, and open transactions are not touched. Tombstones stay
`delete.retention.ms` after the first pass that met them. The last record of a log stays in any case: a replica that
gets the log anew learns by it where the log ends. If it is a tombstone, its time begins with the first pass that finds
something behind it.

A rewritten segment takes its place with one rename. Before it, the old seal and indexes go, so that a crash on either
side leaves a segment without a seal, which recovery checks and indexes anew; what a merge made superfluous begins
below its predecessor's end, which is how recovery knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from operator import lt

import msgspec

from goqueue.base.errors import CorruptBatch, DamagedRange
from goqueue.base.ids import Millis, Offset
from goqueue.base.limits import COMPACTION_KEY_BYTES_MAX, COMPACTION_KEYS_MAX
from goqueue.base.topic_config import TopicConfig
from goqueue.format.batch import BatchHeader, Buffer, assemble
from goqueue.format.compression import compress
from goqueue.format.records import RawRecord, payload, raw_records
from goqueue.log.appending import RELATIVE_OFFSET_MAX
from goqueue.log.partition_log import PartitionLog
from goqueue.log.scan import Flaw, walk
from goqueue.log.segment import Segment

LastOffsets = dict[bytes, Offset]
_KEY_BYTES = 200  # what a remembered key costs beside its bytes
IsAborted = Callable[[BatchHeader], bool]  # whether a batch is part of an aborted transaction


def _nothing_aborted(header: BatchHeader) -> bool:
    return False


class Swap(msgspec.Struct):
    """Ready to take its place: `run` off the loop, then `PartitionLog.swap` on it, then `clean_up` off it."""

    old: Sequence[Segment]
    new: Segment
    tombstones_since: Millis | None

    def run(self) -> None:
        self.new.file().sync()
        for segment in self.old:
            with suppress(FileNotFoundError):  # what is mended may be gone
                segment.pin()
        disk, directory = self.new.home.disk, self.new.home.directory
        for suffix in (".seal", ".index", ".timeindex", ".damage"):
            disk.remove(self.new.path(suffix))
        disk.sync_dir(directory)
        disk.rename(self.new.path(".log.compact"), self.new.path(".log"))
        disk.sync_dir(directory)
        self.new.seal = self.new.write_seal(self.tombstones_since)

    def give_up(self) -> None:
        """Instead of `run`."""
        self.new.home.disk.remove(self.new.path(".log.compact"))

    def clean_up(self) -> None:
        for segment in self.old:
            if segment.base_offset != self.new.base_offset:
                segment.remove_files()
        self.new.home.disk.sync_dir(self.new.home.directory)


class _Rules(msgspec.Struct, frozen=True):
    """What one pass decides by."""

    last: LastOffsets
    now: Millis
    tombstone_ms: int
    is_aborted: IsAborted = _nothing_aborted
    last_offset: Offset = -1  # of the log

    def tombstones_expired(self, segment: Segment) -> bool:
        since = segment.seal.tombstones_since if segment.seal else None
        return since is not None and since + self.tombstone_ms <= self.now

    def survives(self, record: RawRecord, offset: Offset, drop_tombstones: bool) -> bool:
        if record.key is None or offset == self.last_offset:
            return True
        if record.is_tombstone and drop_tombstones:
            return False
        return offset >= self.last.get(record.key, -1)


def candidates(log: PartitionLog, stable: Offset | None = None) -> list[Segment]:
    """The sealed, sound segments from the start on, as far as no open transaction has messages in them."""
    found: list[Segment] = []
    for segment in log.segments[:-1]:
        if segment.seal is None or segment.lost_regions() or (stable is not None and segment.next_offset > stable):
            break
        found.append(segment)
    return found


def is_due(log: PartitionLog, config: TopicConfig, now: Millis, stable: Offset | None = None) -> bool:
    """Enough is new, or tombstones have served their time."""
    if not config.compacts:
        return False
    segments = candidates(log, stable)
    total = sum(segment.length for segment in segments)
    dirty = sum(segment.length for segment in segments if segment.base_offset >= log.notes.meta.compacted_to)
    rules = _Rules({}, now, config.delete_retention_ms)
    enough = total > 0 and dirty > 0 and dirty / total >= config.min_cleanable_dirty_ratio
    return enough or any(map(rules.tombstones_expired, segments))


def compact(
    log: PartitionLog,
    config: TopicConfig,
    now: Millis,
    stable: Offset | None = None,
    is_aborted: IsAborted = _nothing_aborted,
) -> Generator[Swap | None, None, Offset]:
    """One pass, in steps: each `next` does a little work off the loop. None: go on; a `Swap`: carry it out first.

    It returns the offset up to which the log is then compacted. The caller makes `gaps_to` durable before the first
    step and `compacted_to` after the last.
    """
    segments = _sound(candidates(log, stable))
    last: LastOffsets = {}
    count = yield from _remember(segments, log.notes.meta.compacted_to, last, is_aborted)
    rules = _Rules(last, now, config.delete_retention_ms, is_aborted, log.end_offset - 1)
    group: list[Segment] = []
    size = 0
    for segment in segments[:count]:
        far = group and segment.next_offset - group[0].base_offset > RELATIVE_OFFSET_MAX
        if group and (far or size + segment.length > config.segment_bytes):
            yield from _rewrite(group, rules)
            group, size = [], 0
        group.append(segment)
        size += segment.length
    if group:
        yield from _rewrite(group, rules)
    return segments[count - 1].next_offset if count else log.notes.meta.compacted_to


def _sound(segments: Sequence[Segment]) -> list[Segment]:
    """Those before the first that turns out damaged."""
    sound: list[Segment] = []
    for segment in segments:
        segment.verify()
        if segment.lost_regions():
            break
        sound.append(segment)
    return sound


def _remember(
    segments: Sequence[Segment], dirty_from: Offset, last: LastOffsets, is_aborted: IsAborted
) -> Generator[None, None, int]:
    """Fills `last` from the dirty segments; returns how many segments the pass may cover.

    Keys for which there is no more room are not remembered: their records stay, until a later pass.
    """
    count = size = 0
    for segment in segments:
        if segment.base_offset >= dirty_from:
            if len(last) >= COMPACTION_KEYS_MAX or size >= COMPACTION_KEY_BYTES_MAX:
                break
            for batch, header in _batches(segment):
                for record in () if is_aborted(header) else _records(_body(batch, header), header):
                    if record.key is not None and (record.key in last or size < COMPACTION_KEY_BYTES_MAX):
                        size += _KEY_BYTES + len(record.key) if record.key not in last else 0
                        last[record.key] = header.base_offset + record.offset_delta
                yield None
        count += 1
    return count


def _rewrite(group: Sequence[Segment], rules: _Rules) -> Iterator[Swap | None]:
    """Writes the survivors of neighbours into one new segment."""
    new = Segment.rewritten(group[0].home, group[0].base_offset)
    try:
        since = yield from _copy_survivors(group, new, rules)
    except OSError:
        new.home.disk.remove(new.path(".log.compact"))  # on a full disk half a copy only takes up room
        raise
    new.home.stats.segments_compacted += len(group)
    new.home.stats.bytes_compacted_away += sum(segment.length for segment in group) - new.length
    yield Swap(group, new, since)


def _copy_survivors(group: Sequence[Segment], new: Segment, rules: _Rules) -> Generator[None, None, Millis | None]:
    """Returns since when there are tombstones among them."""
    since: Millis | None = None
    for segment in group:
        drop = rules.tombstones_expired(segment)
        has_tombstones = False
        for batch, header in _batches(segment):
            kept, tombstones, gone = _filter(batch, header, rules, drop)
            has_tombstones |= tombstones
            new.home.stats.records_compacted_away += gone
            if kept is not None:
                header = msgspec.structs.replace(header, length=len(kept) - 12)
                new.append([kept], header, header.base_offset)
            yield None
        if has_tombstones:
            old = segment.seal.tombstones_since if segment.seal else None
            since = max(since or 0, rules.now if old is None else old)
        new.next_offset = segment.next_offset
    return since


def _batches(segment: Segment) -> Iterator[tuple[bytes, BatchHeader]]:
    file = segment.file()
    for found in walk(file, 0, segment.length, segment.base_offset):
        if isinstance(found, Flaw):
            raise DamagedRange(f"A batch went bad while its segment was compacted: {found.reason}")
        yield file.read(found.position, found.header.size), found.header


def _body(batch: Buffer, header: BatchHeader) -> Buffer | None:
    """The records' bytes; None of a batch that stays as it is: a producer can put anything under a right CRC."""
    if header.is_control:
        return None
    try:
        body = payload(batch, header)
        offsets = (-1, *(record.offset_delta for record in raw_records(body, header.record_count)))
    except CorruptBatch:
        return None
    sound = offsets[-1] <= header.last_offset_delta and all(map(lt, offsets, islice(offsets, 1, None)))
    return body if sound and len(offsets) == header.record_count + 1 else None


def _records(body: Buffer | None, header: BatchHeader) -> Iterator[RawRecord]:
    return iter(()) if body is None else raw_records(body, header.record_count)


def _filter(batch: bytes, header: BatchHeader, rules: _Rules, drop_tombstones: bool) -> tuple[bytes | None, bool, int]:
    """The batch without superseded records (None if none is left), whether tombstones stay that go later, and how many
    records went."""
    if rules.is_aborted(header):
        return None, False, header.record_count
    body = _body(batch, header)
    if body is None or not header.record_count:
        return batch, False, 0
    kept: list[list[int]] = []  # stretches of neighbours
    gone = 0
    tombstones = False
    for record in _records(body, header):
        offset = header.base_offset + record.offset_delta
        if not rules.survives(record, offset, drop_tombstones):
            gone += 1
            continue
        tombstones |= record.is_tombstone and offset != rules.last_offset
        if kept and kept[-1][1] == record.start:
            kept[-1][1] = record.end
        else:
            kept.append([record.start, record.end])
    if not gone:
        return batch, tombstones, 0
    if not kept:
        return None, False, gone
    view = memoryview(body)
    survivors: Buffer = b"".join(view[start:end] for start, end in kept)
    if header.codec:
        survivors = compress(header.codec, survivors)
    left = msgspec.structs.replace(header, record_count=header.record_count - gone)
    return assemble(left, survivors), tombstones, gone
