"""Where calls go and results come from: a broker, or in tests nothing but this process."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

from goqueue.base.limits import MESSAGES_PER_PUBLISH_MAX
from goqueue.client import AsyncClient, Client, GoQueueClientError
from goqueue.client.calls import publish_encoded
from goqueue.client.errors import PartlyStored
from goqueue.client.messages import encode_message
from goqueue.client.stepping import run_steps, run_steps_async
from goqueue.client.steps import Steps
from goqueue.client.txn_calls import TopicMessages
from goqueue.worker.calls import TaskResult
from goqueue.worker.context import outgoing_headers
from goqueue.worker.plan import Plan, TaskSend
from goqueue.worker.results import ResultReader
from goqueue.worker.topics import TaskTopics, message_of
from goqueue.worker.unique import UniqueCalls

T = TypeVar("T")


class TaskPost(msgspec.Struct, frozen=True):
    """A call to send, and when it is due (milliseconds since 1970). With `unique`, only the first call of that key
    within so many seconds is sent."""

    send: TaskSend
    due_ms: int | None = None
    unique: tuple[str, float] | None = None


class Backend(Protocol):
    """What an app needs of a broker."""

    def send(self, posts: Sequence[TaskPost]) -> list[str]:
        """The ids under which the calls are known: those of the first, for calls that are not unique."""

    async def asend(self, posts: Sequence[TaskPost]) -> list[str]: ...

    def start(self, plan: Plan) -> None:
        """A workflow: all of its first calls, or none."""

    async def astart(self, plan: Plan) -> None: ...

    def results(self, ids: Sequence[str], timeout: float | None) -> dict[str, TaskResult]: ...

    async def aresults(self, ids: Sequence[str], timeout: float | None) -> dict[str, TaskResult]: ...


class _LoopState:
    """What belongs to one event loop."""

    def __init__(self, client: AsyncClient, unique: UniqueCalls) -> None:
        self.client = client
        self.unique = unique
        self.turn = asyncio.Lock()  # one unique call at a time


class BrokerBackend:
    """Over HTTP, from threads and from any event loop. Connections are made when they are first needed, and anew in a
    process that was forked."""

    def __init__(self, urls: Sequence[str], topics: TaskTopics, timeout: float) -> None:
        self._urls = urls
        self.topics = topics
        self._timeout = timeout
        self._lock = threading.Lock()
        self._clients: dict[int, Client] = {}  # by process
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState] = weakref.WeakKeyDictionary()
        self._reader = ResultReader(topics.results)
        self._reading = threading.Lock()
        self._unique = UniqueCalls(topics)
        self._sending_unique = threading.Lock()
        self._known: set[str] = set()

    # --- sending ----------------------------------------------------------------------------------------

    def send(self, posts: Sequence[TaskPost]) -> list[str]:
        if any(post.unique is not None for post in posts):
            with self._sending_unique:
                return self._run(self._send_steps(posts, self._unique))
        return self._run(self._send_steps(posts, self._unique))

    async def asend(self, posts: Sequence[TaskPost]) -> list[str]:
        state = self._loop_state
        if any(post.unique is not None for post in posts):
            async with state.turn:
                return await self._arun(self._send_steps(posts, state.unique))
        return await self._arun(self._send_steps(posts, state.unique))

    def start(self, plan: Plan) -> None:
        messages = self._plan_messages(plan)
        self._run(self._ensure(messages))
        with self._client.transaction() as transaction:
            transaction.publish_to(messages)

    async def astart(self, plan: Plan) -> None:
        messages = self._plan_messages(plan)
        await self._arun(self._ensure(messages))
        async with self._async_client.transaction() as transaction:
            await transaction.publish_to(messages)

    def _plan_messages(self, plan: Plan) -> TopicMessages:
        return self.topics.messages(plan, outgoing_headers())

    def _send_steps(self, posts: Sequence[TaskPost], unique: UniqueCalls) -> Steps[list[str]]:
        ids = [post.send.call.id for post in posts]
        by_topic: dict[str, list[bytes]] = {}
        for place, post in enumerate(posts):
            if post.unique is not None:
                yield from self._ensure([self.topics.queue(post.send.queue), self.topics.unique])
                ids[place] = yield from unique.send(post.send, post.due_ms, *post.unique)
            else:
                topic = self.topics.queue(post.send.queue)
                by_topic.setdefault(topic, []).append(
                    encode_message(message_of(post.send, outgoing_headers(), post.due_ms))
                )
        yield from self._ensure(by_topic)
        for topic, encoded in by_topic.items():
            for begin in range(0, len(encoded), MESSAGES_PER_PUBLISH_MAX):
                results = yield publish_encoded(topic, encoded[begin : begin + MESSAGES_PER_PUBLISH_MAX], "all")
                _raise_failures(results)
        return ids

    def _ensure(self, topics: Iterable[str]) -> Steps[None]:
        for topic in topics:
            if topic not in self._known:
                yield from self.topics.create(topic)
                self._known.add(topic)

    # --- results ----------------------------------------------------------------------------------------

    def results(self, ids: Sequence[str], timeout: float | None) -> dict[str, TaskResult]:
        with self._reading:
            self._run(self._ensure([self.topics.results]))
            return self._run(self._reader.wait(ids, timeout))

    async def aresults(self, ids: Sequence[str], timeout: float | None) -> dict[str, TaskResult]:
        """A reader of its own: several may wait in one loop."""
        await self._arun(self._ensure([self.topics.results]))
        return await self._arun(ResultReader(self.topics.results).wait(ids, timeout))

    # --- clients ----------------------------------------------------------------------------------------

    @property
    def _client(self) -> Client:
        with self._lock:
            mine = self._clients.get(os.getpid())
            if mine is None:
                mine = self._clients[os.getpid()] = Client(self._urls, self._timeout)
            return mine

    @property
    def _loop_state(self) -> _LoopState:
        loop = asyncio.get_running_loop()
        found = self._loops.get(loop)
        if found is None:
            found = self._loops[loop] = _LoopState(AsyncClient(self._urls, self._timeout), UniqueCalls(self.topics))
        return found

    @property
    def _async_client(self) -> AsyncClient:
        return self._loop_state.client

    def _run(self, steps: Steps[T]) -> T:
        return run_steps(steps, self._client.perform)

    async def _arun(self, steps: Steps[T]) -> T:
        return await run_steps_async(steps, self._async_client.perform)


def _raise_failures(results: Sequence[object]) -> None:
    if any(isinstance(one, GoQueueClientError) for one in results):
        raise PartlyStored(results)  # type: ignore[arg-type]
