"""Which whole segments have outlived their topic's rules. A decision over facts; deleting is `begin_drop_head`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile

from goqueue.base.ids import Millis, Offset
from goqueue.base.topic_config import TopicConfig
from goqueue.log.segment import Segment


def new_start(segments: Sequence[Segment], config: TopicConfig, now: Millis) -> Offset | None:
    """Where the log should begin, or None if all may stay. The active segment always stays."""
    if not config.deletes:
        return None
    sealed = list(takewhile(lambda segment: segment.seal is not None, segments[:-1]))
    count = max(
        _expired(segments, sealed, config.retention_ms, now), _surplus(segments, sealed, config.retention_bytes)
    )
    return segments[count].base_offset if count else None


def _expired(segments: Sequence[Segment], sealed: Sequence[Segment], retention_ms: int, now: Millis) -> int:
    """How many of the oldest hold nothing younger than the limit."""
    if retention_ms < 0:
        return 0
    for count, segment in enumerate(sealed):
        if max(segment.max_timestamp, _youngest_damaged(segment, segments, count)) >= now - retention_ms:
            return count
    return len(sealed)


def _youngest_damaged(segment: Segment, segments: Sequence[Segment], place: int) -> Millis:
    """What was damaged before a start has no time that is known: it may be as young as what follows."""
    if not segment.damage:
        return -1
    following = islice(segments, place + 1, None)
    return next((one.first_timestamp for one in following if one.first_timestamp >= 0), -1)


def _surplus(segments: Sequence[Segment], sealed: Sequence[Segment], retention_bytes: int) -> int:
    """How many of the oldest can go with the limit still filled by the rest."""
    if retention_bytes < 0:
        return 0
    total = sum(segment.length for segment in segments)
    for count, segment in enumerate(sealed):
        total -= segment.length
        if total < retention_bytes:
            return count
    return len(sealed)


def wants_roll(active: Segment, config: TopicConfig, now: Millis) -> bool:
    """The active segment is over its time, or holds only what retention would delete."""
    if not active.length:
        return False
    too_old = 0 <= active.first_timestamp < now - config.segment_ms
    expired = config.deletes and config.retention_ms >= 0 and active.max_timestamp < now - config.retention_ms
    return too_old or expired
