"""The batching producer for programs on asyncio: one timer, and one task for each batch on its way."""

from __future__ import annotations

import asyncio
import random
from asyncio import Future
from types import TracebackType
from typing import TypeAlias, Unpack

from goqueue.client import checks
from goqueue.client.accumulator import Accumulator, Batching, OutgoingBatch
from goqueue.client.async_client import AsyncClient
from goqueue.client.calls import Acks, Result, check_topic
from goqueue.client.errors import GoQueueClientError, ProducerClosed
from goqueue.client.idempotence import IdempotentSends, check_idempotent
from goqueue.client.losses import AsyncSentFuture, Losses
from goqueue.client.messages import Content, MessageFields, NewMessage, Sent, encode_message
from goqueue.client.outbox import Outgoing, fail_all, give_results, never_fits, no_room, request_for, unexpected
from goqueue.client.retry import Retries
from goqueue.client.stepping import run_steps_async

_Batch: TypeAlias = OutgoingBatch[Outgoing[AsyncSentFuture]]


class AsyncProducer:
    """Sends messages in batches: 100 messages, 64 KiB or 5 ms, whichever comes first (see `Batching`).

    Order is kept within a topic: it has one request on its way at a time. A publish is not idempotent, so
    a request that the broker may have received is not repeated (see `Retries`): its messages' futures get the error,
    and the caller decides. With `idempotent` each batch
    is a transaction of its own: what got no answer is sent again, and stored once.
    Belongs to the loop that first sends. Use it in an `async with`: leaving the block sends
    what still waits, and raises `NotStored` if messages failed and nobody asked their futures. Or close it, and then
    call `raise_not_stored` for the same; else the last messages may not be sent. The client is the caller's and stays
    open.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        acks: Acks = "all",
        batching: Batching | None = None,
        retries: Retries | None = None,
        block_seconds: float = 60.0,
        idempotent: bool = False,
    ) -> None:
        checks.choice(acks, Acks, "acks")
        checks.instance(retries or Retries(), Retries, "retries")
        checks.instance(batching or Batching(), Batching, "batching")
        checks.seconds(block_seconds, "block_seconds")
        checks.flag(idempotent, "idempotent")
        self._client = client
        self._acks = acks
        self._retries = retries or Retries()
        self._block_seconds = block_seconds
        self._once = IdempotentSends(self._retries.seconds_max) if idempotent else None
        self._accumulator: Accumulator[Outgoing[AsyncSentFuture]] = Accumulator(batching or Batching())
        self._losses = Losses()
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()  # Who waits for room waits in line, so that a large message has its turn too.
        self._room = asyncio.Event()

    async def send(
        self, topic: str, value: Content, *, timeout: float | None = None, **fields: Unpack[MessageFields]
    ) -> Future[Sent]:
        """Takes the message and returns the future of its place; await that too to know that it is stored.

        Waits while the buffer is full, for `timeout` seconds (default: `block_seconds`); then `BufferFull`. A message
        that was taken is sent even if its future is cancelled.
        """
        check_topic(topic)
        message = NewMessage(value, **fields)
        if self._once is not None:
            check_idempotent(message)
        payload = encode_message(message)
        await self._wait_for_room(len(payload), self._block_seconds if timeout is None else timeout)
        loop = asyncio.get_running_loop()
        future = AsyncSentFuture(loop=loop)
        if self._accumulator.add(topic, Outgoing(payload, future), len(payload), loop.time()):
            self._pump()
        return future

    async def flush(self) -> None:
        """Sends everything taken so far and waits until each message has its result."""
        self._accumulator.flush()
        self._pump()
        futures = [outgoing.future for outgoing in self._accumulator.unfinished()]
        if futures:
            await asyncio.wait(futures)

    async def close(self) -> None:
        """Flushes and stops. May be called twice."""
        self._is_closed = True
        self._room.set()
        await self.flush()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
        if kind is None:  # another exception is not hidden by this one
            self.raise_not_stored()

    def raise_not_stored(self) -> None:
        """`NotStored` if messages failed and nobody has asked their futures; it is told once."""
        if (error := self._losses.take()) is not None:
            raise error

    async def _wait_for_room(self, size: int, seconds: float) -> None:
        if not self._accumulator.can_ever_fit(size):
            raise never_fits(size)
        if self._turn.locked() or not self._accumulator.has_room(size):
            try:
                async with asyncio.timeout(seconds), self._turn:
                    await self._room_for(size)
            except TimeoutError:
                raise no_room(seconds) from None
        if self._is_closed:
            raise ProducerClosed

    async def _room_for(self, size: int) -> None:
        while not self._is_closed and not self._accumulator.has_room(size):
            self._room.clear()
            await self._room.wait()

    def _pump(self) -> None:
        """Starts what is due and sets the timer for what is due next."""
        loop = asyncio.get_running_loop()
        while batch := self._accumulator.take(loop.time()):
            task = loop.create_task(self._deliver(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._timer is not None:
            self._timer.cancel()
        deadline = self._accumulator.next_deadline()
        self._timer = None if deadline is None else loop.call_at(deadline, self._pump)

    async def _deliver(self, batch: _Batch) -> None:
        try:
            give_results(batch, await self._results(batch), self._losses)
        except asyncio.CancelledError:
            # The loop is going down; nothing more will leave.
            self._is_closed = True
            fail_all(batch, ProducerClosed(), self._losses)
            raise
        except GoQueueClientError as error:
            fail_all(batch, error, self._losses)
        except Exception as error:
            fail_all(batch, unexpected(error), self._losses)
        self._accumulator.finished(batch)
        self._room.set()
        self._pump()

    async def _results(self, batch: _Batch) -> list[Result]:
        if self._once is not None:
            steps = self._once.send(batch.topic, [outgoing.payload for outgoing in batch.items])
            return await run_steps_async(steps, self._client.perform)
        call = request_for(batch, self._acks)
        loop = asyncio.get_running_loop()
        attempt = 1
        while True:
            try:
                return await self._client.perform(call)
            except GoQueueClientError as error:
                pause = self._retries.pause(error, attempt, loop.time() - batch.since, random.random())
                if pause is None:
                    raise
            await asyncio.sleep(pause)
            attempt += 1
