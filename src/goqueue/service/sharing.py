"""Share groups (KIP-932) take records and answer for them: by ranges of offsets, in the name of a member.

Behind it are the same queue views as behind REST and SQS, so a record is with one consumer of a group at a time,
whichever door the consumer came through. What a member holds is told by its id and the record's offset.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

import msgspec

from goqueue.base.commands import ANYONE, Caller
from goqueue.base.errors import GoQueueError, InvalidField, StaleReceipt
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.base.leases import Delivered, Outcome, Take
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.records import Record as Move
from goqueue.core.delivery.records import ViewId
from goqueue.core.delivery.states import MessageState
from goqueue.core.groups.errors import UnknownMember
from goqueue.core.groups.records import GroupGone, GroupState, Record
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.format.batch import Buffer, read_header
from goqueue.service.environment import Environment
from goqueue.service.fetch import UNBOUNDED, ReadMemory
from goqueue.service.groups import Groups
from goqueue.service.groups_anywhere import GroupsAnywhere
from goqueue.service.lease_allocator import Handful
from goqueue.service.leased_run import messages_of
from goqueue.service.leasing import Leasing
from goqueue.service.queue_views import QueueViews
from goqueue.service.stored_batches import stored_batches
from goqueue.service.topics import Topics

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
_REASON: Final = "rejected by a share consumer"


class ShareTake(msgspec.Struct, frozen=True):
    """Acquire up to `limit` records of these partitions for a member; wait up to `wait_ms_max` for the first."""

    group: str
    member_id: str
    partitions: Sequence[TopicPartition]
    limit: int
    bytes_max: int
    wait_ms_max: Millis
    whole_batches: bool = True  # the last batch may pass the limit
    caller: Caller = ANYONE


class AcquiredRange(msgspec.Struct, frozen=True, gc=False):
    """Records in a row that were delivered equally often, this time included."""

    first: Offset
    last: Offset
    deliveries: int


class Acquired(msgspec.Struct, frozen=True):
    """What was acquired of one partition: whole batches as stored, and which of their records are the member's."""

    at: TopicPartition
    batches: Sequence[Buffer]
    ranges: list[AcquiredRange]


class AnswerRange(msgspec.Struct, frozen=True, gc=False):
    """What became of the records from `first` to `last`: one kind for all, or one for each."""

    first: Offset
    last: Offset
    kinds: Sequence[int]


