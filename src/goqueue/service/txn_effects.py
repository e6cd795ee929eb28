"""What the end of a transaction does beside its markers: offsets move, messages are answered for, delayed ones wait.

Each part can be done again: offsets are set, receipts that are over are passed over, and a delayed message carries a
mark by which it is found in the schedule.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from goqueue.base.errors import GoQueueError, InvalidReceipt, StaleReceipt
from goqueue.base.leases import Outcome
from goqueue.core.groups.requests import OffsetCommit
from goqueue.core.schedule.records import ScheduleEntry
from goqueue.core.txn.machine import Transactions, mark_of
from goqueue.core.txn.records import TxnAnswer, TxnState
from goqueue.drive.schedule_entries import Entries
from goqueue.service.groups import Groups
from goqueue.service.leasing import Leasing

_OWNER = "transaction:"  # who holds messages whose answers were decided


class TxnEffects:
    """Told of each part once; one that fails is told again, those that were done are not."""

    def __init__(self, groups: Groups, leasing: Leasing, schedule: Entries) -> None:
        self._groups = groups
        self._leasing = leasing
        self._schedule = schedule
        self._done: dict[str, set[str]] = {}  # parts that are safe, of endings under way

    def check(self, decided: TxnState) -> None:
        """Just before a commit is written: raises for receipts that are over."""
        self._leasing.check(decided.receipts)

    def prepare(self, decided: TxnState) -> TxnState:
        """After the check: holds on to the messages that are answered for."""
        if decided.answers:
            self._leasing.adopt(decided.receipts, _OWNER + decided.transactional_id)
        return replace(decided, schedule_from=self._schedule.log.end_offset) if decided.delayed else decided

    async def carry_out(self, state: TxnState, transactions: Transactions) -> None:
        done = self._done.setdefault(state.transactional_id, set())
        if state.commits and "offsets" not in done:
            await self._commit_offsets(state)
            done.add("offsets")
        if "answers" not in done:
            await (self._answer(state.answers) if state.commits else self._give_back(state.receipts))
            done.add("answers")
        if state.commits and state.delayed and "delayed" not in done:
            await self._take_delayed(state, transactions)
        del self._done[state.transactional_id]

    async def _commit_offsets(self, state: TxnState) -> None:
        groups: dict[str, list[OffsetCommit]] = {}
        for one in state.offsets:
            commit = OffsetCommit(one.topic, one.partition, one.offset, one.leader_epoch, one.metadata)
            groups.setdefault(one.group, []).append(commit)
        for group, offsets in groups.items():
            await self._groups.commit_settled(group, offsets)

    async def _answer(self, answers: Sequence[TxnAnswer]) -> None:
        alike: dict[TxnAnswer, list[str]] = {}
        for one in answers:
            alike.setdefault(replace(one, receipt=""), []).append(one.receipt)
        for answer, receipts in alike.items():
            match answer.kind:
                case "ack":
                    outcomes = await self._leasing.ack(receipts)
                case "nack":
                    outcomes = await self._leasing.nack(receipts, answer.delay_ms, answer.reason)
                case "reject":
                    outcomes = await self._leasing.reject(receipts, answer.reason)
            _check(outcomes)

    async def _give_back(self, receipts: Sequence[str]) -> None:
        if receipts:
            _check(await self._leasing.extend(receipts, 0))

    async def _take_delayed(self, state: TxnState, transactions: Transactions) -> None:
        there = await self._schedule.marks(state.schedule_from)
        missing: list[ScheduleEntry] = []
        for one in transactions.delayed(state.transactional_id):
            for place, entry in enumerate(one.entries):
                mark = mark_of(state, one.number, place)
                if mark not in there:
                    missing.append(replace(entry, mark=mark))
        for outcome in self._schedule.accept(missing):
            if isinstance(outcome, GoQueueError):
                raise outcome
        await self._schedule.log.partition.wait_durable()
        await self._schedule.keep_up()


def _check(outcomes: Sequence[Outcome]) -> None:
    """Receipts that are over were answered when this was done before; anything else has to be tried again."""
    for outcome in outcomes:
        if outcome is not None and not isinstance(outcome, StaleReceipt | InvalidReceipt):
            raise outcome
