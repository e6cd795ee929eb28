"""Staged sets: many writers fill one batch of an owner, one call shows it whole, once, however often it is made.

The decision is one batch in the log of the owner's coordinator: the owner's number and the end of every writer. Before
it nothing is visible; after it everything will be, whatever dies in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from goqueue.base.ids import Millis
from goqueue.base.settings import TransactionSettings
from goqueue.core.txn import staged_moves as moves
from goqueue.core.txn.epochs import NEW
from goqueue.core.txn.errors import ConcurrentTransactions, InvalidTxnTimeout
from goqueue.core.txn.records import TxnOwner, TxnStage, TxnState
from goqueue.core.txn.staged import NamedWriter, check_batch, check_owner, staged_id
from goqueue.core.txn.table import TransactionTable
from goqueue.drive.txn_coordinator import TransactionCoordinator
from goqueue.drive.txn_coordinators import TransactionCoordinators
from goqueue.service.txn_effects import EffectPlaces


class StagedSetEnded(msgspec.Struct, frozen=True):
    """How a set ended, and how many writers were aborted by the way."""

    outcome: Literal["committed", "already", "aborted", "already committed"]
    dropped: int


class OwnerView(msgspec.Struct, frozen=True):
    """What is known of an owner; `committed` is None before its first commit."""

    owner: str
    committed: TxnOwner | None
    open: list[TxnState]


class StagedVerbs:
    """The verbs. Commits and aborts of one owner follow each other."""

    def __init__(
        self, coordinators: TransactionCoordinators, effects: EffectPlaces, settings: TransactionSettings
    ) -> None:
        self._coordinators = coordinators
        self._effects = effects
        self._settings = settings

    # --- writers ---------------------------------------------------------------------------------------------

    async def stage(
        self, owner: str, batch: int, writer: str, attempt: int = 0, timeout_ms: Millis | None = None
    ) -> TxnState:
        """A writer of the batch, its transaction open. An older one with the same writer and attempt is shut out."""
        name = staged_id(owner, writer, attempt)
        check_batch(batch)
        timeout_ms = self._timeout(timeout_ms)
        coordinator = self._coordinators.of_owner(owner)
        async with coordinator.turns.of(_gate(owner)):
            pass  # a commit under way may be ending this very writer
        async with coordinator.alone(name):
            await _end_former(coordinator, name)
            needs_id = coordinator.machine.needs_id(name, fences=False)
            fresh_id = await coordinator.next_id() if needs_id else NEW
            chosen = (name, owner, batch, timeout_ms, fresh_id)
            state: TxnState = await coordinator.decide(
                lambda machine, now: moves.opened(
                    machine, *chosen, now, coordinator.turns, self._coordinators.owners_beside(coordinator, owner)
                )
            )
            return state

    def _timeout(self, given: Millis | None) -> Millis:
        chosen = self._settings.staged_timeout_ms if given is None else given
        most = self._settings.staged_timeout_ms_max
        if not 0 < chosen <= most:
            raise InvalidTxnTimeout(f"A staged writer may be silent up to {most} ms, not {chosen}.", field="timeout")
        return chosen

    # --- sets ------------------------------------------------------------------------------------------------

    async def commit(self, owner: str, batch: int, named: Sequence[NamedWriter]) -> StagedSetEnded:
        """Shows what the named writers wrote, all at once; the owner's other writers are dropped.

        A batch up to the owner's last one was committed before: what is staged for it is dropped. It goes on if the
        caller goes away.
        """
        check_owner(owner)
        check_batch(batch)
        coordinator = self._coordinators.of_owner(owner)
        return await coordinator.carry_on(self._commit(coordinator, owner, batch, named))

    async def _commit(
        self, coordinator: TransactionCoordinator, owner: str, batch: int, named: Sequence[NamedWriter]
    ) -> StagedSetEnded:
        turns = coordinator.turns
        async with turns.of(_gate(owner)):
            if batch <= coordinator.table.staged.last_batch(owner):
                await _until_safe(coordinator, owner, batch)
                return StagedSetEnded("already", await _drop(coordinator, owner, lambda state: state.batch <= batch))
            moves.check_named(coordinator.machine, owner, batch, named)  # before it waits for anything
            sets = coordinator.table.staged
            sets.check_owner_room(owner, self._coordinators.owners_beside(coordinator, owner))
            names = {one.transactional_id for one in named} | set(sets.open(owner))
            async with turns.of(*names):
                return await self._commit_held(coordinator, owner, batch, named, sorted(names))

    async def _commit_held(
        self,
        coordinator: TransactionCoordinator,
        owner: str,
        batch: int,
        named: Sequence[NamedWriter],
        names: Sequence[str],
    ) -> StagedSetEnded:
        states = moves.check_named(coordinator.machine, owner, batch, named)
        stored = await self._effects.confirm(states)
        for place, (one, there) in enumerate(zip(named, stored, strict=True)):
            moves.check_count(one, place, there.messages)
        states = moves.check_named(coordinator.machine, owner, batch, named)
        start = await self._effects.prepare(states)
        dropped: int = await coordinator.decide(
            lambda machine, now: moves.commit(machine, owner, batch, named, names, now, start)
        )
        await coordinator.ended(*names)
        return StagedSetEnded("committed", dropped)

    async def abort(self, owner: str, batch: int) -> StagedSetEnded:
        """Drops what is staged for the batch. What was committed stays."""
        check_owner(owner)
        check_batch(batch)
        coordinator = self._coordinators.of_owner(owner)
        return await coordinator.carry_on(_abort(coordinator, owner, batch))

    # --- to look at ------------------------------------------------------------------------------------------

    def owners(self, limit: int) -> list[OwnerView]:
        """By name."""
        return [self.owner(one) for one in self._coordinators.owners()[:limit]]

    def owner(self, owner: str) -> OwnerView:
        check_owner(owner)
        table = self._coordinators.of_owner(owner).table
        return OwnerView(owner, table.staged.of(owner), _open(table, owner))


async def _end_former(coordinator: TransactionCoordinator, name: str) -> None:
    if coordinator.table.get(name) is not None:
        await coordinator.decide(lambda machine, now: machine.fence(name, now))
        await coordinator.ended(name)


async def _abort(coordinator: TransactionCoordinator, owner: str, batch: int) -> StagedSetEnded:
    async with coordinator.turns.of(_gate(owner)):
        is_over = batch <= coordinator.table.staged.last_batch(owner)
        if is_over:
            await _until_safe(coordinator, owner, batch)
        dropped = await _drop(coordinator, owner, lambda state: state.batch == batch)
        return StagedSetEnded("already committed" if is_over else "aborted", dropped)


async def _until_safe(coordinator: TransactionCoordinator, owner: str, batch: int) -> None:
    """Nobody hears that a batch is committed before that is safe and everything of it is visible."""
    for state in _open(coordinator.table, owner):
        if state.batch <= batch and state.stage is TxnStage.PREPARE_COMMIT:
            raise ConcurrentTransactions(
                f"Batch {state.batch} of {owner!r} is committed, but not all of it is visible yet; try again in a "
                "moment."
            )
    await coordinator.wait_durable()


async def _drop(coordinator: TransactionCoordinator, owner: str, is_meant: Callable[[TxnState], bool]) -> int:
    names = [state.transactional_id for state in _open(coordinator.table, owner) if is_meant(state)]
    async with coordinator.turns.of(*names):
        still = [name for name in names if is_meant(coordinator.table.require(name))]
        dropped: int = await coordinator.decide(lambda machine, now: moves.drop(machine, still, now))
        await coordinator.ended(*still)
        return dropped


def _open(table: TransactionTable, owner: str) -> list[TxnState]:
    return [table.require(name) for name in table.staged.open(owner)]


def _gate(owner: str) -> str:
    """What a commit of the owner holds; no transactional id begins like this."""
    return f"\0{owner}"
