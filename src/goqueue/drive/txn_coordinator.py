"""Runs the transaction coordinator: a host for its machine, and the ends that it decided.

Ending a transaction is: the decision is durable; then its effects, in every place that it touched; when those are
durable, the end is noted. An effect that fails is repeated until it is done. A load begins whatever was decided and not
noted as done. One transactional id does one thing at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from goqueue.base.clock import SteadyClock
from goqueue.base.errors import FencedEpoch, GoQueueError, NotLeader, NotLoaded, PeerLost, ShuttingDown
from goqueue.base.ids import Millis
from goqueue.core.machine import Decision
from goqueue.core.txn.checks import ending
from goqueue.core.txn.effects import CarryOut, Effect, StageMoved, TransactionEnd, TxnEffect, TxnTimedOut
from goqueue.core.txn.epochs import NEW, epoch_exhausted
from goqueue.core.txn.machine import Transactions
from goqueue.core.txn.records import ENDING, Record, TxnState
from goqueue.core.txn.table import TransactionTable
from goqueue.drive.coordinators import TRANSACTIONS_CODEC, TransactionHost
from goqueue.drive.host import Host
from goqueue.drive.host_parts import Sink
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.turns import Turn, Turns

logger = logging.getLogger(__name__)
T = TypeVar("T")

_RETRY_S: Final = 1.0
_SOON_S: Final = 0.05  # the first pause, where another node is about to lead
_AT_ONCE: Final = 100  # ends that are carried out side by side; they share the rounds of the disk

Question: TypeAlias = Callable[[Transactions, Millis], Decision[Record]]
NextId: TypeAlias = Callable[[], Awaitable[int]]  # a producer id that nobody has
Events: TypeAlias = Callable[[StageMoved | TxnTimedOut], None]


class EffectPort(Protocol):
    """Where effects are sent."""

    async def perform(self, effect: TxnEffect, /) -> None:
        """Done, though perhaps not durable yet. Doing it again changes nothing."""
        ...

    async def wait_durable(self, effects: Sequence[TxnEffect], /) -> None:
        """Returns when all of these are as durable as the node promises."""
        ...

    async def force(self) -> None:
        """Where ends wait for the disk though nothing else does: all that was written so far is on it."""
        ...


class _Ending:
    """One end that is being carried out."""

    def __init__(self, end: TransactionEnd, side_by_side: AbstractAsyncContextManager[None]) -> None:
        self.end = end
        self.left = list(end.effects)
        self.side_by_side = side_by_side
        self.tried = asyncio.Event()  # done, or failed once
        self.waiting: list[asyncio.Future[bool]] = []  # whether it is done; else the node stops

    def over(self, is_done: bool) -> None:
        self.tried.set()
        for waiter in self.waiting:
            if not waiter.done():
                waiter.set_result(is_done)


class TransactionCoordinator(Sink[Transactions, Record]):
    """Made empty; `load` brings the transactions back."""

    def __init__(
        self,
        new: Callable[[], Transactions],
        effects: EffectPort,
        events: Events,
        next_id: NextId,
        clock: SteadyClock,
        offload: Offload,
    ) -> None:
        self.host: TransactionHost = Host(new, TRANSACTIONS_CODEC, self, clock, offload)
        self.turns = Turns()
        self._effects = effects
        self._events = events
        self.next_id = next_id
        self._endings: dict[str, _Ending] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- start and stop --------------------------------------------------------------------------------------

    async def load(self, partition: Partition) -> None:
        """From now on transactions are served. What is in doubt is begun; `tried` returns when that was tried once."""
        await self.host.load(partition)

    async def tried(self) -> None:
        """Ends that were begun so far are carried out, or could not be now and are tried again in the background."""
        for one in list(self._endings.values()):
            await one.tried.wait()

    async def stop(self) -> None:
        self.host.stop_waiting()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.host.stop()

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def carry_on(self, work: Coroutine[Any, Any, T]) -> T:
        """It goes on if the caller goes away."""
        return await asyncio.shield(self._spawn(work))

    # --- asking ----------------------------------------------------------------------------------------------

    @property
    def machine(self) -> Transactions:
        """To ask what changes nothing; raises while nothing is loaded."""
        return self.host.machine

    @property
    def table(self) -> TransactionTable:
        return self.host.machine.table

    def alone(self, transactional_id: str) -> Turn:
        """One change of a transactional id at a time. While its transaction is being ended nobody waits for that."""
        known = self.table.get(transactional_id)
        if known is not None and known.stage in ENDING:
            raise ending()
        return self.turns.one(transactional_id)

    def decide(self, question: Question) -> Awaitable[Any]:
        """The reply, when the decision is durable. Ends that it decides are begun then."""
        return self.host.call(lambda machine, _, now: question(machine, now))

    async def wait_durable(self) -> None:
        """All decisions so far are as durable as ends have to be."""
        await self.host.wait_durable()
        await self._effects.force()

    # --- ends ------------------------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> None:
        """For the host: a decision is durable."""
        if not isinstance(effect, CarryOut):
            self._events(effect)
            return
        is_one = len(effect.ends) == 1
        side_by_side = nullcontext() if is_one else asyncio.Semaphore(_AT_ONCE)
        for end in effect.ends:
            known = self._endings.get(end.transactional_id)
            if known is None or known.end.whose != end.whose:  # a load finds what is under way once more
                self._begin(_Ending(end, side_by_side))

    def _begin(self, one: _Ending) -> None:
        self._endings[one.end.transactional_id] = one
        self._spawn(self._finish(one)).add_done_callback(lambda task: self._over(one, task))

    def _over(self, one: _Ending, task: asyncio.Task[None]) -> None:
        if self._endings.get(one.end.transactional_id) is one:
            del self._endings[one.end.transactional_id]
        one.over(not task.cancelled())

    async def ended(self, *names: str) -> None:
        """Returns when ends of these that were decided are carried out, and durable everywhere. They go on if the
        caller goes away; once decided they cannot fail, only take longer."""
        waiters: list[asyncio.Future[bool]] = []
        for name in names:
            if (one := self._endings.get(name)) is not None:
                waiters.append(asyncio.get_running_loop().create_future())
                one.waiting.append(waiters[-1])
        if not all([await waiter for waiter in waiters]):
            if not self.host.is_loaded:
                raise NotLeader("Another node leads the transaction's coordinator now; its end goes on there.")
            raise ShuttingDown("The node is stopping; the transaction's end goes on after its start.")

    async def _finish(self, one: _Ending) -> None:
        pause_s = _SOON_S
        while True:
            try:
                async with one.side_by_side:
                    await self._effects.force()
                    if (state := self._ending(one.end)) is not None:
                        await self._carry_out(one)
                        await self._note(one.end, state)
                return
            except (GoQueueError, OSError) as error:
                name = one.end.transactional_id
                logger.error("a transaction's end waits", extra={"transactional_id": name, "error": str(error)})
                is_elsewhere = isinstance(error, NotLeader | NotLoaded | PeerLost | FencedEpoch)
            one.tried.set()
            await asyncio.sleep(pause_s if is_elsewhere else _RETRY_S)
            pause_s = min(2 * pause_s, _RETRY_S)

    def _ending(self, end: TransactionEnd) -> TxnState | None:
        """Its state; None if it is noted as over, or if a load found that it was never decided."""
        state = self.table.get(end.transactional_id)
        is_ending = state is not None and state.stage in ENDING and (state.producer_id, state.epoch) == end.whose
        return state if is_ending else None

    async def _carry_out(self, one: _Ending) -> None:
        while one.left:
            await self._effects.perform(one.left[0])
            del one.left[0]
        await self._effects.wait_durable(one.end.effects)
        await self._effects.force()

    async def _note(self, end: TransactionEnd, state: TxnState) -> None:
        fresh_id = await self.next_id() if state.bumps and epoch_exhausted(state) else NEW
        await self.decide(lambda machine, now: machine.completed(end, now, fresh_id))
