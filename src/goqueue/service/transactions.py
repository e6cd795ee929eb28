"""Transactions: publish to many partitions, move groups and answer for messages, all at once or not at all.

The same coordinators for Kafka's transactional producers and for REST's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

from goqueue.base.clock import Clock
from goqueue.base.errors import InvalidProducerEpoch
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.core.groups.requests import CommitRequest
from goqueue.core.txn.effects import WriteMarker
from goqueue.core.txn.epochs import NEW
from goqueue.core.txn.errors import InvalidTxnState
from goqueue.core.txn.moves import More
from goqueue.core.txn.questions import IsOpen, MayWrite, OpenAnswer, WriteAnswer
from goqueue.core.txn.records import TxnAnswer, TxnOffset, TxnStage, TxnState
from goqueue.drive.txn_coordinator import TransactionCoordinator
from goqueue.drive.txn_coordinators import TransactionCoordinators
from goqueue.service.leasing import LEASE_MS_MAX
from goqueue.service.topics import Topics
from goqueue.service.txn_effects import EffectPlaces
from goqueue.service.txn_events import TxnTally

_LEASE_MARGIN_MS: Final = 60_000  # leases outlive the transaction, so that its end finds them

Who = tuple[str, int, int]  # transactional id, producer id, epoch


class OpenElsewhere(Protocol):
    async def ask_open(self, asked: IsOpen, /) -> OpenAnswer: ...


class TransactionVerbs:
    """The verbs."""

    def __init__(
        self,
        coordinators: TransactionCoordinators,
        effects: EffectPlaces,
        topics: Topics,
        clock: Clock,
        tally: TxnTally,
        elsewhere: OpenElsewhere | None = None,
    ) -> None:
        """`elsewhere` are the coordinators of all nodes, where there are several."""
        self._elsewhere = elsewhere
        self.tally = tally
        self._coordinators = coordinators
        self._effects = effects
        self._topics = topics
        self._clock = clock

    # --- producers -------------------------------------------------------------------------------------------

    async def init(
        self,
        transactional_id: str,
        timeout_ms: Millis,
        producer_id: int = NEW,
        epoch: int = NEW,
        session_ms: Millis = 0,
    ) -> TxnState:
        """A producer begins (again): older ones with its id are shut out, what they left open is aborted."""
        coordinator = self._coordinators.of(transactional_id)
        whose, shown = (producer_id, epoch), epoch
        async with coordinator.alone(transactional_id):
            needs_id = coordinator.machine.needs_id(transactional_id, fences=True)
            fresh_id = await coordinator.next_id() if needs_id else NEW
            known = coordinator.table.get(transactional_id)
            if known is not None and known.stage is TxnStage.ONGOING:
                if producer_id != NEW:
                    coordinator.machine.check(transactional_id, producer_id, epoch)
                ended = await _fence(coordinator, transactional_id)
                whose = (ended.producer_id, ended.epoch) if producer_id != NEW else (NEW, NEW)
            state: TxnState = await coordinator.decide(
                lambda machine, now: machine.init(
                    transactional_id, timeout_ms, fresh_id, now, *whose, session_ms=session_ms, shown_epoch=shown
                )
            )
            return state

    def beat(self, producer_id: int, epoch: int | None) -> TxnState:
        """The producer is alive; raises if another took its place."""
        return self._coordinators.of_producer(producer_id).machine.beat(producer_id, epoch, self._clock.now_ms())

    # --- a transaction ---------------------------------------------------------------------------------------

    async def begin(self, transactional_id: str, producer_id: int, epoch: int) -> TxnState:
        """Opens a transaction; asking again before anything was done in it is fine."""
        open_ = self._coordinators.of(transactional_id).table.get(transactional_id)
        if open_ is not None and open_.epoch == epoch and _is_used(open_):
            raise InvalidTxnState(f"A transaction of {transactional_id!r} is open; commit or abort it first.")
        return await self._add((transactional_id, producer_id, epoch), More())

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[TopicPartition],
        begins: bool = True,
    ) -> TxnState:
        """The transaction will write to these. None may be missing."""
        for at in partitions:
            self._topics.require_users(at.topic).partition(at.partition)
        wanted = [(at.topic, at.partition) for at in partitions]
        async with self._coordinators.of(transactional_id).alone(transactional_id):
            return await self.add_alone((transactional_id, producer_id, epoch), More(partitions=wanted), begins)

    async def turn(self, transactional_id: str) -> None:
        """Returns when everything asked of the transactional id so far is done."""
        async with self._coordinators.of(transactional_id).alone(transactional_id):
            return

    async def add_group(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> TxnState:
        """The transaction will commit offsets of the group."""
        return await self._add((transactional_id, producer_id, epoch), More(groups=[group]))

    async def add_offsets(
        self, transactional_id: str, producer_id: int, epoch: int, request: CommitRequest, is_named: bool = True
    ) -> TxnState:
        """The group's offsets move when the transaction commits. A stale member is refused now.

        Where the client names its groups first (`add_group`), one that is not named is refused.
        """
        who = (transactional_id, producer_id, epoch)
        state = self.check_open(who)
        if is_named and request.group not in state.groups:
            raise InvalidTxnState(f"The transaction does not know the group {request.group!r}; add it first.")
        await self._effects.check_offsets(request)
        offsets = [
            TxnOffset(request.group, one.topic, one.partition, one.offset, one.leader_epoch, one.metadata)
            for one in request.offsets
        ]
        return await self._add(who, More(offsets=offsets, groups=[request.group]), begins=False)

    async def add_answers(
        self, transactional_id: str, producer_id: int, epoch: int, answers: Sequence[TxnAnswer]
    ) -> TxnState:
        """The messages are answered for when the transaction commits; until then their leases hold."""
        who = (transactional_id, producer_id, epoch)
        lease_ms = min(LEASE_MS_MAX, self.check_open(who).timeout_ms + _LEASE_MARGIN_MS)
        await self._effects.hold_leases([one.receipt for one in answers], lease_ms)
        return await self._add(who, More(answers=answers), begins=False)

    def check_open(self, who: Who) -> TxnState:
        """The producer's state; raises unless its transaction is open."""
        return self._coordinators.of(who[0]).machine.check_open(*who, self._clock.now_ms())

    async def _add(self, who: Who, more: More, begins: bool = True) -> TxnState:
        async with self._coordinators.of(who[0]).alone(who[0]):
            return await self.add_alone(who, more, begins)

    def add_alone(self, who: Who, more: More, begins: bool = True) -> Awaitable[TxnState]:
        """For who has the transactional id to itself."""
        decide = self._coordinators.of(who[0]).decide
        return decide(lambda machine, now: machine.add(*who, now, more, begins=begins))

    async def end(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        commit: bool,
        bump: bool = False,
        may_be_idle: bool = False,
    ) -> TxnState:
        """Commits or aborts; returns when it is visible everywhere, or nowhere.

        With `may_be_idle` an abort is fine where nothing was begun: a client cannot always know whether it was.
        """
        coordinator, who = self._coordinators.of(transactional_id), (transactional_id, producer_id, epoch)
        async with coordinator.alone(transactional_id):
            schedules_from = await self._prepare(coordinator, who) if commit else ()
            await coordinator.decide(
                lambda machine, now: machine.end(
                    *who, commit, now, bump=bump, may_be_idle=may_be_idle, schedules_from=schedules_from
                )
            )
            await coordinator.ended(transactional_id)
            return coordinator.table.require(transactional_id)

    async def _prepare(self, coordinator: TransactionCoordinator, who: Who) -> tuple[Offset, ...]:
        """What has to hold before a commit. What it cannot be asked for at all is told by the decision."""
        known = coordinator.table.get(who[0])
        if known is None:
            return ()
        await self._effects.confirm([known])
        if not (known.answers or known.delayed):
            return ()
        decision = coordinator.machine.end(*who, True, self._clock.now_ms())
        return await self._effects.prepare([one for one in decision.records if isinstance(one, TxnState)])

    async def abort_any(self, transactional_id: str) -> TxnState:
        """An administrator ends a transaction; its producer is shut out."""
        coordinator = self._coordinators.of(transactional_id)
        async with coordinator.alone(transactional_id):
            return await _fence(coordinator, transactional_id)

    async def mark(self, at: TopicPartition, producer_id: int, epoch: int, commit: bool) -> None:
        """An administrator ends what hangs in one partition. What the coordinator has in hand it ends itself."""
        partition = self._topics.require_users(at.topic).partition(at.partition)
        known = await self._known(IsOpen(producer_id, epoch, at.topic, at.partition))
        if known is not None and self.writes_to(producer_id, at):
            if commit or known.owner:
                raise InvalidTxnState("The transaction is not hanging; end it by its transactional id.")
            if epoch < known.epoch:
                raise InvalidProducerEpoch(f"Epoch {epoch} of producer {producer_id} is over.", field="epoch")
            await self.abort_any(known.transactional_id)  # all of it: a part alone would not be a transaction
            return
        if epoch < partition.producers.epoch_of(producer_id):
            raise InvalidProducerEpoch(f"Epoch {epoch} of producer {producer_id} is over.", field="epoch")
        marker = WriteMarker(producer_id, epoch, 0, at.topic, at.partition, commit)
        await self._effects.perform(marker)
        await self._effects.wait_durable([marker])

    async def _known(self, asked: IsOpen) -> TxnState | None:
        """The producer, if a coordinator of this node keeps it; raises if that of another node has it in hand."""
        found = self._coordinators.find_producer(asked.producer_id)
        if found is None and self._elsewhere is None:
            found = self._coordinators.of_producer(asked.producer_id)
        if found is not None:
            return found.table.of_producer(asked.producer_id)
        assert self._elsewhere is not None
        if (await self._elsewhere.ask_open(asked)).abort_as is None:
            raise InvalidTxnState("The transaction is not hanging; end it by its transactional id.")
        return None

    # --- what partitions ask ---------------------------------------------------------------------------------

    def may_write(self, asked: MayWrite) -> WriteAnswer:
        """Whether a batch belongs to an open transaction that the partition is part of."""
        return self._coordinators.of_producer(asked.producer_id).machine.may_write(asked, self._clock.now_ms())

    def writes_to(self, producer_id: int, at: TopicPartition, epoch: int = 0) -> bool:
        """Whether a transaction of the producer, of that epoch or later, is open and has messages there."""
        return self._coordinators.writes_to(producer_id, at, epoch)

    # --- administration --------------------------------------------------------------------------------------

    def all(self) -> list[TxnState]:
        return self._coordinators.all()

    def open(self) -> list[TxnState]:
        return self._coordinators.open()

    def runs_for_ms(self, state: TxnState) -> Millis:
        """How long the transaction has been open; 0 if none is."""
        return self._clock.now_ms() - state.started_ms if state.started_ms else 0

    def unstable(self, group: str) -> set[TopicPartition]:
        """Where open transactions are about to move the group."""
        return self._coordinators.moving(group)

    def name_of(self, producer_id: int, ended: bool = False) -> str:
        """The transactional id of a producer; with `ended` also by the producer id of its last transaction."""
        table = self._coordinators.of_producer(producer_id).table
        if ended and table.of_producer(producer_id) is None:
            for state in self.all():
                if state.ended_producer_id == producer_id:
                    return state.transactional_id
        return table.require_producer(producer_id).transactional_id

    def find_name(self, producer_id: int, ended: bool = False) -> str | None:
        """The same, as far as this node knows; None if it does not."""
        return self._coordinators.name_of(producer_id, ended)

    def describe(self, transactional_id: str) -> TxnState:
        return self._coordinators.of(transactional_id).table.require(transactional_id)


async def _fence(coordinator: TransactionCoordinator, transactional_id: str) -> TxnState:
    await coordinator.decide(lambda machine, now: machine.fence(transactional_id, now))
    await coordinator.ended(transactional_id)
    return coordinator.table.require(transactional_id)


def _is_used(state: TxnState) -> bool:
    touched = state.partitions or state.offsets or state.answers or state.groups or state.calls or state.delayed
    return state.stage is TxnStage.ONGOING and bool(touched)
