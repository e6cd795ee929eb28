"""Sends the calls of cron lines: every worker tries each tick, and the broker takes one of them.

A tick is a batch of a staged set whose owner is the task. Batches that were committed once are not committed again.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from goqueue.client import AsyncClient, ConnectionFailed, GoQueueClientError, StagedWriterId
from goqueue.client.txn_calls import publish_staged
from goqueue.worker.calls import TaskCall
from goqueue.worker.cron import CronEntry
from goqueue.worker.ids import new_id
from goqueue.worker.plan import TaskSend
from goqueue.worker.topics import message_of

if TYPE_CHECKING:
    from goqueue.worker.app import App

logger = logging.getLogger("goqueue.worker")

_TRY_SECONDS: Final = 60.0  # how long a tick is tried while the broker is away
_PAUSE: Final = 0.5
_SLEEP_SECONDS_MAX: Final = 60.0  # the clock may be set meanwhile
_STAGE_SECONDS: Final = 60.0


class Ticker:
    """The cron lines of an app."""

    def __init__(self, app: App, client: AsyncClient) -> None:
        self._app = app
        self._client = client
        self._name = new_id()

    async def run(self) -> None:
        """For ever."""
        entries = self._app.cron_entries
        if not entries:
            await asyncio.Event().wait()
        await asyncio.gather(*(self._follow(entry) for entry in entries))

    async def _follow(self, entry: CronEntry) -> None:
        tick = entry.after(datetime.now(UTC))
        while True:
            wait = (tick - datetime.now(UTC)).total_seconds()
            if wait > 0:
                await asyncio.sleep(min(wait, _SLEEP_SECONDS_MAX))
                continue
            await self._send_patiently(entry, tick)
            tick = entry.after(max(tick, datetime.now(UTC)))

    async def _send_patiently(self, entry: CronEntry, tick: datetime) -> None:
        try:
            async with asyncio.timeout(_TRY_SECONDS):
                is_sent = await self._send(entry, tick)
                while not is_sent:
                    await asyncio.sleep(_PAUSE)
                    is_sent = await self._send(entry, tick)
        except TimeoutError:
            logger.error("the tick of %s at %s was not sent: the broker is away", entry.task, tick)

    async def _send(self, entry: CronEntry, tick: datetime) -> bool:
        """Whether somebody has sent it. Another worker may have been faster, before this one or in the middle."""
        owner, batch = f"{self._app.name}.cron/{entry.task}", int(tick.timestamp())
        try:
            writer = await self._client.stage(owner, batch, self._name, timeout_s=_STAGE_SECONDS)
            await self._write(writer, entry)
            await self._client.commit_staged(owner, batch, [writer])
        except GoQueueClientError as error:
            is_passing = isinstance(error, ConnectionFailed) or error.status in (409, 503)
            logger.log(logging.DEBUG if is_passing else logging.ERROR, "tick of %s: %s", entry.task, error)
            return not is_passing
        return True

    async def _write(self, writer: StagedWriterId, entry: CronEntry) -> None:
        options = self._app.tasks[entry.task].options
        send = TaskSend(options.queue, TaskCall(new_id(), entry.task), options.priority)
        topic = self._app.topics.queue(options.queue)
        await self._client.perform(publish_staged(writer, {topic: [message_of(send, {})]}))
