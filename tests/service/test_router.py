"""The router, by itself."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.errors import PeerLost
from goqueue.base.metadata import Change
from goqueue.core.cluster.image import Image
from goqueue.drive.per_shard import ShardMap
from goqueue.service.router import Router
from goqueue.sim.time import VirtualLoop, run_virtually


class NoCalls:
    """Nobody is called."""

    async def call(self, node: int, verb: str, body: bytes, within_s: float, lane: str = "calls") -> bytes:
        raise PeerLost("not here")


def test_changes_while_a_call_is_being_given_up_are_heard_of() -> None:
    """A call takes a while to end. Nobody who hears of the metadata may fail because of it."""

    async def slow_to_end() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(1)

    async def scenario(loop: VirtualLoop) -> None:
        router, leader = Router(ShardMap(Image()), NoCalls()), 1
        asked = loop.create_task(router.while_leading(lambda: leader, 1, slow_to_end()))
        await asyncio.sleep(1)
        leader = 2
        for revision in range(1, 4):
            router.metadata_changed(Change(revision))
            await asyncio.sleep(0.1)
        with pytest.raises(PeerLost, match="leads no more"):
            await asked

    run_virtually(scenario)
