"""Which batches of a fetch a reader gets to see, as Kafka's own consumers decide it.

A fetch of committed data tells which producers' transactions in it were aborted, and from where on. A producer's
batches from there to its next marker are left out. Markers are never shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.base.errors import CorruptBatch
from goqueue.format.batch import BatchHeader, Buffer, read_header, strides, verify
from goqueue.pipeline.arrow.spots import Spot
from goqueue.wire.messages.fetch import AbortedTransaction


def sound_batches(buffer: Buffer, offset: int, end: int) -> tuple[list[Spot], int]:
    """The batches of a fetch from `offset` that begin before `end`, their CRCs checked; and where to go on.

    The last one may be cut. One that is damaged is left for the next fetch too, which begins with it: `CorruptBatch`.
    """
    spots: list[Spot] = []
    reached = offset
    for at, _, base_offset, _ in strides(buffer):
        if base_offset >= end:
            return spots, base_offset
        try:
            header = read_header(buffer, at)
            verify(buffer, header, at)
        except CorruptBatch:
            if reached > offset:
                break
            raise
        spots.append(Spot(header, at))
        reached = header.next_offset
    if reached <= offset:
        raise CorruptBatch("A fetch brought no whole batch that goes on from its offset.")
    return spots, reached


def visible(spots: Sequence[Spot], aborted: Sequence[AbortedTransaction]) -> list[Spot]:
    """Those with messages for a reader, given the aborted transactions that the fetch told of."""
    waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    dead: set[int] = set()
    shown: list[Spot] = []
    for spot in spots:
        while waiting and waiting[-1].first_offset <= spot.header.last_offset:
            dead.add(waiting.pop().producer_id)
        if _is_shown(spot.header, dead):
            shown.append(spot)
    return shown


def _is_shown(header: BatchHeader, dead: set[int]) -> bool:
    if header.is_control:
        dead.discard(header.producer_id)  # whatever was aborted ends with its marker
        return False
    return not (header.is_transactional and header.producer_id in dead)
