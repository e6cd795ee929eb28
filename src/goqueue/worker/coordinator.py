"""Calls the callbacks of chords. Each partition of the workflows' topic has one coordinator, in one of the workers.

Who coordinates a partition is settled as for any consumer group. That it is only one is made sure by the partition's
transactional id: who takes it over shuts its predecessor out before it reads. A callback and the record that it was
called are one transaction.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

from goqueue.client import AsyncClient, GoQueueClientError
from goqueue.client.member_calls import Joining, heartbeat, join, leave, revoke
from goqueue.client.replies import TopicParts
from goqueue.client.stepping import run_steps_async
from goqueue.client.txn_steps import TxnProducerSteps
from goqueue.worker.calls import decode_record
from goqueue.worker.ids import new_id
from goqueue.worker.plan import Plan
from goqueue.worker.topics import TaskTopics
from goqueue.worker.workflows import Workflows

logger = logging.getLogger("goqueue.worker")

_SESSION_MS: Final = 10_000
_BEAT_SECONDS: Final = 2.0
_PAUSE: Final = 1.0
_PAGE: Final = 1_000
_WAIT_SECONDS: Final = 5.0
_TRANSACTION_TIMEOUT: Final = "30s"
_COMMIT_SECONDS: Final = 10.0


class Coordinators:
    """A worker's share of the partitions."""

    def __init__(self, topics: TaskTopics, client: AsyncClient) -> None:
        self._topics = topics
        self._client = client
        self._member_id = f"goqueue-worker-{new_id()}"
        self._running: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until cancelled; then it leaves."""
        try:
            while True:
                try:
                    await self._stay()
                except GoQueueClientError as error:
                    logger.debug("coordinating workflows: %s", error)
                await self._stop_all()
                await asyncio.sleep(_PAUSE)
        finally:
            await self._stop_all()
            await self._leave()

    async def _stay(self) -> None:
        """In the group, as long as it knows this member."""
        group = self._topics.workflow_group
        joining = Joining(
            group, [self._topics.workflows], "goqueue-worker", self._member_id, session_timeout=_SESSION_MS
        )
        joined = await self._client.perform(join(joining))
        generation, assignment = joined.generation, joined.assignment
        while True:
            self._start(assignment)
            await asyncio.sleep(_BEAT_SECONDS)
            beat = await self._client.perform(heartbeat(group, self._member_id, generation))
            generation = beat.generation
            if beat.revoke:
                await self._stop([one for part in beat.revoke for one in part.partitions])
                beat = await self._client.perform(revoke(group, self._member_id, generation, beat.revoke))
                generation = beat.generation
            assignment = beat.assignment

    def _start(self, assignment: list[TopicParts]) -> None:
        for partition in [one for part in assignment for one in part.partitions]:
            running = self._running.get(partition)
            if running is None or running.done():
                work = ChordCoordinator(self._topics, partition, self._client).run()
                self._running[partition] = asyncio.create_task(work)

    async def _stop(self, partitions: list[int]) -> None:
        tasks = [self._running.pop(one) for one in partitions if one in self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _stop_all(self) -> None:
        await self._stop(list(self._running))

    async def _leave(self) -> None:
        try:
            await self._client.perform(leave(self._topics.workflow_group, self._member_id))
        except GoQueueClientError as error:
            logger.debug("could not leave the coordinators: %s", error)


class ChordCoordinator:
    """One partition: reads its records, and calls what is due."""

    def __init__(self, topics: TaskTopics, partition: int, client: AsyncClient) -> None:
        self._topics = topics
        self._partition = partition
        self._client = client
        self._producer = TxnProducerSteps(f"{topics.workflows}.{partition}", _TRANSACTION_TIMEOUT, time.monotonic)

    async def run(self) -> None:
        """Ends when it was shut out; it is started again if the partition is still this worker's."""
        try:
            await self._coordinate()
        except GoQueueClientError as error:
            logger.debug("coordinating partition %d: %s", self._partition, error)

    async def _coordinate(self) -> None:
        await self._do(self._producer.ready())
        workflows, offset = Workflows(), await self._floor()
        noted, noted_at = offset, time.monotonic()
        is_caught_up = False
        while True:
            page = await self._client.read(
                self._topics.workflows,
                partition=self._partition,
                offset=offset,
                limit=_PAGE,
                timeout=_WAIT_SECONDS if is_caught_up else 0.0,
            )
            for message in page.messages:
                workflows.apply(decode_record(message.value or b""), message.offset)
            is_caught_up = is_caught_up or page.next_offset == offset
            offset = page.next_offset if page.next_offset is not None else offset
            # What follows in the log may say that it was called already.
            if is_caught_up:
                for due in workflows.due():
                    await self._call(due)
            floor = workflows.floor(offset if offset is not None else 0)
            if floor != noted and time.monotonic() - noted_at > _COMMIT_SECONDS:
                noted, noted_at = floor, time.monotonic()
                await self._note(floor)

    async def _call(self, due: Plan) -> None:
        messages = self._topics.messages(due, {})
        await self._do(self._producer.begin())
        await self._do(self._producer.publish(messages))
        await self._do(self._producer.commit())

    async def _floor(self) -> int | None:
        """Where to begin to read: nothing below is needed. None for the start."""
        try:
            group = await self._client.group(self._topics.workflow_group)
        except GoQueueClientError as error:
            if error.code != "unknown-group":
                raise
            return None
        mine = [one.committed for one in group.lag if one.partition == self._partition]
        return mine[0] if mine else None

    async def _note(self, floor: int) -> None:
        moved = {(self._topics.workflows, self._partition): floor}
        await self._do(self._producer.begin())
        await self._do(self._producer.offsets(self._topics.workflow_group, moved))
        await self._do(self._producer.commit())

    async def _do(self, steps: Any) -> Any:
        return await run_steps_async(steps, self._client.perform)