class Sharing:
    """The verbs."""

    def __init__(
        self,
        leasing: Leasing,
        runner: DeliveryShards,
        views: QueueViews,
        groups: Groups | GroupsAnywhere,
        topics: Topics,
        environment: Environment,
    ) -> None:
        self._leasing = leasing
        self._runner = runner
        self._views = views
        self._groups = groups
        self._topics = topics
        self._clock = environment.clock
        self._metrics = environment.metrics
        self._holders: dict[str, set[str]] = {}  # by group, members that took something
        if isinstance(groups, GroupsAnywhere):
            groups.attach(self._keep)

    def heard(self, records: Iterable[Record]) -> None:
        """The coordinator wrote these: what members that are gone held goes to others."""
        for record in records:
            if isinstance(record, GroupGone):
                self._holders.pop(record.group, None)
            elif isinstance(record, GroupState):
                self._keep(record.group, record.consumer)

    def _keep(self, group: str, members: Iterable[str]) -> None:
        for member_id in self._holders.get(group, set()).difference(members):
            self._holders[group].discard(member_id)
            self._leasing.release(group, member_id)

    def check_member(self, group: str, member_id: str) -> None:
        """`UnknownMember` if the group does not know it: what a group holds is bounded by the bound on groups, and a
        name that nobody joined under is none."""
        if not self._groups.has_member(group, member_id):
            raise UnknownMember("The group does not know this member; it has to join by a heartbeat first.")

    def lock_ms(self, group: str) -> Millis:
        """How long a member holds what it acquires now."""
        return self._groups.share_rules(group).lock_ms

    # --- acquire ---------------------------------------------------------------------------------------------

    async def acquire(self, asked: ShareTake, memory: ReadMemory = UNBOUNDED) -> list[Acquired]:
        """Durable when it returns. What a call that is broken off acquired is given back."""
        if isinstance(self._groups, GroupsAnywhere):
            await self._groups.learn_member(asked.group, asked.member_id)
        await self._views.learn(asked.group, asked.partitions)
        if self._groups.has_member(asked.group, asked.member_id):
            self._holders.setdefault(asked.group, set()).add(asked.member_id)
        begin_ms = self._groups.share_rules(asked.group).begin_ms
        if begin_ms is not None:
            await self._views.begin_since(asked.group, asked.partitions, self._clock.now_ms() - begin_ms)
        found = await self._leasing.take_batches(self._take(asked), memory)
        try:
            return await self._collect(asked, found, memory)
        except (asyncio.CancelledError, GoQueueError):
            with suppress(GoQueueError):  # then their locks run out
                self._leasing.unsend(asked.group, found.nonce, found.offsets())
            raise

    def _take(self, asked: ShareTake) -> Take:
        rules = self._groups.share_rules(asked.group)
        return Take(
            asked.group,
            tuple(asked.partitions),
            asked.member_id,
            asked.limit,
            rules.lock_ms,
            asked.wait_ms_max,
            begin=rules.begin,
            caller=asked.caller,
            bytes_max=asked.bytes_max,
            locks_max=rules.locks_max,
            in_ranges=True,
            whole_batches=asked.whole_batches,
        )

    async def _collect(self, asked: ShareTake, found: Handful, memory: ReadMemory) -> list[Acquired]:
        parts = await self._with_batches(asked, found, memory) if found.runs else {}
        for lent in found.lent:
            ranges = [AcquiredRange(first, last, 1) for first, last in lent.ranges]
            more = Acquired(lent.at, lent.batches, ranges)
            parts[lent.at] = _joined(parts[lent.at], more) if lent.at in parts else more
        return list(parts.values())

    async def _with_batches(
        self, asked: ShareTake, found: Handful, memory: ReadMemory
    ) -> dict[TopicPartition, Acquired]:
        """Messages handed out by themselves. What does not fit, and what the log lost since, is given back."""
        parts: dict[TopicPartition, Acquired] = {}
        granted = left = memory.reserve(asked.bytes_max)
        try:
            for at, some in _by_partition(messages_of(found.runs)).items():
                partition = self._topics.require(at.topic).partition(at.partition)
                offsets = [one.stored.offset for one in some]
                batches, reached = await stored_batches(partition, offsets, left)
                left -= sum(map(len, batches))
                if reached:
                    parts[at] = Acquired(at, batches, _ranges(some[:reached]))
                if reached < len(some):
                    self._leasing.unsend(asked.group, found.nonce, {at: offsets[reached:]})
        finally:
            memory.release(granted)
        return parts

    # --- answer ----------------------------------------------------------------------------------------------

    async def acknowledge(
        self, group: str, member_id: str, ranges: Mapping[TopicPartition, Sequence[AnswerRange]]
    ) -> dict[TopicPartition, Outcome]:
        """All answers of a partition hold, or none; durable when it returns."""
        outcomes: dict[TopicPartition, Outcome] = {}
        for at, some in ranges.items():
            try:
                self._answer(ViewId(group, at.topic, at.partition), member_id, some)
                outcomes[at] = None
            except GoQueueError as error:
                outcomes[at] = error
        await self._runner.wait_durable(at for at, outcome in outcomes.items() if outcome is None)
        return outcomes

    def _answer(self, view: ViewId, member_id: str, ranges: Sequence[AnswerRange]) -> None:
        self._topics.require_users(view.topic).partition(view.partition)
        delivery = self._runner.find(view)
        if delivery is None:
            raise _not_held(ranges[0].first) if ranges else InvalidField("Name records to answer for.")
        kinds = _sorted(delivery, member_id, ranges)
        was_full = delivery.count(MessageState.LEASED) >= self._groups.share_rules(view.group).locks_max
        self._runner.write(delivery, self._moves(delivery, kinds))
        self._metrics.acked.inc(kinds.acked_count)
        self._metrics.rejected.inc(len(kinds.others[REJECT]))
        if delivery.count(MessageState.READY) or was_full:
            self._runner.ready(view)
        self._runner.moved(view)

    def _moves(self, delivery: Delivery, kinds: _Kinds) -> list[Move]:
        others = kinds.others
        if not others:
            return delivery.ack_ranges(kinds.acked)
        policy, now = self._views.policy(delivery.view), self._clock.now_ms()
        return [
            *delivery.ack_ranges(kinds.acked),
            *delivery.release(others[RELEASE], policy, now),
            *delivery.reject(others[REJECT], policy, now, _REASON),
            *delivery.extend(others[RENEW], now + self.lock_ms(delivery.view.group)),
        ]

    async def release(self, group: str, member_id: str) -> None:
        """The member is done: what it did not answer for goes to others."""
        held = [one.view.at for one in self._runner.of(group) if one.in_flight_of(member_id)]
        self.release_now(group, member_id)
        await self._runner.wait_durable(held)

    def release_now(self, group: str, member_id: str) -> None:
        """The same, and nobody waits for it."""
        self._leasing.release(group, member_id)


