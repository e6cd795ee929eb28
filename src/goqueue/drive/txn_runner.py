"""Runs the transaction coordinator: makes its decisions durable, then carries them out.

Ending a transaction is: the decision is safe; then a marker in every partition touched, the offsets and the acks; when
those are safe, the end is noted. A start finishes whatever was decided and not noted as done. One transactional id does
one thing at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

from goqueue.base.clock import Clock
from goqueue.base.errors import GoQueueError, ShuttingDown
from goqueue.base.ids import Millis
from goqueue.base.limits import CLOCK_STEP_MS_MIN
from goqueue.core.txn.epochs import NEW, epoch_exhausted
from goqueue.core.txn.errors import ConcurrentTransactions
from goqueue.core.txn.machine import Transactions
from goqueue.core.txn.records import ENDING, Record, TxnOwner, TxnOwnerGone, TxnState, decode_record, encode_record
from goqueue.drive.partition import Partition
from goqueue.format.batch import read_header
from goqueue.format.records import NewRecord, build, decode

logger = logging.getLogger(__name__)
T = TypeVar("T")

TRANSACTIONS_TOPIC: Final = "__transaction_state"  # where Kafka's tools expect such things
TRANSACTIONS_CONFIG: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * 1024 * 1024)}
_RETRY_S: Final = 1.0
_FORGET_EVERY_MS: Final = 3_600_000
_AT_ONCE: Final = 100  # ends that are carried out side by side; they share the rounds of the disk

CarryOut = Callable[[TxnState], Awaitable[None]]  # markers, offsets, answers; returns when all are safe
NextId = Callable[[], Awaitable[int]]  # a producer id that nobody has
OnChange = Callable[[TxnState | None, TxnState | None, Millis], None]  # before, after, when


class TxnRunner:
    """Made empty; `replay` and `begin` bring the transactions back."""

    def __init__(self, transactions: Transactions, clock: Clock, carry_out: CarryOut, next_id: NextId) -> None:
        self.transactions = transactions
        self.on_change: OnChange = lambda before, after, now: None
        self.on_traced: Callable[[TxnState | None, TxnState | None], None] | None = None
        self.on_timeout: Callable[[], None] = lambda: None
        self.force: Callable[[], Awaitable[None]] = _no_force  # makes all that was written so far safe
        self._clock = clock
        self._carry_out = carry_out
        self._next_id = next_id
        self._partition: Partition | None = None
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}  # with how many hold or want each
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._planned: Millis | None = None
        self._forget_at: Millis = 0
        self._newest_ms: Millis = 0  # when the last record was written
        self._stopped = False

    # --- start and stop --------------------------------------------------------------------------------------

    def replay(self, partition: Partition) -> int:
        """Blocks while it reads the records; run it off the loop. Returns how many there were."""
        count = 0
        self._newest_ms = 0
        for batch in partition.log.batches(partition.log.start_offset):
            for stored in decode(batch):
                self._newest_ms = max(self._newest_ms, stored.timestamp_ms)
                record = decode_record(stored.key or b"", stored.value)
                if record is not None:
                    self.transactions.apply(record)
                    count += 1
        return count

    async def begin(self, partition: Partition) -> None:
        """Finishes what is in doubt, then serves. What cannot be finished now is tried again behind the scenes."""
        self._partition = partition
        now = self._clock.now_ms()
        if self._newest_ms - now >= CLOCK_STEP_MS_MIN:
            logger.warning("the clock was set back while the node was down", extra={"ms": self._newest_ms - now})
            self.transactions.shift(now - self._newest_ms)
        self.transactions.touch_all(now)
        self._forget_at = now + _FORGET_EVERY_MS
        for some in _by_some(self.transactions.in_doubt()):
            done = await asyncio.gather(*(self._try_finish(state, state.bumps, NEW) for state in some))
            for state, is_done in zip(some, done, strict=True):
                if not is_done:
                    self._spawn(self._finish(state, state.bumps))
        self._reset_timer()

    async def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def carry_on(self, work: Coroutine[Any, Any, T]) -> T:
        """It goes on if the caller goes away."""
        return await asyncio.shield(self._spawn(work))

    # --- changes ---------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def alone(self, transactional_id: str) -> AsyncIterator[None]:
        """One change of a transactional id at a time. While its transaction is being ended nobody waits for that."""
        known = self.transactions.get(transactional_id)
        if known is not None and known.stage in ENDING:
            raise ConcurrentTransactions("The producer's last transaction is being ended; try again in a moment.")
        async with self._lock(transactional_id):
            yield

    @asynccontextmanager
    async def held(self, *names: str) -> AsyncIterator[None]:
        """All of them at once, taken in order; it waits even for those that are being ended."""
        async with AsyncExitStack() as stack:
            for name in sorted(names):
                await stack.enter_async_context(self._lock(name))
            yield

    def is_held(self, name: str) -> bool:
        return name in self._locks

    @asynccontextmanager
    async def _lock(self, name: str) -> AsyncIterator[None]:
        lock, wanted = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, wanted + 1
        try:
            async with lock:
                yield
        finally:
            wanted = self._locks[name][1] - 1
            if wanted:
                self._locks[name] = lock, wanted
            else:
                del self._locks[name]

    async def write(self, *records: Record) -> None:
        """Makes decisions durable and lets them hold. Nothing changes if they cannot be written."""
        self.append(*records)
        await self.wait_durable()

    def append(self, *records: Record) -> None:
        """All of them, or none; what a transaction that is over leaves behind goes with it."""
        partition = self._partition
        if partition is None:
            raise ShuttingDown("Transactions are not loaded yet; try again in a moment.")
        now = self._clock.now_ms()
        records = (*records, *(gone for record in records for gone in self.transactions.leftovers(record)))
        encoded = [encode_record(record) for record in records]
        batch = build([NewRecord(key, value, (), now) for key, value in encoded])
        partition.append(batch, read_header(batch), now, append_time=False)
        for record in records:
            self._let_hold(record, now)
        self._reset_timer()

    def _let_hold(self, record: Record, now: Millis) -> None:
        if isinstance(record, TxnOwner | TxnOwnerGone):
            self.transactions.apply(record)
            return
        before = self.transactions.get(record.transactional_id)
        self.transactions.apply(record)
        after = self.transactions.get(record.transactional_id)
        self.on_change(before, after, now)
        if self.on_traced is not None:
            self.on_traced(before, after)

    async def wait_durable(self) -> None:
        if self._partition is not None and not self._partition.is_durable:
            await self._partition.wait_durable()

    async def end(self, decided: TxnState, bump: bool, fresh_id: int) -> TxnState:
        """Writes the decision and carries it out; once written it cannot fail, only take longer.

        It goes on if the caller goes away.
        """
        self.append(decided)
        await self.carry_on(self._wait_and_finish(decided, bump, fresh_id))
        return self.transactions.require(decided.transactional_id)

    async def _wait_and_finish(self, decided: TxnState, bump: bool, fresh_id: int) -> None:
        await self.wait_durable()
        await self.force()
        await self._finish(decided, bump, fresh_id)

    async def end_all(self, decided: Sequence[TxnState], *also: Record) -> None:
        """The same for many, whose decision is one; it goes on only if the caller does."""
        self.append(*also, *decided)
        await self.wait_durable()
        await self.force()
        for some in _by_some(decided):
            await asyncio.gather(*(self._finish(one, one.bumps) for one in some))
            await asyncio.sleep(0)  # others get their turn

    async def _finish(self, decided: TxnState, bump: bool, fresh_id: int = NEW) -> None:
        while not self._stopped:
            if await self._try_finish(decided, bump, fresh_id):
                return
            await asyncio.sleep(_RETRY_S)

    async def _try_finish(self, decided: TxnState, bump: bool, fresh_id: int) -> bool:
        try:
            await self._carry_out(decided)
            await self.force()
            if bump and fresh_id == NEW and epoch_exhausted(decided):
                fresh_id = await self._next_id()
            done = self.transactions.completed(decided.transactional_id, self._clock.now_ms(), bump, fresh_id)
            await self.write(done)
        except (GoQueueError, OSError) as error:
            logger.error(
                "a transaction's end waits", extra={"transactional_id": decided.transactional_id, "error": str(error)}
            )
            return self.transactions.require(decided.transactional_id).stage not in ENDING
        return True

    # --- time ------------------------------------------------------------------------------------------------

    def _reset_timer(self) -> None:
        """One timer, for the next open transaction whose time is up, and for upkeep."""
        if self._stopped:
            return
        deadline = self.transactions.next_deadline()
        planned = self._forget_at if deadline is None else min(deadline, self._forget_at)
        if self._timer is not None and self._planned == planned:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._planned = planned
        wait_s = max(0.0, (planned - self._clock.now_ms()) / 1000)
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def look_again(self) -> None:
        """Ticks if anything is due."""
        if self._timer is not None and self._planned is not None and self._planned <= self._clock.now_ms():
            self._timer.cancel()
            self._tick()

    def clock_moved(self, by_ms: Millis) -> None:
        """What is open is noted again, so that a start counts by the new time."""
        self._forget_at += by_ms
        left = self.transactions.shift(by_ms)
        try:
            if left and self._partition is not None:
                self.append(*left)
        except GoQueueError as error:
            logger.error("transactions could not be noted by the new time", extra={"error": error.message})
        self._planned = None
        self._reset_timer()

    def _tick(self) -> None:
        """Open transactions whose time is up are aborted, and their producers shut out."""
        self._timer = None
        now = self._clock.now_ms()
        for name in self.transactions.overdue(now):
            self._spawn(self._abort(name))
        if now >= self._forget_at:
            self._forget_at = now + _FORGET_EVERY_MS
            self._forget(now)
        self._reset_timer()

    def _forget(self, now: Millis) -> None:
        try:
            for gone in list(self.transactions.forgotten(now)):
                if not self.is_held(gone.transactional_id):
                    self.append(gone)
            for owner in list(self.transactions.staged.forgotten(now)):
                self.append(owner)
        except GoQueueError as error:
            logger.error("idle producers could not be forgotten", extra={"error": error.message})

    async def _abort(self, transactional_id: str) -> None:
        try:
            async with self.alone(transactional_id):
                now = self._clock.now_ms()
                if not self.transactions.is_overdue(transactional_id, now):
                    return  # it ended while this waited, or its producer was heard
                decided = self.transactions.fence(transactional_id, now)
                if decided is not None:
                    logger.info("a transaction ran out of time", extra={"transactional_id": transactional_id})
                    self.on_timeout()
                    await self.end(decided, bump=False, fresh_id=NEW)
        except GoQueueError as error:
            logger.error("a transaction could not be aborted", extra={"error": error.message})


async def _no_force() -> None:
    pass


def _by_some(states: Sequence[TxnState]) -> list[Sequence[TxnState]]:
    return [states[at : at + _AT_ONCE] for at in range(0, len(states), _AT_ONCE)]
