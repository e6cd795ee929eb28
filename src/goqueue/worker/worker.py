"""A worker: takes calls, runs them, tells how they ended; and stops so that nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from goqueue.client import AsyncClient, GoQueueClientError
from goqueue.client.leases import Leased
from goqueue.client.stepping import run_steps_async
from goqueue.worker.answers import OutcomeAnswers
from goqueue.worker.app import App
from goqueue.worker.coordinator import Coordinators
from goqueue.worker.errors import InvalidOption
from goqueue.worker.holds import Holds
from goqueue.worker.jobs import Job, job_of
from goqueue.worker.pace import Ahead, StartRate
from goqueue.worker.running import Outcome, Runner
from goqueue.worker.threads import ThreadSlots
from goqueue.worker.ticking import Ticker

logger = logging.getLogger("goqueue.worker")

_RUN_LENGTH = 25  # tasks that one after the other run on the loop before others have a turn
_COUNT_SECONDS = 5.0  # how often the workers are counted, among whom rates are shared


class TaskWorker:
    """`run` until `stop`. Up to `concurrency` functions run in threads, and as many async ones on the loop."""

    def __init__(
        self,
        app: App,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int = 8,
        async_concurrency: int | None = None,
        app_path: str | None = None,
    ) -> None:
        if concurrency < 1 or (async_concurrency is not None and async_concurrency < 1):
            raise InvalidOption("concurrency is at least 1.")
        self.app = app
        self.queues = list(queues or app.queues)
        self._topics = [app.topics.queue(name) for name in self.queues]
        if not self._topics:
            raise InvalidOption("The app has no tasks; import the modules that define them.")
        self._threads = concurrency
        self._coroutines = async_concurrency or concurrency
        self._app_path = app_path
        self._is_stopping = asyncio.Event()
        self._must_end = asyncio.Event()
        self.is_ready = asyncio.Event()

    def stop(self) -> None:
        """What runs ends, what has not begun is given back. Called again: what runs is given back too."""
        (self._must_end if self._is_stopping.is_set() else self._is_stopping).set()

    async def run(self) -> None:
        for one in self.app.middleware:
            one.startup()
        try:
            async with AsyncClient(self.app.urls) as client:
                await self._create_topics(client)
                await _Shift(self.app, client, self._topics, self._slots()).run(
                    self.is_ready, self._is_stopping, self._must_end
                )
        finally:
            for one in reversed(self.app.middleware):
                one.shutdown()

    def _slots(self) -> _Slots:
        return _Slots(self._threads, self._coroutines, self._app_path)

    async def _create_topics(self, client: AsyncClient) -> None:
        topics = self.app.topics
        for topic in (*self._topics, topics.results, topics.workflows):
            await run_steps_async(topics.create(topic), client.perform)


class _Slots(msgspec.Struct, frozen=True):
    threads: int
    coroutines: int
    app_path: str | None


class _Shift:
    """All that lives from the start of a worker to its end."""

    def __init__(self, app: App, client: AsyncClient, topics: Sequence[str], slots: _Slots) -> None:
        self._app = app
        self._client = client
        self._slots = slots
        self._runner = Runner(app.middleware)
        self._holds = Holds(client, app.name, topics, app.lease)
        self._answers = OutcomeAnswers(client, app.topics, self._holds, app.result_ttl)
        self._ahead = Ahead(max(slots.threads, slots.coroutines))
        self._pool = ThreadSlots(slots.threads, self._runner, self._ended, slots.app_path)
        self._waiting: asyncio.Queue[Job] = asyncio.Queue()
        self._rated: dict[asyncio.TimerHandle, Job] = {}
        self._rates: dict[str, StartRate] = {}
        self._workers = 1
        self._open = 0  # taken, and not ended
        self._has_room = asyncio.Event()
        self._ended_at = 0.0  # when the last task ended, or the first began

    # --- life -------------------------------------------------------------------------------------------

    async def run(self, is_ready: asyncio.Event, is_stopping: asyncio.Event, must_end: asyncio.Event) -> None:
        ticker = Ticker(self._app, self._client)
        coordinators = Coordinators(self._app.topics, self._client)
        background = [self._answers.run(), self._holds.keep_renewing(), self._count_workers()]
        slots = [asyncio.create_task(self._run_async()) for _ in range(self._slots.coroutines)]
        helpers = [asyncio.create_task(one) for one in background]
        takers = [asyncio.create_task(one) for one in (self._take(is_ready), ticker.run(), coordinators.run())]
        try:
            await _first_of(is_stopping, [*helpers, *takers])
            logger.info("stopping: %d tasks are held", self._open)
            await _cancel(takers)
            await self._give_back_unbegun()
            await self._finish(must_end)
        finally:
            await _cancel([*takers, *slots, *helpers])
            await self._holds.close()
            self._pool.close()

    async def _finish(self, must_end: asyncio.Event) -> None:
        """What runs ends and is told, unless that is taking too long for who stops it."""
        ends = asyncio.create_task(self._all_ended())
        hurry = asyncio.create_task(must_end.wait())
        await asyncio.wait({ends, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not ends.done():
            logger.warning("stopped at once: %d tasks that run are given back", self._open)
        await _cancel([ends, hurry])

    async def _all_ended(self) -> None:
        while self._open:
            self._has_room.clear()
            await self._has_room.wait()
        await self._answers.flushed()

    async def _give_back_unbegun(self) -> None:
        jobs = self._pool.take_back()
        while not self._waiting.empty():
            jobs.append(self._waiting.get_nowait())
        for timer, job in self._rated.items():
            timer.cancel()
            jobs.append(job)
        self._open -= len(jobs)
        await self._holds.give_back([job.message.receipt for job in jobs])

    # --- taking -----------------------------------------------------------------------------------------

    async def _take(self, is_ready: asyncio.Event) -> None:
        while True:
            while not (room := self._ahead.room(self._open)):
                self._has_room.clear()
                await self._has_room.wait()
            is_ready.set()
            messages = await self._holds.take(room)
            if not self._open:
                self._ended_at = asyncio.get_running_loop().time()
            self._open += len(messages)
            for message in messages:
                self._accept(message)

    def _accept(self, message: Leased) -> None:
        job = job_of(message, self._app.topics.queue_of(message.topic), self._app.tasks)
        unfit = job.unfit()
        if unfit is not None:
            self._ended([(job, unfit)])
        elif job.options.rate is not None:
            self._begin_later(job, job.options.rate)
        else:
            self._begin(job)

    def _begin(self, job: Job) -> None:
        assert job.task is not None
        if job.task.function.is_async:
            self._waiting.put_nowait(job)
        else:
            self._pool.put(job)

    def _begin_later(self, job: Job, rate: float) -> None:
        loop = asyncio.get_running_loop()
        wait = self._rates.setdefault(job.call.task, StartRate(rate)).wait(loop.time(), self._workers)

        def begin() -> None:
            del self._rated[timer]
            self._begin(job)

        timer = loop.call_later(wait, begin)
        self._rated[timer] = job

    # --- running ----------------------------------------------------------------------------------------

    async def _run_async(self) -> None:
        """Handlers that never wait must not keep the loop from taking and answering meanwhile."""
        for count in itertools.count(1):
            job = await self._waiting.get()
            assert job.task is not None
            outcome = await self._runner.run_async(job.task, job.call, job.context)
            self._ended([(job, outcome)])
            if count % _RUN_LENGTH == 0:
                await asyncio.sleep(0)

    def _ended(self, ended: list[tuple[Job, Outcome]]) -> None:
        now = asyncio.get_running_loop().time()
        self._ahead.ended(len(ended), now - self._ended_at)
        self._ended_at = now
        self._open -= len(ended)
        self._answers.put(ended)
        self._has_room.set()

    async def _count_workers(self) -> None:
        """Only where a rate has to be shared."""
        while any(task.options.rate is not None for task in self._app.tasks.values()):
            try:
                self._workers = len((await self._client.group(self._app.name)).members) or 1
            except GoQueueClientError as error:
                logger.debug("cannot count the workers: %s", error)
            await asyncio.sleep(_COUNT_SECONDS)
        await asyncio.Event().wait()


async def _first_of(event: asyncio.Event, tasks: Sequence[asyncio.Task[Any]]) -> None:
    """The event; or raises what ended one of the tasks, which do not end by themselves."""
    waiting = asyncio.create_task(event.wait())
    done, _ = await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    for one in done:
        one.result()


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
