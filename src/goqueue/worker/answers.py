"""Tells the broker how tasks ended, for all that ended since the last time together.

A plain task's result is stored, then its message acked. What a task of a workflow leads to is one transaction with its
ack: a step is sent, and a member counted, exactly once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from goqueue.base.limits import TASK_TRACEBACK_CHARS_MAX
from goqueue.client import AsyncClient, ConnectionFailed, GoQueueClientError, PartlyAnswered
from goqueue.client.answer_calls import ack, nack, reject
from goqueue.client.calls import publish_encoded
from goqueue.client.messages import encode_message
from goqueue.worker import plan
from goqueue.worker.calls import TaskResult
from goqueue.worker.holds import Holds, may_pass
from goqueue.worker.jobs import Job
from goqueue.worker.running import HandlerFailed, HandlerReturned, Outcome
from goqueue.worker.topics import TaskTopics, result_message

logger = logging.getLogger("goqueue.worker")

_RESULT_BYTES: Final = 4_000_000  # of one request, about
_PAUSE_FIRST: Final = 0.05
_PAUSE_MAX: Final = 2.0

Tell: TypeAlias = Callable[[list[str]], Awaitable[object]]  # of these receipts


class OutcomeAnswers:
    """`put` what ended; `run` tells of it until it is cancelled."""

    def __init__(self, client: AsyncClient, topics: TaskTopics, holds: Holds, result_ttl: float) -> None:
        self._client = client
        self._topics = topics
        self._holds = holds
        self._result_ttl = result_ttl
        self._transaction = client.transaction()
        self._ended: list[tuple[Job, Outcome]] = []
        self._late = set[str]()  # receipts that are told again, beside what comes
        self._telling_again = set[asyncio.Future[None]]()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, ended: Sequence[tuple[Job, Outcome]]) -> None:
        self._ended.extend(ended)
        self._idle.clear()
        self._news.set()

    async def flushed(self) -> None:
        """Everything that ended so far is told."""
        await self._idle.wait()
        while self._telling_again:
            await asyncio.wait(self._telling_again)

    async def run(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                while self._ended:
                    ended, self._ended = self._ended, []
                    await self._tell(ended)
                self._idle.set()
        finally:
            for again in self._telling_again:
                again.cancel()

    async def _tell(self, ended: list[tuple[Job, Outcome]]) -> None:
        workflow = [(job, outcome) for job, outcome in ended if job.is_workflow and _is_end(job, outcome)]
        plain = [(job, outcome) for job, outcome in ended if not (job.is_workflow and _is_end(job, outcome))]
        if plain:
            await self._tell_plain(plain)
        if workflow:
            await self._tell_workflow(workflow)
        told = [job.message.receipt for job, _ in ended if job.message.receipt not in self._late]
        await self._holds.answered(told)

    # --- plain tasks ------------------------------------------------------------------------------------

    async def _tell_plain(self, ended: list[tuple[Job, Outcome]]) -> None:
        ends = [(job, outcome) for job, outcome in ended if _is_end(job, outcome)]
        await self._store_results([self._result(*one) for one in ends if one[0].options.results])
        done = [job.message.receipt for job, outcome in ends if isinstance(outcome, HandlerReturned)]
        if done:
            await self._persist(lambda left: self._client.perform(ack(left)), done)
        for job, outcome in ended:
            if isinstance(outcome, HandlerFailed):
                await self._tell_failure(job, outcome)

    async def _tell_failure(self, job: Job, failed: HandlerFailed) -> None:
        receipts = [job.message.receipt]
        if job.is_last_try(failed):
            logger.error("task %s %s goes to the dead letters: %s", job.call.task, job.call.id, failed.message)
            await self._persist(lambda left: self._client.perform(reject(left, reason_of(failed))), receipts)
            return
        delay = failed.delay if failed.delay is not None else job.options.delay(job.message.failures + 1)
        text = f"{failed.kind}: {failed.message}"
        logger.warning("task %s %s failed, again in %.1f s: %s", job.call.task, job.call.id, delay, text)
        await self._persist(lambda left: self._client.perform(nack(left, round(delay * 1000), text[:1000])), receipts)

    def _result(self, job: Job, outcome: Outcome) -> TaskResult:
        ttl = job.options.result_ttl
        expires = 0 if ttl is None else round((time.time() + ttl) * 1000)
        if isinstance(outcome, HandlerReturned):
            return TaskResult(job.call.id, outcome.value, expires=expires)
        told = (outcome.kind, outcome.message, outcome.traceback)
        return TaskResult(job.call.id, msgspec.Raw(b"null"), *told, expires)

    async def _store_results(self, results: list[TaskResult]) -> None:
        batch: list[bytes] = []
        size = 0
        for result in results:
            encoded = encode_message(result_message(result))
            batch.append(encoded)
            size += len(encoded)
            if size > _RESULT_BYTES:
                await self._publish_results(batch)
                batch, size = [], 0
        if batch:
            await self._publish_results(batch)

    async def _publish_results(self, batch: list[bytes]) -> None:
        await self._persist(lambda _: self._client.perform(publish_encoded(self._topics.results, batch, "all")), ())

    # --- workflows --------------------------------------------------------------------------------------

    async def _tell_workflow(self, ended: list[tuple[Job, Outcome]]) -> None:
        """All in one transaction; if that cannot be, each in its own."""
        try:
            await self._commit(ended)
        except GoQueueClientError as error:
            if len(ended) == 1:
                logger.warning("task %s comes again, its end could not be told: %s", ended[0][0].call.id, error)
                return
            for one in ended:
                await self._tell_workflow([one])

    async def _commit(self, ended: list[tuple[Job, Outcome]]) -> None:
        messages: dict[str, list[Any]] = {}
        for job, outcome in ended:
            headers = {} if job.context.traceparent is None else {"traceparent": job.context.traceparent}
            for topic, found in self._topics.messages(self._plan(job, outcome), headers).items():
                messages.setdefault(topic, []).extend(found)
        done = [job.message.receipt for job, outcome in ended if isinstance(outcome, HandlerReturned)]
        async with self._transaction as transaction:
            if done:
                await transaction.ack(*done)
            for job, outcome in ended:
                if isinstance(outcome, HandlerFailed):
                    logger.error("task %s %s goes to the dead letters: %s", job.call.task, job.call.id, outcome.message)
                    await transaction.reject(job.message.receipt, reason=reason_of(outcome))
            if messages:
                await transaction.publish_to(messages)

    def _plan(self, job: Job, outcome: Outcome) -> plan.Plan:
        if isinstance(outcome, HandlerReturned):
            found = plan.succeeded(job.call, outcome.value)
        else:
            found = plan.failed(job.call, outcome.kind, outcome.message)
        results = [*found.results, self._result(job, outcome)] if job.options.results else found.results
        return msgspec.structs.replace(found, results=results)

    # --- a broker that is away --------------------------------------------------------------------------

    async def _persist(self, tell: Tell, receipts: Sequence[str]) -> None:
        """Until it is heard. What was refused is said, and left to the lease. Receipts of which a broker that is there
        knows nothing for the moment, as those of a partition without a leader, hold up no others."""
        left = await self._told(tell, list(receipts))
        if left:
            self._late.update(left)
            again = asyncio.ensure_future(self._tell_again(tell, left))
            self._telling_again.add(again)
            again.add_done_callback(self._telling_again.discard)

    async def _tell_again(self, tell: Tell, receipts: list[str]) -> None:
        left, attempt = receipts, 0
        while left:
            attempt += 1
            await asyncio.sleep(_pause(attempt))
            before, left = left, await self._told(tell, left)
            done = set(before).difference(left)
            self._late -= done
            await self._holds.answered(sorted(done))

    async def _told(self, tell: Tell, receipts: list[str]) -> list[str]:
        """Returns when the broker answered, with those of the receipts that are to be told again."""
        attempt = 0
        while True:
            try:
                await tell(receipts)
                return []
            except PartlyAnswered as error:
                logger.info("%s", error)
                return [receipt for receipt, why in error.failures.items() if may_pass(why)]
            except GoQueueClientError as error:
                if not may_pass(error):
                    logger.log(logging.INFO if error.code == "stale-receipt" else logging.ERROR, "%s", error)
                    return []
                if receipts and not isinstance(error, ConnectionFailed):
                    return receipts
            attempt += 1
            await asyncio.sleep(_pause(attempt))


def _pause(attempt: int) -> float:
    return min(_PAUSE_MAX, _PAUSE_FIRST * 2.0 ** min(attempt, 10))


def _is_end(job: Job, outcome: Outcome) -> bool:
    """Whether it is over with the task: nothing is tried again."""
    return isinstance(outcome, HandlerReturned) or job.is_last_try(outcome)


def reason_of(failed: HandlerFailed) -> str:
    """What stands in the dead letter: the traceback's end, or what there is instead of one."""
    return (failed.traceback or f"{failed.kind}: {failed.message}")[-TASK_TRACEBACK_CHARS_MAX:]
