"""What must not stop halfway does not, whoever waits for it."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.drive.carry_on import carry_on, to_its_end
from goqueue.sim.time import VirtualLoop, run_virtually


async def work(seen: list[str]) -> str:
    seen.append("begun")
    await asyncio.sleep(10)
    seen.append("done")
    return "result"


def test_work_goes_on_when_its_caller_is_cancelled() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        seen: list[str] = []
        caller = asyncio.ensure_future(carry_on(work(seen)))
        await asyncio.sleep(1)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert seen == ["begun"]
        await asyncio.sleep(10)
        assert seen == ["begun", "done"]
        assert await carry_on(work(seen)) == "result"

    run_virtually(scenario)


def test_a_lock_is_not_given_back_while_the_work_goes_on_however_often_its_caller_is_cancelled() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        lock, seen = asyncio.Lock(), list[str]()

        async def locked() -> str:
            async with lock:
                return await to_its_end(work(seen))

        caller = asyncio.ensure_future(locked())
        for _ in range(3):
            await asyncio.sleep(1)
            caller.cancel()
            await asyncio.sleep(0)
            assert lock.locked()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert seen == ["begun", "done"]
        assert await locked() == "result"

    run_virtually(scenario)
