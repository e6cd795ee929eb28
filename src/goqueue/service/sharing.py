"""Share groups (KIP-932) take records and answer for them: by ranges of offsets, in the name of a member.

Behind it are the same queue views as behind REST and SQS, so a record is with one consumer of a group at a time,
whichever door the consumer came through. What a member holds is told by its id and the record's offset.
"""

from __future__ import annotations

import asyncio
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
from goqueue.core.groups.records import GroupGone, GroupState, Record
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.service.environment import Environment
from goqueue.service.groups import Groups
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
    caller: Caller = ANYONE


class AcquiredRange(msgspec.Struct, frozen=True, gc=False):
    """Records in a row that were delivered equally often, this time included."""

    first: Offset
    last: Offset
    deliveries: int


class Acquired(msgspec.Struct, frozen=True):
    """What was acquired of one partition: whole batches as stored, and which of their records are the member's."""

    at: TopicPartition
    batches: bytes
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
        groups: Groups,
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

    def heard(self, records: Iterable[Record]) -> None:
        """The coordinator wrote these: what members that are gone held goes to others."""
        for record in records:
            if isinstance(record, GroupGone):
                self._holders.pop(record.group, None)
            elif isinstance(record, GroupState) and record.group in self._holders:
                for member_id in self._holders[record.group].difference(record.consumer):
                    self._holders[record.group].discard(member_id)
                    self._leasing.release(record.group, member_id, lambda at: True)

    def lock_ms(self, group: str) -> Millis:
        """How long a member holds what it acquires now."""
        return self._groups.share_rules(group).lock_ms

    # --- acquire ---------------------------------------------------------------------------------------------

    async def acquire(self, asked: ShareTake) -> list[Acquired]:
        """Durable when it returns. What a call that is broken off acquired is given back."""
        if self._groups.has_member(asked.group, asked.member_id):
            self._holders.setdefault(asked.group, set()).add(asked.member_id)
        found = await self._leasing.take(self._take(asked))
        try:
            return [await self._with_batches(asked.group, at, some) for at, some in _by_partition(found).items()]
        except (asyncio.CancelledError, GoQueueError):
            with suppress(GoQueueError):  # then their locks run out
                self._leasing.give_back(asked.group, found)
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
        )

    async def _with_batches(self, group: str, at: TopicPartition, found: list[Delivered]) -> Acquired:
        """What the log lost since is given back; the next look passes over it."""
        partition = self._topics.require(at.topic).partition(at.partition)
        batches, reached = await stored_batches(partition, [one.stored.offset for one in found])
        if reached < len(found):
            self._leasing.give_back(group, found[reached:])
        return Acquired(at, batches, _ranges(found[:reached]))

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
        delivery = self._runner.find(view)
        if delivery is None:
            raise _not_held(ranges[0].first) if ranges else InvalidField("Name records to answer for.")
        kinds = _sorted(delivery, member_id, ranges)
        self._runner.write(delivery, self._moves(delivery, kinds))
        self._metrics.acked.inc(len(kinds[GAP]) + len(kinds[ACCEPT]))
        self._metrics.rejected.inc(len(kinds[REJECT]))
        if delivery.count(MessageState.READY):
            self._runner.ready(view)
        self._runner.moved(view)

    def _moves(self, delivery: Delivery, kinds: Sequence[list[Offset]]) -> list[Move]:
        policy, now = self._views.policy(delivery.view), self._clock.now_ms()
        return [
            *delivery.ack([*kinds[GAP], *kinds[ACCEPT]]),
            *delivery.release(kinds[RELEASE], policy, now),
            *delivery.reject(kinds[REJECT], policy, now, _REASON),
            *delivery.extend(kinds[RENEW], now + self.lock_ms(delivery.view.group)),
        ]

    async def release(self, group: str, member_id: str) -> None:
        """The member is done: what it did not answer for goes to others."""
        held = [one.view.at for one in self._runner.of(group) if one.in_flight_of(member_id)]
        self._leasing.release(group, member_id, lambda at: True)
        await self._runner.wait_durable(held)


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


def _sorted(delivery: Delivery, member_id: str, ranges: Sequence[AnswerRange]) -> list[list[Offset]]:
    """Offsets by what became of them; raises if the member does not hold one of them."""
    kinds: list[list[Offset]] = [[] for _ in range(RENEW + 1)]
    left = delivery.in_flight_of(member_id)
    for one in ranges:
        left -= one.last - one.first + 1
        if left < 0:
            raise _not_held(one.first)
        for place, offset in enumerate(range(one.first, one.last + 1)):
            kind = one.kinds[0] if len(one.kinds) == 1 else one.kinds[place]
            held = delivery.find(offset)
            if held is None or held.lease is None or held.lease.owner != member_id:
                raise _not_held(offset)
            kinds[kind].append(offset)
    return kinds


def _not_held(offset: Offset) -> StaleReceipt:
    return StaleReceipt(f"The member does not hold the record at offset {offset}: its lock is over, or never was.")