def _by_partition(found: Iterable[Delivered]) -> dict[TopicPartition, list[Delivered]]:
    """In the order of the log."""
    parts: dict[TopicPartition, list[Delivered]] = {}
    for one in sorted(found, key=lambda one: one.stored.offset):
        parts.setdefault(TopicPartition(one.stored.topic, one.stored.partition), []).append(one)
    return parts


def _ranges(found: Sequence[Delivered]) -> list[AcquiredRange]:
    """Offsets in a row with the same count are one range."""
    rows = groupby(enumerate(found), key=lambda row: (row[1].stored.offset - row[0], row[1].attempt))
    runs = [[one for _, one in run] for _, run in rows]
    return [AcquiredRange(run[0].stored.offset, run[-1].stored.offset, run[0].attempt) for run in runs]


def _joined(one: Acquired, other: Acquired) -> Acquired:
    """Of the same partition, in the order of the log; a batch that both have goes out once."""
    batches = {read_header(batch).base_offset: batch for batch in (*one.batches, *other.batches)}
    ranges = sorted([*one.ranges, *other.ranges], key=lambda some: some.first)
    return Acquired(one.at, [batch for _, batch in sorted(batches.items())], ranges)


class _Kinds:
    """What became of records: ranges that are done, and the offsets of all others by their kind."""

    def __init__(self) -> None:
        self.acked: list[tuple[Offset, Offset]] = []
        self.acked_count = 0
        self.others: defaultdict[int, list[Offset]] = defaultdict(list)

    def add(self, kind: int, first: Offset, last: Offset) -> None:
        if kind in (GAP, ACCEPT):
            self.acked.append((first, last))
            self.acked_count += last - first + 1
        else:
            self.others[kind].extend(range(first, last + 1))


def _sorted(delivery: Delivery, member_id: str, ranges: Iterable[AnswerRange]) -> _Kinds:
    """Raises if the member does not hold one of them; what everybody is done with is passed over."""
    kinds, done = _Kinds(), delivery.all_done_below
    for one in ranges:
        if one.last < done:
            continue
        if not delivery.holds(member_id, max(one.first, done), one.last):
            raise _not_held(one.first)
        first = one.first
        for kind, run in groupby(one.kinds):
            last = one.last if len(one.kinds) == 1 else first + len(list(run)) - 1
            if last >= done:
                kinds.add(kind, max(first, done), last)
            first = last + 1
    return kinds


def _not_held(offset: Offset) -> StaleReceipt:
    return StaleReceipt(
        f"The member does not hold all records from offset {offset} on: their lock is over, or never was."
    )
