"""A transaction for programs on asyncio."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, Unpack

from goqueue.client import answer_calls
from goqueue.client.errors import GoQueueClientError
from goqueue.client.leases import Leased
from goqueue.client.messages import Content, MessageFields, NewMessage, Placed, Span
from goqueue.client.stepping import run_steps_async
from goqueue.client.steps import Steps
from goqueue.client.txn_calls import TopicMessages
from goqueue.client.txn_steps import TxnProducerSteps

if TYPE_CHECKING:
    from goqueue.client.async_client import AsyncClient

T = TypeVar("T")


class AsyncClientTransaction:
    """All of it or nothing: leaving the block commits, an exception aborts. `AsyncClient.transaction` makes it.

    It can be used again, one block after the other. What got no answer is sent again and done once.
    """

    def __init__(self, client: AsyncClient, transactional_id: str | None, timeout: Span | None) -> None:
        self._client = client
        self._steps = TxnProducerSteps(transactional_id, timeout, time.monotonic)

    async def __aenter__(self) -> AsyncClientTransaction:
        await self._run(self._steps.begin())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        if kind is not None:
            await self._run(self._steps.abort())
            return
        try:
            await self._run(self._steps.commit())
        except GoQueueClientError:
            await self._run(self._steps.abort())
            raise

    async def publish(self, topic: str, value: Content, **fields: Unpack[MessageFields]) -> None:
        """One message. For many, use `publish_many`."""
        await self.publish_many(topic, [NewMessage(value, **fields)])

    async def publish_many(self, topic: str, messages: Iterable[NewMessage | Content]) -> list[Placed | None]:
        """Where they will be seen, None for delayed ones; in one request."""
        return (await self.publish_to({topic: list(messages)}))[0]

    async def publish_to(self, messages: TopicMessages) -> list[list[Placed | None]]:
        """To several topics, in one request."""
        return await self._run(self._steps.publish(messages))

    async def ack(self, *messages: Leased | str) -> None:
        """Done with these messages of a consumer when it commits."""
        await self._run(self._steps.ack(answer_calls.receipts_of(messages)))

    async def nack(self, *messages: Leased | str, delay: Span | None = None, reason: str = "") -> None:
        await self._run(self._steps.nack(answer_calls.receipts_of(messages), delay, reason))

    async def reject(self, *messages: Leased | str, reason: str = "") -> None:
        await self._run(self._steps.reject(answer_calls.receipts_of(messages), reason))

    async def move_group(self, group: str, offsets: Mapping[tuple[str, int], int], metadata: str = "") -> None:
        """Offsets by topic and partition: everything below counts as read by the group when it commits."""
        await self._run(self._steps.offsets(group, offsets, metadata))

    async def abort(self) -> None:
        """Nothing of it will be seen. Leaving the block then does nothing more."""
        await self._run(self._steps.abort())

    async def _run(self, steps: Steps[T]) -> T:
        return await run_steps_async(steps, self._client.perform)
