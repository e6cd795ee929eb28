"""Transactions: publish to many partitions, move groups and answer for messages, all at once or not at all.

One coordinator for Kafka's transactional producers and for REST's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError, InvalidProducerEpoch, NotFound
from goqueue.base.ids import Millis, TopicPartition
from goqueue.core.groups.requests import CommitRequest
from goqueue.core.txn.epochs import EPOCH_MAX, NEW
from goqueue.core.txn.errors import InvalidTxnState, UnknownTransaction
from goqueue.core.txn.machine import Transactions
from goqueue.core.txn.records import ENDING, IDLE, TxnAnswer, TxnDelayed, TxnOffset, TxnStage, TxnState
from goqueue.drive.partition import Partition
from goqueue.drive.txn_runner import TxnRunner
from goqueue.format.batch import read_header
from goqueue.format.control import marker
from goqueue.service.groups import Groups
from goqueue.service.leasing import LEASE_MS_MAX, Leasing
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.producers import ProducerIds
from goqueue.service.topics import Topics
from goqueue.service.txn_effects import TxnEffects

logger = logging.getLogger(__name__)

_LEASE_MARGIN_MS: Final = 60_000  # leases outlive the transaction, so that its end finds them


class TxnTally(msgspec.Struct):
    """What became of transactions since the node started."""

    begun: int = 0
    committed: int = 0
    aborted: int = 0
    timed_out: int = 0


class TransactionVerbs:
    """The verbs. `attach` gives them their runner, as each needs the other."""

    runner: TxnRunner

    def __init__(
        self,
        ids: ProducerIds,
        topics: Topics,
        groups: Groups,
        leasing: Leasing,
        effects: TxnEffects,
        clock: Clock,
        metrics: BrokerMetrics,
    ) -> None:
        self._ids = ids
        self._topics = topics
        self._groups = groups
        self._leasing = leasing
        self._effects = effects
        self._clock = clock
        self._metrics = metrics
        self.tally = TxnTally()

    def attach(self, machine: Transactions) -> TxnRunner:
        self.runner = TxnRunner(machine, self._clock, self.carry_out, self._ids.next_id)
        self.runner.on_change = self._count
        self.runner.on_timeout = self._count_timeout
        return self.runner

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
        runner, machine = self.runner, self.runner.transactions
        shown = epoch
        async with runner.alone(transactional_id):
            known = machine.get(transactional_id)
            epoch_exhausted = known is None or known.epoch >= EPOCH_MAX - 1
            fresh_id = await self._ids.next_id() if epoch_exhausted else NEW
            if known is not None and known.stage is TxnStage.ONGOING:
                if producer_id != NEW:
                    machine.check(transactional_id, producer_id, epoch)
                decided = machine.fence(transactional_id, self._clock.now_ms())
                if decided is not None:
                    ended = await runner.end(decided, bump=False, fresh_id=NEW)
                    producer_id, epoch = (ended.producer_id, ended.epoch) if producer_id != NEW else (NEW, NEW)
            now = self._clock.now_ms()
            state = machine.init(transactional_id, timeout_ms, fresh_id, now, producer_id, epoch, session_ms)
            if state != machine.get(transactional_id):
                state = replace(state, shown_epoch=shown)
                await runner.write(state)
            return state

    def beat(self, producer_id: int, epoch: int | None) -> TxnState:
        """The producer is alive; raises if another took its place."""
        return self.runner.transactions.beat(producer_id, epoch, self._clock.now_ms())

    # --- a transaction ---------------------------------------------------------------------------------------

    async def begin(self, transactional_id: str, producer_id: int, epoch: int) -> TxnState:
        """Opens a transaction; asking again before anything was done in it is fine."""
        open_ = self.runner.transactions.get(transactional_id)
        if open_ is not None and open_.epoch == epoch and _is_used(open_):
            raise InvalidTxnState(f"A transaction of {transactional_id!r} is open; commit or abort it first.")
        return await self._add(transactional_id, producer_id, epoch, {})

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
        return await self._add(transactional_id, producer_id, epoch, {"partitions": wanted, "begins": begins})

    async def turn(self, transactional_id: str) -> None:
        """Returns when everything asked of the transactional id so far is done."""
        async with self.runner.alone(transactional_id):
            return

    async def add_group(self, transactional_id: str, producer_id: int, epoch: int, group: str) -> TxnState:
        """The transaction will commit offsets of the group."""
        return await self._add(transactional_id, producer_id, epoch, {"groups": [group]})

    async def add_offsets(
        self, transactional_id: str, producer_id: int, epoch: int, request: CommitRequest, is_named: bool = True
    ) -> TxnState:
        """The group's offsets move when the transaction commits. A stale member is refused now.

        Where the client names its groups first (`add_group`), one that is not named is refused.
        """
        machine = self.runner.transactions
        state = machine.check_open(transactional_id, producer_id, epoch, self._clock.now_ms())
        if is_named and request.group not in state.groups:
            raise InvalidTxnState(f"The transaction does not know the group {request.group!r}; add it first.")
        if request.member_id or request.generation_or_epoch >= 0:
            self._groups.check_commit(request)
        offsets = [
            TxnOffset(request.group, one.topic, one.partition, one.offset, one.leader_epoch, one.metadata)
            for one in request.offsets
        ]
        more = {"offsets": offsets, "groups": [request.group], "begins": False}
        return await self._add(transactional_id, producer_id, epoch, more)

    async def add_answers(
        self, transactional_id: str, producer_id: int, epoch: int, answers: Sequence[TxnAnswer]
    ) -> TxnState:
        """The messages are answered for when the transaction commits; until then their leases hold."""
        machine = self.runner.transactions
        state = machine.check_open(transactional_id, producer_id, epoch, self._clock.now_ms())
        lease_ms = min(LEASE_MS_MAX, state.timeout_ms + _LEASE_MARGIN_MS)
        for outcome in await self._leasing.extend([one.receipt for one in answers], lease_ms):
            if outcome is not None:
                raise outcome
        return await self._add(transactional_id, producer_id, epoch, {"answers": answers, "begins": False})

    async def _add(self, transactional_id: str, producer_id: int, epoch: int, more: dict[str, object]) -> TxnState:
        async with self.runner.alone(transactional_id):
            return await self.add_alone(transactional_id, producer_id, epoch, more)

    async def add_alone(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        more: dict[str, object],
        delayed: Iterable[TxnDelayed] = (),
    ) -> TxnState:
        """For who has the transactional id to itself."""
        machine = self.runner.transactions
        before = machine.get(transactional_id)
        state = machine.add(transactional_id, producer_id, epoch, self._clock.now_ms(), **more)  # type: ignore[arg-type]
        if before is None or _has_news(before, state):
            await self.runner.write(state, *delayed)
        return state

    def check_write(self, producer_id: int, epoch: int, at: TopicPartition) -> None:
        """Raises unless the batch belongs to an open transaction that the partition is part of."""
        self.runner.transactions.check_write(producer_id, epoch, at.topic, at.partition)
        self.runner.transactions.touch(producer_id, self._clock.now_ms())

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
        runner, machine = self.runner, self.runner.transactions
        async with runner.alone(transactional_id):
            known = machine.get(transactional_id)
            if commit and known is not None:
                await self.settle_writes([known])
            decided = machine.end(transactional_id, producer_id, epoch, commit, self._clock.now_ms(), bump, may_be_idle)
            if decided is None:
                return machine.require(transactional_id)
            if commit:
                (decided,) = self.prepared([decided])
            return await runner.end(decided, bump, NEW)

    async def settle_writes(self, states: Sequence[TxnState]) -> None:
        """What is committed is as safe as the node promises before the decision is."""
        touched = [(state.producer_id, partition) for state in states for partition in self._touched(state)]
        for producer_id, partition in touched:
            while not partition.holds_safely(producer_id):
                await partition.wait_durable()
        await self.runner.force()
        for _, partition in touched:
            if partition.failure is not None:
                raise partition.failure

    def stored(self, state: TxnState) -> int:
        """How many messages its epoch has in logs; each epoch counts them from 0."""
        return sum(one.producers.next_sequence(state.producer_id, state.epoch) for one in self._touched(state))

    def prepared(self, decided: Sequence[TxnState]) -> list[TxnState]:
        """Just before commits are written: raises if one cannot be carried out, and has then touched none."""
        for one in decided:
            self._effects.check(one)
        return [self._effects.prepare(one) for one in decided]

    async def abort_any(self, transactional_id: str) -> TxnState:
        """An administrator ends a transaction; its producer is shut out."""
        runner = self.runner
        async with runner.alone(transactional_id):
            decided = runner.transactions.fence(transactional_id, self._clock.now_ms())
            if decided is None:
                return runner.transactions.require(transactional_id)
            return await runner.end(decided, bump=False, fresh_id=NEW)

    async def mark(self, at: TopicPartition, producer_id: int, epoch: int, commit: bool) -> None:
        """An administrator ends what hangs in one partition. What the coordinator has in hand it ends itself."""
        partition = self._topics.require_users(at.topic).partition(at.partition)
        known = self.runner.transactions.of_producer(producer_id)
        if known is not None and self.runner.transactions.writes_to(producer_id, at.topic, at.partition):
            if commit or known.owner:
                raise InvalidTxnState("The transaction is not hanging; end it by its transactional id.")
            if epoch < known.epoch:
                raise InvalidProducerEpoch(f"Epoch {epoch} of producer {producer_id} is over.", field="epoch")
            await self.abort_any(known.transactional_id)  # all of it: a part alone would not be a transaction
            return
        if epoch < partition.producers.epoch_of(producer_id):
            raise InvalidProducerEpoch(f"Epoch {epoch} of producer {producer_id} is over.", field="epoch")
        self._mark(partition, producer_id, epoch, commit)
        await partition.wait_durable()

    def _mark(self, partition: Partition, producer_id: int, epoch: int, commit: bool) -> None:
        now = self._clock.now_ms()
        batch = marker(producer_id, epoch, commit, now)
        partition.append(batch, read_header(batch), now, append_time=False)

    # --- carrying out ----------------------------------------------------------------------------------------

    async def carry_out(self, state: TxnState) -> None:
        """Markers, offsets, answers; repeating it changes nothing."""
        touched = list(self._touched(state))
        for partition in touched:
            self._mark(partition, state.producer_id, state.epoch, state.commits)
        await self._effects.carry_out(state, self.runner.transactions)
        for partition in touched:
            await partition.wait_durable()

    def _touched(self, state: TxnState) -> Iterator[Partition]:
        """Without those that were deleted meanwhile, and their messages with them."""
        for topic, number in state.partitions:
            try:
                yield self._topics.require(topic).partition(number)
            except NotFound:
                continue

    async def abort_orphans(self) -> int:
        """After a start: messages whose transaction a power cut took from the coordinator's log are nobody's."""
        count = 0
        for topic in self._topics.all():
            for partition in topic.partitions:
                for producer_id in partition.producers.open_transactions():
                    epoch = partition.producers.epoch_of(producer_id)
                    if not self.runner.transactions.writes_to(producer_id, topic.name, partition.at.partition, epoch):
                        count += await self._abort_orphan(partition, producer_id)
        return count

    async def _abort_orphan(self, partition: Partition, producer_id: int) -> bool:
        logger.warning("an orphaned transaction is aborted", extra={"partition": str(partition.at)})
        epoch = partition.producers.epoch_of(producer_id)
        state = self.runner.transactions.of_producer(producer_id)
        if state is not None and state.stage is TxnStage.ONGOING and state.epoch == epoch:
            epoch = min(epoch, EPOCH_MAX) + 1  # not whole any more: nobody may go on with it and commit the rest
        try:
            self._mark(partition, producer_id, epoch, False)
            await partition.wait_durable()
        except GoQueueError as error:
            logger.error("an orphaned transaction stays open", extra={"error": error.message})
            return False
        return True

    # --- administration --------------------------------------------------------------------------------------

    def all(self) -> list[TxnState]:
        return self.runner.transactions.all()

    def open(self) -> list[TxnState]:
        return self.runner.transactions.open()

    def runs_for_ms(self, state: TxnState) -> Millis:
        """How long the transaction has been open; 0 if none is."""
        return self._clock.now_ms() - state.started_ms if state.started_ms else 0

    def unstable(self, group: str) -> set[TopicPartition]:
        """Where open transactions are about to move the group."""
        return {
            TopicPartition(one.topic, one.partition)
            for state in self.runner.transactions.open()
            for one in state.offsets
            if one.group == group
        }

    def name_of(self, producer_id: int, ended: bool = False) -> str:
        """The transactional id of a producer; with `ended` also by the producer id of its last transaction."""
        machine = self.runner.transactions
        state = machine.of_producer(producer_id)
        if state is None and ended:
            state = next((one for one in machine.all() if one.ended_producer_id == producer_id), None)
        if state is None:
            raise UnknownTransaction(f"There is no producer {producer_id}; init it first.", field="producer_id")
        return state.transactional_id

    def describe(self, transactional_id: str) -> TxnState:
        return self.runner.transactions.require(transactional_id)

    # --- counting --------------------------------------------------------------------------------------------

    def _count(self, before: TxnState | None, after: TxnState | None, now: Millis) -> None:
        was = before.stage if before is not None else TxnStage.EMPTY
        stage = after.stage if after is not None else TxnStage.EMPTY
        if stage is TxnStage.ONGOING and was is not TxnStage.ONGOING:
            self.tally.begun += 1
            self._metrics.txns_begun.inc()
        elif before is not None and was in ENDING and stage in IDLE:
            self.tally.committed += before.commits
            self.tally.aborted += not before.commits
            (self._metrics.txns_committed if before.commits else self._metrics.txns_aborted).inc()
            self._metrics.txn_seconds.observe(max(0, now - before.started_ms) / 1000)
        self._metrics.txns_open.set(self.runner.transactions.open_count)

    def _count_timeout(self) -> None:
        self.tally.timed_out += 1
        self._metrics.txns_timed_out.inc()


def _is_used(state: TxnState) -> bool:
    touched = state.partitions or state.offsets or state.answers or state.groups or state.calls or state.delayed
    return state.stage is TxnStage.ONGOING and bool(touched)


def _has_news(before: TxnState, after: TxnState) -> bool:
    """Whether there is something to write down; a producer adds the same partition again and again."""
    return replace(before, updated_ms=after.updated_ms) != after
