"""Move a group that nobody is in: to the ends of its logs, to a time, to an offset."""

from __future__ import annotations

import msgspec

from goqueue.api.groups import Target
from goqueue.base.errors import OffsetOutOfRange, UnknownPartition
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.core.groups.errors import GroupNotEmpty
from goqueue.core.groups.records import OffsetCommitted
from goqueue.core.groups.requests import OffsetCommit
from goqueue.service.browse import Browsing
from goqueue.service.groups import Groups


class Reset(msgspec.Struct, frozen=True):
    """One topic, or one partition of it. `number` is the time or the offset."""

    group: str
    topic: str
    to: Target
    partition: int | None = None
    number: Millis | Offset = 0
    dry_run: bool = False


class Moved(msgspec.Struct, frozen=True):
    """One partition's committed offset, before (None if there was none) and after."""

    topic: str
    partition: int
    before: Offset | None
    after: Offset


class ResetOffsets:
    """The verb."""

    def __init__(self, groups: Groups, browsing: Browsing) -> None:
        self._groups = groups
        self._browsing = browsing

    async def reset(self, command: Reset) -> list[Moved]:
        """All partitions or none. A dry run raises the same and changes nothing."""
        if self._groups.describe(command.group).members:
            raise GroupNotEmpty("The group has members; stop them first.", field="group")
        targets = await self._targets(command)
        committed = self._groups.offsets(command.group)
        places = [(TopicPartition(command.topic, number), target) for number, target in sorted(targets.items())]
        moves = [_move(at, committed.get(at), target) for at, target in places]
        if not command.dry_run:
            offsets = [OffsetCommit(move.topic, move.partition, move.after) for move in moves]
            await self._groups.reset_offsets(command.group, offsets)
        return moves

    async def _targets(self, command: Reset) -> dict[int, Offset]:
        starts = await self._browsing.offsets_from(command.topic, "earliest")
        ends = await self._browsing.offsets_from(command.topic, "latest")
        if command.to == "offset":
            targets = dict.fromkeys(starts, command.number)
        elif command.to == "timestamp":
            targets = await self._browsing.offsets_from(command.topic, command.number)
        else:
            targets = starts if command.to == "earliest" else ends
        chosen = targets if command.partition is None else _only(command, targets)
        for number, target in chosen.items():
            _check(command, number, target, starts[number], ends[number])
        return chosen


def _only(command: Reset, targets: dict[int, Offset]) -> dict[int, Offset]:
    number = command.partition
    if number is None or number not in targets:
        raise UnknownPartition(f"Topic {command.topic!r} has no partition {number}.", field="partition")
    return {number: targets[number]}


def _check(command: Reset, number: int, target: Offset, start: Offset, end: Offset) -> None:
    if command.to == "offset" and not start <= target <= end:
        raise OffsetOutOfRange(
            f"Partition {number} of {command.topic!r} has offsets from {start} to {end}, not {target}.",
            field="offset",
            partition=number,
            start_offset=start,
            end_offset=end,
        )


def _move(at: TopicPartition, known: OffsetCommitted | None, after: Offset) -> Moved:
    return Moved(at.topic, at.partition, None if known is None else known.offset, after)
