"""The consumer for programs on asyncio: polls in the caller's task, heartbeats in one of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

from goqueue.client import answer_calls
from goqueue.client.calls import RestCall
from goqueue.client.consumer_options import ConsumerOptions, membership_of, settings_of
from goqueue.client.errors import GoQueueClientError
from goqueue.client.leases import AsyncLeasedMessage, Leased, bound
from goqueue.client.messages import Span
from goqueue.client.replies import TopicParts
from goqueue.client.steps import Pause, Rebalance, Step, Steps, persist

if TYPE_CHECKING:
    from goqueue.client.async_client import AsyncClient

T = TypeVar("T")
OnAsyncRebalance: TypeAlias = Callable[[Rebalance], Awaitable[None]]
logger = logging.getLogger("goqueue.client")


class AsyncConsumer:
    """A member of a group that takes messages under leases and answers for each. `AsyncClient.consumer` makes it.

    Use it in an `async with`, from one task, and loop over it or call `poll`; messages may be answered for from any
    task. It heartbeats by itself while the caller works, and extends no lease. Leaving the block leaves the group:
    what was not answered for goes to others at once. Where the broker acks (`auto_commit`), leaving the block counts
    what was handed out as done, unless an exception leaves it.
    """

    def __init__(
        self,
        client: AsyncClient,
        group: str,
        topics: Sequence[str],
        *,
        on_rebalance: OnAsyncRebalance | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._client = client
        self._settings = settings_of(**options)
        self._membership = membership_of(group, topics, self._settings)
        self._on_rebalance = on_rebalance
        self._turn = asyncio.Lock()  # one exchange with the group at a time
        self._is_closed = False
        self._beating: asyncio.Task[None] | None = None

    @property
    def assignment(self) -> list[TopicParts]:
        """What the consumer may take from now."""
        return self._membership.assignment

    @property
    def must_join(self) -> bool:
        """A poll's answer got lost, or the group has forgotten the member. The next poll joins again, and gives back
        all that is held."""
        return self._membership.must_join

    async def __aenter__(self) -> AsyncConsumer:
        await self._exchange(self._membership.join())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._close(is_done=kind is None)

    async def close(self) -> None:
        """Leaves the group. May be called twice."""
        await self._close(is_done=True)

    def __aiter__(self) -> AsyncConsumer:
        return self

    async def __anext__(self) -> AsyncLeasedMessage:
        """The next message, whenever it comes."""
        return self._bind(await self._exchange(self._membership.next(self._settings.prefetch)))

    async def poll(
        self, limit: int = 100, timeout: float = 10.0, *, keep_held: bool = False
    ) -> list[AsyncLeasedMessage]:
        """Up to `limit` messages; waits up to `timeout` seconds for the first, and is empty if none came.

        Raises what the broker refuses, and `ConnectionFailed` when it was away for longer than `patience`. With
        `keep_held` it raises `MustJoinAgain` where it would join the group again and give back what is held.
        """
        steps = self._membership.poll(limit, timeout, keep_held=keep_held)
        return [self._bind(one) for one in await self._exchange(steps)]

    # --- answers --------------------------------------------------------------------------------------

    async def ack(self, *messages: Leased | str) -> None:
        """Done with these messages or receipts; durable when it returns. `PartlyAnswered` if only some went well."""
        await self._answer(messages, lambda receipts: answer_calls.ack(receipts))

    async def nack(self, *messages: Leased | str, delay: Span | None = None, reason: str = "") -> None:
        """Failed: they come again after a back-off or `delay`, or go to the dead letters if they failed too often."""
        await self._answer(messages, lambda receipts: answer_calls.nack(receipts, delay, reason))

    async def reject(self, *messages: Leased | str, reason: str = "") -> None:
        """To the dead letters, now."""
        await self._answer(messages, lambda receipts: answer_calls.reject(receipts, reason))

    async def extend(self, *messages: Leased | str, timeout: Span) -> None:
        """Their leases end so long from now; 0 gives the messages back, which is no failure."""
        await self._answer(messages, lambda receipts: answer_calls.extend(receipts, timeout))

    async def _answer(self, messages: Sequence[Leased | str], make: Callable[[list[str]], RestCall[None]]) -> None:
        receipts = answer_calls.receipts_of(messages)
        if receipts:
            self._membership.answers()
            await self._run(persist(make(receipts), self._settings.retries, time.monotonic))

    # --- doing what the membership says ---------------------------------------------------------------

    async def _exchange(self, steps: Steps[T]) -> T:
        async with self._turn:
            found = await self._run(steps)
        self._keep_beating()
        return found

    async def _run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._do(step)
                except GoQueueClientError as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found

    async def _do(self, step: Step) -> Any:
        if isinstance(step, RestCall):
            return await self._client.perform(step)
        if isinstance(step, Pause):
            return await asyncio.sleep(step.seconds)
        return await self._tell(step)

    async def _tell(self, change: Rebalance) -> None:
        """The caller may take its time: heartbeats go on meanwhile."""
        if self._on_rebalance is not None:
            self._turn.release()
            try:
                await self._on_rebalance(change)
            finally:
                await self._turn.acquire()

    def _bind(self, message: Leased) -> AsyncLeasedMessage:
        return bound(AsyncLeasedMessage, message, self)

    # --- staying in while the caller works ------------------------------------------------------------

    def _keep_beating(self) -> None:
        if self._beating is None and not self._is_closed:
            self._beating = asyncio.create_task(self._beat(), name="goqueue-consumer")

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._membership.beat_seconds)
            if not self._turn.locked():  # A poll under way is a heartbeat itself.
                async with self._turn:
                    try:
                        await self._run(self._membership.beat())
                    except Exception:
                        logger.exception("a consumer's heartbeat failed on its own account")

    async def _close(self, is_done: bool) -> None:
        self._is_closed = True
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait({self._beating})
        async with self._turn:
            await self._run(self._membership.close(is_done))
