"""The same loop over a queue for programs on asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from goqueue.client.async_consumer import AsyncConsumer
from goqueue.client.consumer_options import ConsumerOptions
from goqueue.client.consumption import lease_seconds, options_for
from goqueue.client.errors import GoQueueClientError
from goqueue.client.leases import AsyncLeasedMessage
from goqueue.client.messages import Span

if TYPE_CHECKING:
    from goqueue.client.async_client import AsyncClient

logger = logging.getLogger("goqueue.client")


class AsyncConsumption:
    """`async with client.consume(...) as messages:` and a loop over it, as `Consumption`."""

    def __init__(
        self, client: AsyncClient, group: str, topics: Sequence[str], lease: Span, **options: Unpack[ConsumerOptions]
    ) -> None:
        self._lease = lease_seconds(lease)
        self._consumer = AsyncConsumer(client, group, topics, **options_for(options, lease))
        self._current: AsyncLeasedMessage | None = None
        self._lock = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> AsyncConsumption:
        await self._consumer.__aenter__()
        self._renewing = asyncio.create_task(self._renew(), name="goqueue-lease")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            await self._answer(why)
        except GoQueueClientError as error:
            if kind is None:
                raise
            logger.warning("%s", error)
        finally:
            if self._renewing is not None:
                self._renewing.cancel()
                await asyncio.wait({self._renewing})
            await self._consumer.__aexit__(kind, why, at)

    def __aiter__(self) -> AsyncConsumption:
        return self

    async def __anext__(self) -> AsyncLeasedMessage:
        """The next one, whenever it comes; the one before it is done."""
        await self._answer(None)
        self._current = message = await anext(self._consumer)
        return message

    async def _answer(self, why: BaseException | None) -> None:
        async with self._lock:
            message, self._current = self._current, None
            if message is not None and why is None:
                await message.ack()
            elif message is not None:
                await message.nack(reason=f"{type(why).__name__}: {why}"[:1000])

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            async with self._lock:
                try:
                    if self._current is not None:
                        await self._current.extend(timedelta(seconds=self._lease))
                except GoQueueClientError as error:
                    logger.warning("could not renew a lease: %s", error)
