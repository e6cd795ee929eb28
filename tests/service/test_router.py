"""The router, by itself."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.errors import PeerLost
from goqueue.base.metadata import Change, Entry
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import NodeRecord, encode
from goqueue.drive.per_shard import ShardMap
from goqueue.service.router import Router
from goqueue.sim.time import VirtualLoop, run_virtually


def change(revision: int) -> Change:
    return Change(revision, [Entry("slots", "", revision, revision)])


class Answering:
    """What other nodes ask of it."""

    async def ping(self) -> int:
        return 1


class CallsOf:
    """Every call goes to one router."""

    def __init__(self) -> None:
        self.asked: Router | None = None

    async def call(self, node: int, verb: str, body: bytes, within_s: float, lane: str = "calls") -> bytes:
        assert self.asked is not None
        return await self.asked.carry_out(None, body)


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


def test_who_started_after_the_store_was_set_back_is_not_asked_to_catch_up_with_before() -> None:
    async def scenario(loop: VirtualLoop) -> None:
        calls, image = CallsOf(), Image()
        image.apply(Change(1, [Entry("nodes/1", encode(NodeRecord("", "1.1")), 1, 1)]))
        old, calls.asked = Router(ShardMap(image), calls), Router(ShardMap(Image()), NoCalls())
        calls.asked.serve(Answering(), ["ping"])
        for revision in (1_000, 900):
            old.metadata_changed(change(revision))
        calls.asked.metadata_changed(change(900))
        began = loop.time()
        assert await old.ask(1, Answering, "ping") == 1
        assert loop.time() - began < 1

    run_virtually(scenario)
