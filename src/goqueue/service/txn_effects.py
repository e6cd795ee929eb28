"""Carries out what follows the end of a transaction, each effect where it belongs: partitions, groups, queue views,
schedules. Each can be done again: markers and marked entries are recognised, offsets are set, receipts that are over
are passed over. What has to hold before a commit is decided is asked here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from goqueue.base.errors import GoQueueError, InvalidReceipt, StaleReceipt
from goqueue.base.ids import Millis, Offset
from goqueue.base.leases import Outcome
from goqueue.core.groups.requests import CommitRequest, OffsetCommit
from goqueue.core.txn.effects import AnswerLeased, CommitOffsets, ReturnLeased, ScheduleDelayed, TxnEffect, WriteMarker
from goqueue.core.txn.questions import ConfirmWrites, WritesConfirmed
from goqueue.core.txn.records import TxnState
from goqueue.drive.schedules import Schedules
from goqueue.service.groups import Groups
from goqueue.service.leasing import Leasing
from goqueue.service.txn_partitions import TransactionPartitions

OWNER = "transaction:"  # who holds messages whose answers were decided


class EffectPlaces(Protocol):
    """Where a transaction's end is prepared and carried out, whichever nodes that concerns."""

    async def check_offsets(self, request: CommitRequest, /) -> None: ...

    async def hold_leases(self, receipts: Sequence[str], lease_ms: Millis, /) -> None: ...

    async def confirm(self, states: Sequence[TxnState], /) -> list[WritesConfirmed]: ...

    async def prepare(self, states: Sequence[TxnState], /) -> tuple[Offset, ...]: ...

    async def perform(self, effect: TxnEffect, /) -> None: ...

    async def wait_durable(self, effects: Sequence[TxnEffect], /) -> None: ...


class TransactionEffects:
    """All that a coordinator asks of others, and has them do, at this node."""

    def __init__(
        self, partitions: TransactionPartitions, groups: Groups, leasing: Leasing, schedules: Schedules
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._leasing = leasing
        self._schedules = schedules
        self.force = partitions.force

    # --- before the end --------------------------------------------------------------------------------------

    async def check_offsets(self, request: CommitRequest) -> None:
        """Raises if the group would refuse them now."""
        self._groups.check_in_transaction(request)

    async def hold_leases(self, receipts: Sequence[str], lease_ms: Millis) -> None:
        """The leases last so long from now; raises for the first that is over."""
        for outcome in await self._leasing.extend(receipts, lease_ms):
            if outcome is not None:
                raise outcome

    async def confirm(self, states: Sequence[TxnState]) -> list[WritesConfirmed]:
        """What is about to be committed is as durable as the node promises."""
        asked = [ConfirmWrites(state.producer_id, state.epoch, state.partitions) for state in states]
        return await self.confirm_writes(asked)

    async def confirm_writes(self, asked: Sequence[ConfirmWrites]) -> list[WritesConfirmed]:
        return await self._partitions.confirm(asked)

    def check_leases(self, receipts: Sequence[str]) -> None:
        """Raises for the first that no longer names a live lease."""
        self._leasing.check(receipts)

    async def adopt_leases(self, receipts: Sequence[str], owner: str) -> None:
        """Nobody can take them away from now on. A commit rests on it: it is safe when this returns."""
        await self._leasing.adopt(receipts, owner)

    def schedule_end(self, shard: int) -> Offset:
        """Where the schedule of a shard ends, as far as a new leader is sure to have it."""
        return self._schedules.of_shard(shard).partition.high_watermark

    async def prepare(self, states: Sequence[TxnState]) -> tuple[Offset, ...]:
        """Just before commits are decided: raises if one cannot be carried out, and has then touched none. The messages
        that are answered for are held. Where the schedules end, if something is to wait in them."""
        for state in states:
            self.check_leases(state.receipts)
        for state in states:
            if state.answers:
                await self.adopt_leases(state.receipts, OWNER + state.transactional_id)
        return self._schedules.ends() if any(state.delayed for state in states) else ()

    # --- after it --------------------------------------------------------------------------------------------

    async def perform(self, effect: TxnEffect) -> None:
        match effect:
            case WriteMarker():
                self._partitions.mark(effect)
            case CommitOffsets():
                await self._commit_offsets(effect)
            case AnswerLeased():
                _check(await self._answer(effect))
            case ReturnLeased():
                _check(await self._leasing.extend(effect.receipts, 0))
            case ScheduleDelayed():
                await self._schedule_delayed(effect)

    async def wait_durable(self, effects: Sequence[TxnEffect]) -> None:
        """The others are durable when they are done."""
        places = [(one.topic, one.partition) for one in effects if isinstance(one, WriteMarker)]
        await self._partitions.wait_durable(places)

    async def _commit_offsets(self, effect: CommitOffsets) -> None:
        offsets = [
            OffsetCommit(one.topic, one.partition, one.offset, one.leader_epoch, one.metadata) for one in effect.offsets
        ]
        await self._groups.commit_settled(effect.group, offsets, (effect.producer_id, effect.epoch, effect.decided_ms))

    async def _answer(self, effect: AnswerLeased) -> list[Outcome]:
        match effect.kind:
            case "ack":
                return await self._leasing.ack(effect.receipts)
            case "nack":
                return await self._leasing.nack(effect.receipts, effect.delay_ms, effect.reason)
            case "reject":
                return await self._leasing.reject(effect.receipts, effect.reason)

    async def _schedule_delayed(self, effect: ScheduleDelayed) -> None:
        parted = self._schedules.parted(effect.entries, lambda entry: entry)
        for schedule, entries in parted:
            there = await schedule.marks(effect.start(schedule.number))
            for outcome in schedule.accept([one for one in entries if one.mark not in there]):
                if isinstance(outcome, GoQueueError):
                    raise outcome
        for schedule, _ in parted:
            await schedule.partition.wait_durable()
            await schedule.keep_up()


def _check(outcomes: Sequence[Outcome]) -> None:
    """Receipts that are over were answered when this was done before; anything else has to be tried again."""
    for outcome in outcomes:
        if outcome is not None and not isinstance(outcome, StaleReceipt | InvalidReceipt):
            raise outcome
