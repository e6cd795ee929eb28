"""What is done when a connection ends: all of it, and nobody else waits for the whole."""

from __future__ import annotations

import asyncio
from functools import partial

from goqueue.edge.kafka.calls import ConnectionEnd


def test_others_have_their_turn_between_two_duties() -> None:
    order: list[str] = []

    async def other() -> None:
        while order.count("duty") < 5:
            order.append("other")
            await asyncio.sleep(0)

    async def main() -> None:
        end = ConnectionEnd()
        for number in range(5):
            end.then(number, partial(order.append, "duty"))
        running = asyncio.create_task(other())
        end.over()
        await running

    asyncio.run(main())
    assert order.count("duty") == 5
    assert "duty duty" not in " ".join(order)


def test_what_was_forgotten_meanwhile_is_not_done() -> None:
    done: list[str] = []

    async def main() -> None:
        end = ConnectionEnd()
        end.then("a", lambda: done.append("a"))
        end.then("b", lambda: done.append("b"))
        end.over()
        end.forget("b")
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert done == ["a"]


def test_a_duty_that_fails_keeps_no_other_from_being_done() -> None:
    done: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        end = ConnectionEnd()
        end.then("first", lambda: done.append("first"))
        end.then("bad", lambda: done.remove("missing"))
        end.then("last", lambda: done.append("last"))
        end.over()
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert done == ["first", "last"]
