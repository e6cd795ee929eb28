"""The groups there are: found, made, turned from one kind into the other, woken in time and cleaned up."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from typing import Final

from goqueue.base.errors import InvalidGroup
from goqueue.base.ids import Millis
from goqueue.base.limits import GROUP_NAME_CHARS_MAX
from goqueue.core.groups.classic import ClassicGroup
from goqueue.core.groups.commits import Group, is_empty
from goqueue.core.groups.config import with_config
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.describe import live_topics
from goqueue.core.groups.errors import (
    InconsistentProtocol,
    RebalanceInProgress,
    TooManyGroups,
    UnknownGroup,
    UnknownMember,
)
from goqueue.core.groups.migration import downgraded, upgraded, wants_downgrade
from goqueue.core.groups.offsets import GroupOffsets
from goqueue.core.groups.records import GroupConfig, GroupGone, GroupState, Record
from goqueue.core.groups.replies import GroupStep
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.timing import RebalanceTiming

_CLEANING: Final = ""  # no group has this name


class GroupTable:
    """Groups and offsets by name. A group that only has offsets has no machine.

    `stored`, `offsets` and `configs` are durable and change by `apply` alone. `groups` are the machines at work, made
    from `stored` and ahead of it only while a step is decided and written.
    """

    def __init__(
        self,
        settings: GroupSettings,
        topics: Mapping[str, int] | None,
        elsewhere: Callable[[bool], int],
        check_new: Callable[[str], None],
    ) -> None:
        self.stored: dict[str, GroupState] = {}
        self.groups: dict[str, Group] = {}
        self.offsets = GroupOffsets(settings)
        self.topics = topics  # None: not known yet
        self.configs: dict[str, dict[str, str]] = {}  # what administrators set, by group
        self._settings = settings
        self._elsewhere = elsewhere
        self._check_new = check_new
        self._wakes: list[tuple[Millis, str]] = []
        self._watched: dict[str, Millis] = {}

    # --- durable state ---------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        if isinstance(record, GroupState):
            self.stored[record.group] = record
        elif isinstance(record, GroupGone):
            self.stored.pop(record.group, None)
        elif isinstance(record, GroupConfig):
            self._apply_config(record)
        else:
            self.offsets.apply(record)

    def _apply_config(self, record: GroupConfig) -> None:
        if record.values:
            self.configs[record.group] = record.values
        else:
            self.configs.pop(record.group, None)
        group = self.groups.get(record.group)
        if isinstance(group, ConsumerGroup):
            group.configure(self.settings_of(record.group))

    def settings_of(self, name: str) -> GroupSettings:
        config = self.configs.get(name)
        return self._settings if config is None else with_config(self._settings, config)

    def rebuild(self, name: str, now: Millis) -> list[int]:
        """The group at work is again what is stored; the tickets of those who waited in it."""
        before = self.groups.pop(name, None)
        self._watched.pop(name, None)
        if name in self.stored:
            timing = None if before is None else before.timing
            group = self.groups[name] = self._made(self.stored[name], now, timing)
            if isinstance(group, ConsumerGroup) and self.topics is not None:
                group.check_topics_later(now)
            self.watch(name, now)
        return [] if before is None else before.parked()

    def _made(self, record: GroupState, now: Millis, timing: RebalanceTiming | None = None) -> Group:
        group: Group
        if record.kind == "classic":
            group = ClassicGroup(record.group, self._settings, timing=timing)
            group.adopt(record)
        else:
            group = ConsumerGroup(record, self.settings_of(record.group), self.topics or {}, timing)
        group.recovered(now)
        return group

    # --- finding and making ----------------------------------------------------------------------------

    def names(self) -> list[str]:
        return sorted(set(self.groups).union(self.offsets.groups()))

    def find(self, name: str) -> Group | None:
        """The machine, None if there are only offsets, `UnknownGroup` if there is nothing."""
        group = self.groups.get(name)
        if group is None and not self.offsets.of(name):
            raise UnknownGroup(f"No group {name!r}.", field="group")
        return group

    def classic(self, name: str) -> ClassicGroup:
        group = self.groups.get(name)
        if isinstance(group, ClassicGroup):
            return group
        raise UnknownMember(f"No such member in group {name!r}; join again.")

    def consumer(self, name: str) -> ConsumerGroup:
        group = self.groups.get(name)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            raise UnknownGroup(f"There is no group {name!r}; join it.")
        raise UnknownMember(f"No such member in group {name!r}; join again.")

    def share(self, name: str) -> ConsumerGroup | None:
        """The share group; None if the name is free, `UnknownGroup` if the group is of another kind."""
        group = self.groups.get(name)
        if isinstance(group, ConsumerGroup) and group.kind == "share":
            return group
        if group is None and not self.offsets.of(name):
            return None
        raise UnknownGroup(f"Group {name!r} is not a share group.", field="group")

    def share_to_reset(self, name: str, now: Millis, out: GroupStep) -> None:
        """The share group is there afterwards; it has no members, if it was not there before."""
        if self.share(name) is None:
            made = GroupState(name, "share", since_ms=now, mode="shared")
            self.groups[name] = ConsumerGroup(made, self.settings_of(name), self.topics or {})
            out.records.append(made)

    def count(self, exact: bool = True) -> int:
        """Quickly, if twice as many may be said as there are."""
        if not exact:
            return len(self.groups) + self.offsets.count()
        return len(self.groups) + sum(name not in self.groups for name in self.offsets.groups())

    def check_room(self, name: str) -> None:
        """Raises if the group is new and may not be made."""
        check_group_name(name)
        if name in self.groups or self.offsets.of(name):
            return
        if len(name) > GROUP_NAME_CHARS_MAX:
            raise InvalidGroup(f"A group's name has at most {GROUP_NAME_CHARS_MAX} characters.", field="group")
        self._check_new(name)
        most = self._settings.groups_max
        if any(self.count(exact) + self._elsewhere(exact) < most for exact in (False, True)):
            return
        raise TooManyGroups(f"The node has {most} groups; delete some, or raise groups.groups_max.", field="group")

    def classic_to_join(self, name: str, now: Millis, out: GroupStep) -> ClassicGroup:
        """The group, made if need be, or turned into a classic one if it has no members."""
        self.check_room(name)
        group = self.groups.get(name)
        if isinstance(group, ClassicGroup):
            return group
        if not is_empty(group):
            raise InconsistentProtocol(f"Group {name!r} is assigned by the server; set group.protocol=consumer.")
        made = ClassicGroup(name, self._settings, 0 if group is None else group.record.generation, now)
        self.groups[name] = made
        made.write(now, out)
        return made

    def mixed(self, name: str) -> ConsumerGroup | None:
        """The group, if it is assigned by the server and has members: classic ones may be among them."""
        group = self.groups.get(name)
        return group if isinstance(group, ConsumerGroup) and group.members else None

    def consumer_to_join(self, name: str, now: Millis, is_kafka: bool = False) -> ConsumerGroup:
        """The group, or one for `install`, which goes on from a classic one: with its members, if a consumer joins."""
        self.check_room(name)
        group = self.groups.get(name)
        if isinstance(group, ConsumerGroup):
            return group
        if isinstance(group, ClassicGroup) and group.roster.members and is_kafka:
            return ConsumerGroup(upgraded(group, now), self.settings_of(name), self.topics or {})
        if not is_empty(group):
            raise InconsistentProtocol(f"Group {name!r} has members of Kafka's classic protocol; use another group.")
        generation = 0 if group is None else group.generation
        return ConsumerGroup(GroupState(name, "consumer", generation, now), self.settings_of(name), self.topics or {})

    def install(self, group: ConsumerGroup, now: Millis, out: GroupStep) -> None:
        """A group that took its first member is a group. Who waits in the classic one before it joins again."""
        before = self.groups.get(group.name)
        if isinstance(before, ClassicGroup):
            for member in before.roster.members.values():
                member.refuse(RebalanceInProgress("The group moved to the server-side protocol; join again."), out)
            for joined in group.members.values():
                group.keep_alive(joined, now)
        self.groups[group.name] = group

    def downgrade(self, name: str, now: Millis, out: GroupStep) -> None:
        """Back to the classic protocol, if only its members are left; they join again."""
        group = self.groups.get(name)
        if isinstance(group, ConsumerGroup) and wants_downgrade(group):
            record = downgraded(group, now)
            made = ClassicGroup(name, self._settings)
            out.records.append(record)
            made.adopt(record)
            made.recovered(now)
            self.groups[name] = made
            made.rebalance(now, out)

    def delete(self, name: str, out: GroupStep) -> None:
        """Forgets the group and its offsets."""
        self.offsets.delete(name, list(self.offsets.of(name)), out)
        if self.groups.pop(name, None) is not None:
            out.records.append(GroupGone(name))

    def set_topics(self, topics: Mapping[str, int], now: Millis, out: GroupStep) -> None:
        self.topics = topics
        for name, group in sorted(self.groups.items()):
            if isinstance(group, ConsumerGroup):
                group.know_topics(self.topics)
                group.topics_changed(now, out)
                self.watch(name, now)

    # --- time ------------------------------------------------------------------------------------------

    def loaded(self, now: Millis, out: GroupStep) -> None:
        for name, record in sorted(self.stored.items()):
            group = self.groups[name] = self._made(record, now)
            if isinstance(group, ConsumerGroup) and self.topics is not None:
                group.topics_changed(now, out)
            self.watch(name, now)
        self.watch(_CLEANING, now)

    def shift(self, by_ms: Millis, now: Millis) -> None:
        """Offsets are looked at only after a while: until then the clock may be right again."""
        self._watched, self._wakes = {}, []
        for name, group in sorted(self.groups.items()):
            group.deadlines.shift(by_ms)
            group.timing.shift(by_ms)
            self.watch(name, now)
        self.watch(_CLEANING, now)

    def watch(self, name: str, now: Millis, is_written: bool = False) -> None:
        """Sees to it that the group is woken in time, and the offsets cleaned, also those about to be written."""
        group = self.groups.get(name)
        if group is not None and group.deadlines.earliest is not None:
            self._plan(name, group.deadlines.earliest)
        if _CLEANING not in self._watched and (is_written or self.groups or self.offsets.groups()):
            self._plan(_CLEANING, now + self._settings.offsets_check_ms)

    def _plan(self, name: str, at: Millis) -> None:
        if at < self._watched.get(name, at + 1):
            self._watched[name] = at
            heapq.heappush(self._wakes, (at, name))

    def next_deadline(self) -> Millis | None:
        while self._wakes and self._watched.get(self._wakes[0][1]) != self._wakes[0][0]:
            heapq.heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else None

    def tick(self, now: Millis, out: GroupStep) -> None:
        """Wakes every group that is due, once. The answers of a group that writes nothing wait for no other group."""
        for name in self._due(now):
            step = GroupStep()
            self._wake(name, now, step)
            self.watch(name, now)
            out.records += step.records
            (out.replies if step.records else out.at_once).extend(step.replies)

    def _wake(self, name: str, now: Millis, out: GroupStep) -> None:
        group = self.groups.get(name)
        if name == _CLEANING:
            self._clean(now, out)
        elif group is not None:
            group.tick(now, out)
            self.downgrade(name, now, out)

    def _due(self, now: Millis) -> list[str]:
        due: list[str] = []
        while (at := self.next_deadline()) is not None and at <= now:
            _, name = heapq.heappop(self._wakes)
            del self._watched[name]
            due.append(name)
        return due

    def _clean(self, now: Millis, out: GroupStep) -> None:
        """Expired offsets go, and groups that have neither members nor offsets."""
        for name in self.names():
            group = self.groups.get(name)
            topics = frozenset[str]() if group is None else live_topics(group)
            idle_since = None if group is None or not is_empty(group) else _since(group)
            expired = list(self.offsets.expired(name, idle_since, topics, now))
            if group is not None and _is_idle(group) and len(expired) == len(self.offsets.of(name)):
                self.delete(name, out)
            else:
                self.offsets.delete(name, expired, out)


def check_group_name(name: str) -> None:
    """Kafka's groups may be called anything but nothing."""
    if not name:
        raise InvalidGroup("The group name is empty.", field="group")


def _since(group: Group) -> Millis:
    return group.since_ms if isinstance(group, ClassicGroup) else group.record.since_ms


def _is_idle(group: Group) -> bool:
    return is_empty(group) and not (isinstance(group, ClassicGroup) and group.roster.pending)
