"""Work for a client is done at once where it can be, and given up when the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from goqueue.base.errors import Overloaded
from goqueue.edge.rest.requests import while_connected


def request(receive: Callable[[], Awaitable[Message]]) -> Request:
    return Request({"type": "http", "headers": []}, receive)


async def never() -> Message:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


def test_work_that_waits_for_nothing_makes_no_task() -> None:
    async def work() -> int:
        return len(asyncio.all_tasks())

    async def scenario() -> None:
        assert await while_connected(request(never), work()) == len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


def test_work_that_waits_goes_on_until_it_is_done() -> None:
    async def work(lock: asyncio.Lock, event: asyncio.Event) -> list[int]:
        async with lock:
            seen = [1]
            await asyncio.sleep(0)
            seen.append(2)
            await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.001))
            seen.append(3)
            await event.wait()
        return seen

    async def scenario() -> None:
        lock, event = asyncio.Lock(), asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, event.set)
        assert await while_connected(request(never), work(lock, event)) == [1, 2, 3]
        assert not lock.locked()

    asyncio.run(scenario())


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_error_of_the_work_is_told(steps: int) -> None:
    async def work() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        raise Overloaded("no")

    async def scenario() -> None:
        with pytest.raises(Overloaded):
            await while_connected(request(never), work())

    asyncio.run(scenario())


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_work_is_given_up_when_the_client_goes(steps: int) -> None:
    """Wherever it waits; and it may still wait while it tidies up."""
    told: list[str] = []

    async def work() -> None:
        try:
            for _ in range(steps):
                await asyncio.sleep(0)
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
            told.append("tidied up")
            raise

    async def scenario() -> None:
        gone: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, gone.set_result, {"type": "http.disconnect"})

        async def receive() -> Message:
            return await gone

        with pytest.raises(ClientDisconnect):
            await while_connected(request(receive), work())
        assert told == ["tidied up"] and len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


def test_work_is_given_up_when_its_request_is() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("yes")

    async def scenario() -> None:
        task = asyncio.ensure_future(while_connected(request(never), work()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["yes"]

    asyncio.run(scenario())


class Leaving:
    """A client of the node's own server, which tells when it goes."""

    def __init__(self) -> None:
        self.on_gone: Callable[[], object] | None = None

    def watch(self, on_gone: Callable[[], object] | None) -> None:
        self.on_gone = on_gone

    def go(self) -> None:
        assert self.on_gone is not None
        self.on_gone()

    def request(self) -> Request:
        return Request({"type": "http", "headers": [], "extensions": {"goqueue.watch": self.watch}}, never)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_the_nodes_own_server_tells_when_the_client_goes(steps: int) -> None:
    """No task is made for that, and the request goes on as if nothing had been broken off."""
    told: list[str] = []

    async def work() -> None:
        try:
            for _ in range(steps):
                await asyncio.sleep(0)
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
            told.append(f"tidied up, {len(asyncio.all_tasks())} task")
            raise

    async def scenario() -> None:
        client = Leaving()
        asyncio.get_running_loop().call_later(0.01, client.go)
        with pytest.raises(ClientDisconnect):
            await while_connected(client.request(), work())
        assert told == ["tidied up, 1 task"] and client.on_gone is None
        task = asyncio.current_task()
        assert task is not None and not task.cancelling()
        await asyncio.sleep(0)

    asyncio.run(scenario())


def test_work_under_the_nodes_own_server_is_done_or_fails_or_is_given_up() -> None:
    async def work(error: Exception | None) -> int:
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return 7

    async def scenario() -> None:
        client = Leaving()
        assert await while_connected(client.request(), work(None)) == 7
        with pytest.raises(Overloaded):
            await while_connected(client.request(), work(Overloaded("no")))
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(while_connected(client.request(), _result(waiting)))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert waiting.cancelled() and client.on_gone is None

    asyncio.run(scenario())


async def _result(waiting: asyncio.Future[int]) -> int:
    return await waiting
