"""What the queue view writes down, and its bytes. One record for many messages.

A `Snapshot` stands for everything before it. What this code does not know decodes to None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.core.delivery.policy import DeadLetterTarget


class ViewId(NamedTuple):
    """One group's view of one partition."""

    group: str
    topic: str
    partition: int

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class _Base(msgspec.Struct, frozen=True, array_like=True, gc=False):
    view: ViewId


class Opened(_Base, frozen=True, tag=1):
    """The view begins here, whatever it was before."""

    offset: Offset


class Passed(_Base, frozen=True, tag=2):
    """Everything below is done."""

    offset: Offset


class LeaseGranted(_Base, frozen=True, tag=3):
    """Handed out. `cells` has two steps for each message: from the one before to its cell, and from there to it."""

    lane: int
    nonce: str
    owner: str
    at_ms: Millis
    until_ms: Millis
    cells: tuple[int, ...]
    keys: tuple[bytes | None, ...] = ()


class Extended(_Base, frozen=True, tag=4):
    """Kept longer; with an `owner`, by that one from now on."""

    lane: int
    offsets: tuple[Offset, ...]
    until_ms: Millis
    owner: str | None = None


class Acked(_Base, frozen=True, tag=5):
    """Acked; `is_late` by somebody whose lease was over."""

    lane: int
    offsets: tuple[Offset, ...]
    is_late: bool = False


class Returned(_Base, frozen=True, tag=6):
    """Ready again, each at its time; `is_failure` counts an attempt as failed."""

    lane: int
    offsets: tuple[Offset, ...]
    due_ms: tuple[Millis, ...]
    is_failure: bool
    is_expired: bool = False  # its lease ran out
    is_unsent: bool = False  # nobody got it: that it was handed out last does not count


class DeadLettering(_Base, frozen=True, tag=7):
    """Given up. The copies are in the grave, or have still to be made."""

    lane: int
    cells: tuple[int, ...]
    reason: str
    text: str
    at_ms: Millis
    is_failure: bool
    dead_letter_target: DeadLetterTarget


class DeadLettered(_Base, frozen=True, tag=8):
    """The copies are safe."""

    lane: int
    offsets: tuple[Offset, ...]


class Forgotten(_Base, frozen=True, tag=9):
    """The group or the topic is gone."""


class Dropped(_Base, frozen=True, tag=11):
    """Done without having been handed out: too old, or no longer in the log."""

    lane: int
    cells: tuple[int, ...]


class Parked(_Base, frozen=True, tag=12):
    """Looked at, and not handed out: others with their keys are with somebody, or go first."""

    lane: int
    cells: tuple[int, ...]
    keys: tuple[bytes | None, ...]


class RangesLeased(_Base, frozen=True, tag=13):
    """Handed out for the first time: messages in a row, range after range. The first cell begins at `start`; `steps`
    has two for each range: from the end of the one before to its first message, and from there to its last."""

    lane: int
    nonce: str
    owner: str
    at_ms: Millis
    until_ms: Millis
    start: Offset
    steps: tuple[int, ...]


class RangesAcked(_Base, frozen=True, tag=14):
    """Acked: everything that is held from a first to a last offset, which are in turn in `ends`."""

    ends: tuple[Offset, ...]
    count: int


class HeldRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message that was looked at and is not done. `until_ms` is the end of its lease or of its wait."""

    start: Offset
    offset: Offset
    state: int
    handed: int
    failed: int
    first_ms: Millis
    until_ms: Millis = 0
    owner: str = ""
    nonce: str = ""
    key: bytes | None = None
    reason: str = ""
    text: str = ""
    dead_letter_target: DeadLetterTarget | None = None
    earlier: tuple[str, ...] = ()
    since_ms: Millis = 0  # when its lease began


class LentRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Messages in a row under one lease, each handed out once."""

    start: Offset
    first: Offset
    last: Offset
    first_ms: Millis
    until_ms: Millis
    owner: str
    nonce: str
    since_ms: Millis


class LaneRow(msgspec.Struct, frozen=True, array_like=True):
    lane: int
    floor: Offset
    done: tuple[tuple[Offset, Offset], ...]
    held: tuple[HeldRow, ...]
    cursor: Offset
    handed: int = 0
    finished: int = 0
    served_ms: Millis | None = None
    lent: tuple[LentRow, ...] = ()


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """What became of a view's messages so far."""

    acked: int = 0
    nacked: int = 0
    rejected: int = 0
    expired: int = 0
    dead: dict[str, int] = {}


class ViewSnapshot(_Base, frozen=True, tag=10):
    base: Offset
    lanes: tuple[LaneRow, ...]
    task: str = ""  # the last redrive of this view, and how many it moved
    redriven: int = 0
    counts: Counts = Counts()


Record: TypeAlias = (
    Opened
    | Passed
    | LeaseGranted
    | Parked
    | Extended
    | Acked
    | Returned
    | DeadLettering
    | DeadLettered
    | Dropped
    | Forgotten
    | ViewSnapshot
    | RangesLeased
    | RangesAcked
)

encode_record = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def decode_record(value: bytes) -> Record | None:
    """The record, or None if a later version wrote it."""
    try:
        return _decoder.decode(value)
    except msgspec.DecodeError:
        return None


def pack_cells(cells: Iterable[tuple[Offset, Offset]]) -> tuple[int, ...]:
    """Cells as small steps: a run of neighbours is all zeros but for its beginning."""
    cells = list(cells)
    if cells and cells == [(offset, offset) for offset in range(cells[0][0], cells[0][0] + len(cells))]:
        return (cells[0][0], *(0,) * (2 * len(cells) - 1))
    steps: list[int] = []
    end = 0
    for start, offset in cells:
        steps.append(start - end)
        steps.append(offset - start)
        end = offset + 1
    return tuple(steps)


def unpack_cells(steps: Sequence[int]) -> list[tuple[Offset, Offset]]:
    cells: list[tuple[Offset, Offset]] = []
    end = 0
    for at in range(0, len(steps), 2):
        start = end + steps[at]
        offset = start + steps[at + 1]
        cells.append((start, offset))
        end = offset + 1
    return cells
