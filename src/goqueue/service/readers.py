"""Where REST members are: one reader for each, in memory, gone with its member."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.leases import Begin
from goqueue.core.groups.errors import UnknownMember
from goqueue.core.groups.parts import PartList

_SWEEP_SIZE_MIN: Final = 64


class MemberReading(msgspec.Struct, frozen=True):
    """How a member wants to read: where a group without a position begins, who commits, for how long it leases."""

    begin: Begin = "earliest"
    auto_commit: bool = True
    lease_ms: Millis | None = None
    strict: bool = False


class Reader:
    """One member. `assigned` is what it may read, `leaving` what it must give back and did not yet."""

    def __init__(
        self, group: str, member_id: str, reading: MemberReading, beat_ms: Millis, is_shared: bool = False
    ) -> None:
        self.is_shared = is_shared  # with the group's other members it has all partitions in common
        self.group = group
        self.member_id = member_id
        self.reading = reading
        self.beat_ms = beat_ms
        self.generation = -1
        self.assigned: tuple[TopicPartition, ...] = ()
        self.leaving: frozenset[TopicPartition] = frozenset()
        self.untold: set[TopicPartition] = set()  # gained in a poll, for the next heartbeat to tell
        self.beat: tuple[int, int, float] | None = None  # the last without news: generation, changes of groups, when
        self.committed_s = asyncio.get_running_loop().time()
        self.nonces: set[str] = set()  # of what it was handed, until that is done for it
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

    def keep(self, assigned: Iterable[TopicPartition], revoked: Iterable[TopicPartition]) -> set[TopicPartition]:
        """What it has now; returns what it no longer has and did not know of."""
        before = {*self.assigned, *self.leaving}
        self.assigned, self.leaving = tuple(assigned), frozenset(revoked)
        self.untold &= set(self.assigned)
        return before.difference(self.assigned, self.leaving)


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

    def of(self, group: str) -> set[str]:
        return set(self._all.get(group, ()))

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
