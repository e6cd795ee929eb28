"""How the file descriptors that the system allows are shared out, so that connections run out before the logs do."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.limits import (
    DESCRIPTORS_MIN,
    DESCRIPTORS_SPARE,
    OPEN_ACTIVE_SEGMENTS_MAX,
    OPEN_SEALED_SEGMENTS_MAX,
)
from goqueue.base.startup_errors import TooFewDescriptors

_PASSING: Final = 32  # files that are open for a moment: notes, indexes, compaction, the delay index, what threads read


class DescriptorPlan(msgspec.Struct, frozen=True):
    """`connections` is for all doors together."""

    connections: int
    active_segments: int = OPEN_ACTIVE_SEGMENTS_MAX
    sealed_segments: int = OPEN_SEALED_SEGMENTS_MAX


def share_out(allowed: int, in_use: int) -> DescriptorPlan:
    """Half of what is free is for segments, up to their limits; connections get the rest."""
    if allowed < DESCRIPTORS_MIN:
        raise TooFewDescriptors(
            f"The system allows {allowed} open files; a node needs at least {DESCRIPTORS_MIN}. Raise the limit "
            "(ulimit -n) and start again."
        )
    free = max(0, allowed - in_use - DESCRIPTORS_SPARE - _PASSING)
    sealed = max(4, min(OPEN_SEALED_SEGMENTS_MAX, free // 8))
    active = max(8, min(OPEN_ACTIVE_SEGMENTS_MAX, free // 2 - sealed))
    return DescriptorPlan(max(4, free - sealed - active), active, sealed)
