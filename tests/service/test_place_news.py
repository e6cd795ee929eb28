"""Where groups stand, as one shard tells another."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, cast

from goqueue.base.errors import NotLoaded
from goqueue.base.ids import TopicPartition
from goqueue.service.elsewhere import Elsewhere
from goqueue.service.place_news import Outbox, PlaceOffset
from goqueue.sim.time import VirtualLoop, run_virtually

AT = TopicPartition("t", 0)


class Shards:
    def epoch(self, _: int) -> int:
        return 1


class Alone:
    """All shards are here."""

    shards = Shards()

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    def is_here(self, _: int) -> bool:
        return True

    def serve(self, *_: object) -> None:
        pass

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.tasks.append(task := asyncio.ensure_future(work))
        return task


def test_what_was_put_for_a_topic_that_is_made_again_does_not_take_the_place_of_what_came_since() -> None:
    """The shard that it was for could not hear it for a while."""

    async def scenario(_: VirtualLoop) -> None:
        home, heard, is_loaded = 1, list[int](), False

        async def hear(places: Sequence[PlaceOffset]) -> None:
            if not is_loaded:
                raise NotLoaded("The queue views are not loaded; try again in a moment.")
            heard.extend(one.offset for one in places)

        here = Alone()
        outbox = Outbox(cast(Elsewhere, here), "told", lambda _: 0, lambda _: home, hear)
        outbox.put(PlaceOffset("g", AT, 7))
        await asyncio.sleep(0.1)
        home = 2
        outbox.put(PlaceOffset("g", AT, 0))
        await asyncio.sleep(2)
        is_loaded = True
        await asyncio.gather(*here.tasks)
        assert heard == [0]

    run_virtually(scenario)
