"""One group that the coordinator assigns for: Kafka's server-side protocol (KIP-848), its share groups and REST.

Whatever changes who should read what raises the group's epoch and makes a new target at once. Members walk towards
their targets in their own heartbeats (`reconcile`), so nobody stops reading what it keeps. `record` is all of it but
sessions: what is durable, or is decided and about to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from goqueue.base.ids import Millis
from goqueue.core.groups.assign import ASSIGNORS, DEFAULT_ASSIGNOR, Subscriber
from goqueue.core.groups.deadlines import GroupDeadlines
from goqueue.core.groups.errors import GroupFull, UnknownMember, UnsupportedAssignor
from goqueue.core.groups.parts import Parts, both, minus, plus
from goqueue.core.groups.reconcile import Surroundings, advance, held_by_others, settled
from goqueue.core.groups.records import LEFT_STATIC, ConsumerMember, GroupState, Kind, Mode
from goqueue.core.groups.replies import GroupStep
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.sizes import consumer_bytes
from goqueue.core.groups.subscription import topics_of
from goqueue.core.groups.timing import RebalanceTiming

_TOPICS: Final = ("topics", "")
_TOPICS_CHECK_MS: Final = 1_000


def _session(member_id: str) -> tuple[str, str]:
    return ("session", member_id)


def _revoke(member_id: str) -> tuple[str, str]:
    return ("revoke", member_id)


class ConsumerGroup:
    """The machine that both doors drive: `put` a member and it takes its next step, `remove` it and it is gone."""

    def __init__(
        self,
        record: GroupState,
        settings: GroupSettings,
        topics: Mapping[str, int],
        timing: RebalanceTiming | None = None,
    ) -> None:
        self.name = record.group
        self.record = record
        self.settings = settings
        self.topics = topics
        self.deadlines = GroupDeadlines()
        self.timing = timing or RebalanceTiming()
        self.told: dict[str, dict[int, Parts]] = {}  # what REST members were last told to read, by generation

    @property
    def members(self) -> Mapping[str, ConsumerMember]:
        return self.record.consumer

    @property
    def kind(self) -> Kind:
        return self.record.kind

    @property
    def epoch(self) -> int:
        return self.record.generation

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        return "Stable" if self._all_settled() else "Reconciling"

    @property
    def assignor(self) -> str:
        """The one that most members ask for, then the first by name."""
        return _elected(self.members)

    def member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMember(f"No member {member_id!r} in the group; join again.")
        return member

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def subscribed(self) -> frozenset[str]:
        """Every topic that a member is subscribed to."""
        return frozenset(topic for member in self.members.values() for topic in topics_of(member, self.topics))

    def check_joiner(self, member_id: str, assignor: str | None) -> None:
        if assignor is not None and assignor not in ASSIGNORS:
            raise UnsupportedAssignor(
                f"No assignor {assignor!r}; use {', '.join(sorted(ASSIGNORS))}.", field="assignor"
            )
        if member_id not in self.members and len(self.members) >= self.settings.group_members_max:
            raise GroupFull(f"The group has {self.settings.group_members_max} members; use another group.")

    def _check_bytes(self, record: GroupState) -> None:
        most = self.settings.group_bytes_max
        if sum(map(consumer_bytes, record.consumer.values())) > most:
            raise GroupFull(f"Members would take more than {most} bytes; use another group or fewer topics.")

    # --- members ---------------------------------------------------------------------------------------

    def recovered(self, now: Millis) -> None:
        """Every member gets a fresh session and time to give back."""
        for member in self.members.values():
            self._arm(member, now)
            self.told[member.member_id] = {member.epoch: member.assigned}

    def configure(self, settings: GroupSettings) -> None:
        """What an administrator set for the group holds from now on."""
        self.settings = settings

    def know_topics(self, topics: Mapping[str, int]) -> None:
        """These are all there are; `topics_changed` says whether that changes anything."""
        self.topics = topics

    def check_topics_later(self, now: Millis) -> None:
        """A new target that topics asked for was perhaps not written."""
        self.deadlines.set(_TOPICS, now + _TOPICS_CHECK_MS)

    def parked(self) -> list[int]:
        """Nobody waits: every answer is given at once."""
        return []

    def put(
        self,
        member: ConsumerMember,
        now: Millis,
        out: GroupStep,
        *,
        shown: int = 0,
        owned: Parts | None = None,
        replaces: str | None = None,
        mode: Mode = "partition",
    ) -> ConsumerMember:
        """The member as it is now, after one step towards its target.

        `shown` is the epoch that it came with and may come with again, should it miss the answer. `replaces` is a
        static member's former id. The first member's `mode` is the group's; a member of `share` makes it a share group.
        """
        before = self.members.get(replaces or member.member_id)
        if before == member and settled(member, self.epoch):
            self._arm(member, now)
            return member
        members = {name: each for name, each in self.members.items() if name != replaces}
        members[member.member_id] = member
        record = self._named(replace(self.record, consumer=members), member, mode)
        if before is None or _changes_targets(before, member):
            record = self._retargeted(record)
        if before is None or _changes_targets(before, member) or before.protocols != member.protocols:
            self._check_bytes(record)
        member = self._stepped(record, member.member_id, owned)
        if before is None or member.epoch != before.epoch:
            member = replace(member, previous_epoch=shown)
        self._write(replace(record, consumer={**record.consumer, member.member_id: member}), now, out)
        if replaces is not None:
            self._forget(replaces)
        self._arm(member, now)
        return member

    def _named(self, record: GroupState, member: ConsumerMember, mode: Mode) -> GroupState:
        """The group with its kind and mode, as its members make it."""
        mode = record.mode if self.members else mode
        stays = record.kind == "share" and mode == "shared"
        return replace(record, kind="share" if stays or member.door == "share" else "consumer", mode=mode)

    def remove(self, member_id: str, now: Millis, out: GroupStep) -> None:
        members = {name: each for name, each in self.members.items() if name != member_id}
        self._forget(member_id)
        self._write(self._retargeted(replace(self.record, consumer=members)), now, out)

    def leave_static(self, member: ConsumerMember, now: Millis, out: GroupStep) -> None:
        """The place stays, with what it reads, until the member is back or its session ends."""
        left = replace(member, epoch=LEFT_STATIC, previous_epoch=LEFT_STATIC, pending={})
        self._write(replace(self.record, consumer={**self.members, left.member_id: left}), now, out)
        self.deadlines.drop(_revoke(left.member_id))

    def topics_changed(self, now: Millis, out: GroupStep) -> None:
        """A new target if topics that the group reads came, went or grew."""
        counts = self._counts(self.members)
        if self.members and counts != self.record.topics:
            came = {topic: range(count) for topic, count in counts.items() if topic not in self.record.topics}
            members = {name: _without_old(member, came) for name, member in self.members.items()}
            self._write(self._retargeted(replace(self.record, consumer=members)), now, out)
            for member in self.members.values():
                if member.pending and _revoke(member.member_id) not in self.deadlines:
                    self.deadlines.set(_revoke(member.member_id), now + member.rebalance_ms)

    # --- deciding --------------------------------------------------------------------------------------

    def _retargeted(self, record: GroupState) -> GroupState:
        counts = self._counts(record.consumer)
        if record.mode == "shared":
            targets = {name: self._everything(member) for name, member in record.consumer.items()}
        else:
            targets = ASSIGNORS[_elected(record.consumer)](self._subscribers(record.consumer), counts)
        members = {name: replace(member, target=targets[name]) for name, member in record.consumer.items()}
        # In a shared group who comes or goes changes nothing for the others.
        same = record.mode == "shared" and record.generation > 0 and counts == record.topics
        generation = record.generation if same else record.generation + 1
        return replace(record, generation=generation, consumer=members, topics=counts)

    def _subscribers(self, members: Mapping[str, ConsumerMember]) -> dict[str, Subscriber]:
        return {name: Subscriber(topics_of(member, self.topics), member.target) for name, member in members.items()}

    def _counts(self, members: Mapping[str, ConsumerMember]) -> dict[str, int]:
        topics = sorted({topic for member in members.values() for topic in topics_of(member, self.topics)})
        return {topic: self.topics[topic] for topic in topics if topic in self.topics}

    def _everything(self, member: ConsumerMember) -> Parts:
        topics = sorted(topics_of(member, self.topics))
        return {topic: tuple(range(self.topics[topic])) for topic in topics if self.topics.get(topic)}

    def _stepped(self, record: GroupState, member_id: str, owned: Parts | None) -> ConsumerMember:
        member = record.consumer[member_id]
        if settled(member, record.generation):
            return member
        shared = record.mode == "shared"
        eager = not shared and any(each.style == "eager" for each in record.consumer.values())
        held = None if shared else held_by_others(record.consumer, member_id)
        blocked = eager and any(_holds_back(each, record.generation) for each in record.consumer.values())
        return advance(member, Surroundings(record.generation, held, eager, blocked), owned)

    def _all_settled(self) -> bool:
        return all(settled(member, self.epoch) for member in self.members.values())

    # --- writing and time ------------------------------------------------------------------------------

    def _write(self, record: GroupState, now: Millis, out: GroupStep) -> None:
        if bool(record.consumer) != bool(self.record.consumer):
            record = replace(record, since_ms=now)
        if record.generation != self.record.generation:
            self.timing.begin(now)
        if record != self.record:
            out.records.append(record)
            self.record = record
            if self._all_settled():
                self.timing.end(now)

    def _arm(self, member: ConsumerMember, now: Millis) -> None:
        self.deadlines.set(_session(member.member_id), now + member.session_ms)
        if not member.pending:
            self.deadlines.drop(_revoke(member.member_id))
        elif _revoke(member.member_id) not in self.deadlines:
            self.deadlines.set(_revoke(member.member_id), now + member.rebalance_ms)

    def expect_rejoin(self, member: ConsumerMember, now: Millis) -> None:
        """A classic member was told to join again; one that does not is removed, for others wait for its partitions."""
        if _revoke(member.member_id) not in self.deadlines:
            self.deadlines.set(_revoke(member.member_id), now + member.rebalance_ms)

    def keep_alive(self, member: ConsumerMember, now: Millis) -> None:
        self.deadlines.set(_session(member.member_id), now + member.session_ms)

    def can_gain(self, member: ConsumerMember) -> bool:
        """Whether something of its target that it does not have is free."""
        missing = minus(member.target, member.assigned)
        return bool(minus(missing, held_by_others(self.members, member.member_id)))

    def _forget(self, member_id: str) -> None:
        self.deadlines.drop(_session(member_id))
        self.deadlines.drop(_revoke(member_id))
        self.told.pop(member_id, None)

    def tick(self, now: Millis, out: GroupStep) -> None:
        """Removes members that are silent for too long or keep what they were asked to give back."""
        for key in self.deadlines.due(now):
            if not self.deadlines.take(key, now):
                continue
            if key == _TOPICS:
                self.topics_changed(now, out)
            else:
                self.remove(key[1], now, out)
        self.deadlines.refresh()


def _without_old(member: ConsumerMember, came: Mapping[str, range]) -> ConsumerMember:
    """Who still reads a former topic of that name gives it back first: the new one begins from its beginning."""
    old = both(member.assigned, came) if member.door == "kafka" else {}
    if not old:
        return member
    return replace(member, assigned=minus(member.assigned, old), pending=plus(member.pending, old))


def _changes_targets(before: ConsumerMember, after: ConsumerMember) -> bool:
    return (before.topics, before.regex, before.assignor, before.style) != (
        after.topics,
        after.regex,
        after.assignor,
        after.style,
    )


def _elected(members: Mapping[str, ConsumerMember]) -> str:
    votes = Counter(member.assignor for member in members.values() if member.assignor)
    return min(votes, key=lambda name: (-votes[name], name), default=DEFAULT_ASSIGNOR)


def _holds_back(member: ConsumerMember, epoch: int) -> bool:
    """Whether the member has not given back what it read before this epoch."""
    return bool(member.pending) or (bool(member.assigned) and member.epoch not in (epoch, LEFT_STATIC))
