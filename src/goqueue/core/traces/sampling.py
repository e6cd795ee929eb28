"""Which messages are traced, and under which ids.

Both follow from a message's place alone: topic, partition and offset. So a batch is sampled without a look at its
records, and whoever meets a message again, in this life of the node or a later one, comes to the same answer. Of a
rate of one in a hundred every hundredth offset of a partition is chosen, each partition beginning at another.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final
from zlib import crc32

from goqueue.base.ids import Offset
from goqueue.base.trace_context import TraceContext

WHOLE: Final = 1 << 20  # rates are whole parts of this
_ODD: Final = 0x9E3779B97F4A7C15  # times this, neighbours look unlike
_MASK: Final = (1 << 64) - 1


def share_of(rate: float) -> int:
    """A rate from 0 to 1 as parts of `WHOLE`; what is not nothing is at least one part."""
    return max(1, round(rate * WHOLE)) if rate > 0 else 0


def phase_of(topic_id: str, partition: int) -> int:
    return crc32(f"{topic_id}/{partition}".encode())


def is_chosen(offset: Offset, share: int, phase: int) -> bool:
    return ((offset + phase) * share) % WHOLE < share


def chosen(first: Offset, last: Offset, share: int, phase: int) -> range | list[Offset]:
    """Those of the offsets, both ends included, that are traced."""
    if share >= WHOLE:
        return range(first, last + 1)
    before, last_one = ((first + phase - 1) * share) // WHOLE, ((last + phase) * share) // WHOLE
    return [-(-number * WHOLE // share) - phase for number in range(before + 1, last_one + 1)] if share else []


class Identities:
    """The ids of a partition's messages that brought none: of the trace, and of the span at its root.

    One half of a trace's id is the partition's, the other comes from the offset, no two from the same one.
    """

    def __init__(self, topic_id: str, partition: int) -> None:
        digest = blake2b(f"{topic_id}/{partition}".encode(), digest_size=16).hexdigest()
        self.prefix, self._root = digest[:16], int(digest[16:], 16)

    def numbers(self, offset: Offset) -> tuple[int, int]:
        """The second half of the trace's id, and the root's."""
        number = (offset + 1) * _ODD & _MASK
        return number, number ^ self._root or 1

    def flat(self, offsets: Iterable[Offset]) -> list[int]:
        """The same for many, each followed by its offset, in a row."""
        root, found = self._root, list[int]()
        for offset in offsets:
            number = (offset + 1) * _ODD & _MASK
            found += (number, number ^ root or 1, offset)
        return found

    def trace_id(self, offset: Offset) -> str:
        return f"{self.prefix}{self.numbers(offset)[0]:016x}"

    def span_id(self, offset: Offset) -> str:
        return f"{self.numbers(offset)[1]:016x}"

    def of(self, offset: Offset) -> TraceContext:
        return TraceContext(self.trace_id(offset), self.span_id(offset))
