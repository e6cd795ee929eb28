"""Where REST members are: one reader for each, in memory, gone with its member."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.core.groups.errors import UnknownMember
from goqueue.core.groups.parts import PartList

Begin: TypeAlias = Literal["earliest", "latest"]
_SWEEP_SIZE_MIN: Final = 64


class Reading(msgspec.Struct, frozen=True):
    """How a member wants to read: where to begin without a committed offset, and who commits."""

    begin: Begin = "earliest"
    auto_commit: bool = True


class Place:
    """Where a member is in one partition. A new object for each time that the member gets the partition."""

    __slots__ = ("committed", "next")

    def __init__(self, next_offset: Offset, committed: Offset | None) -> None:
        self.next = next_offset
        self.committed = committed


class Reader:
    """One member. `assigned` is what it may read; `places` has what it must give back as well, until it did."""

    def __init__(self, group: str, member_id: str, reading: Reading, beat_ms: Millis) -> None:
        self.group = group
        self.member_id = member_id
        self.reading = reading
        self.beat_ms = beat_ms
        self.generation = -1
        self.assigned: tuple[TopicPartition, ...] = ()
        self.places: dict[TopicPartition, Place] = {}
        self.untold: set[TopicPartition] = set()  # gained in a poll, for the next heartbeat to tell
        self.committed_s = asyncio.get_running_loop().time()
        self.rotation = 0
        self.polling = asyncio.Lock()
        self._turn = 0
        self._waiting: asyncio.Future[None] | None = None

    # --- one poll at a time ----------------------------------------------------------------------------------

    def take_turn(self) -> int:
        """The poll before ends at once, with what it has."""
        self._turn += 1
        self.wake()
        return self._turn

    def has_turn(self, turn: int) -> bool:
        return self._turn == turn

    def waits_on(self, watcher: asyncio.Future[None] | None) -> None:
        self._waiting = watcher

    def wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # --- places ----------------------------------------------------------------------------------------------

    def keep(self, assigned: Iterable[TopicPartition], revoked: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forgets what was given back; answers with what is new and has no place yet."""
        self.assigned = tuple(assigned)
        held = {*self.assigned, *revoked}
        self.places = {at: place for at, place in self.places.items() if at in held}
        self.untold &= set(self.assigned)
        return [at for at in self.assigned if at not in self.places]

    def uncommitted(self, among: Iterable[TopicPartition]) -> dict[TopicPartition, Place]:
        chosen = ((at, self.places.get(at)) for at in among)
        return {at: place for at, place in chosen if place is not None and place.next != place.committed}

    def rotated(self) -> tuple[TopicPartition, ...]:
        """What it may read, beginning with another partition each time, so that a busy one does not starve others."""
        self.rotation += 1
        at = self.rotation % len(self.assigned) if self.assigned else 0
        return self.assigned[at:] + self.assigned[:at]


class Readers:
    """All of them, by group and member id. At most about twice as many as there are members."""

    def __init__(self, members: Callable[[str], set[str]]) -> None:
        self._members = members  # the ids of a group's members
        self._all: dict[str, dict[str, Reader]] = {}
        self._count = 0
        self._sweep_at = _SWEEP_SIZE_MIN

    def put(self, reader: Reader) -> None:
        """Takes the place of an earlier reader of the same member, whose poll ends."""
        self.drop(reader.group, reader.member_id)
        self._all.setdefault(reader.group, {})[reader.member_id] = reader
        self._count += 1
        if self._count >= self._sweep_at:
            self._sweep()

    def get(self, group: str, member_id: str) -> Reader | None:
        return self._all.get(group, {}).get(member_id)

    def require(self, group: str, member_id: str) -> Reader:
        reader = self.get(group, member_id)
        if reader is None:
            raise UnknownMember(
                "The node does not know where this member was (it restarted); join again with the same member_id, "
                "which keeps its partitions.",
                field="member_id",
            )
        return reader

    def drop(self, group: str, member_id: str) -> None:
        readers = self._all.get(group, {})
        reader = readers.pop(member_id, None)
        if reader is not None:
            self._count -= 1
            reader.take_turn()
        if not readers:
            self._all.pop(group, None)

    def wake_all(self) -> None:
        for readers in self._all.values():
            for reader in readers.values():
                reader.wake()

    def __len__(self) -> int:
        return self._count

    def _sweep(self) -> None:
        """Sessions that ran out leave their readers behind; this is where those go."""
        for group, readers in list(self._all.items()):
            for member_id in set(readers) - self._members(group):
                self.drop(group, member_id)
        self._sweep_at = max(_SWEEP_SIZE_MIN, 2 * self._count)


def flat(parts: PartList) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, numbers in parts for number in numbers]


def nested(partitions: Iterable[TopicPartition]) -> PartList:
    found: dict[str, list[int]] = {}
    for at in sorted(partitions):
        found.setdefault(at.topic, []).append(at.partition)
    return list(found.items())
