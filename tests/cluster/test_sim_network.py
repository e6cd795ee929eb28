"""Calls between simulated nodes end with the process that was asked, even if it was started again meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable

import pytest

from goqueue.base.errors import PeerLost
from goqueue.sim.disk import PowerCut
from goqueue.sim.network import SimNetwork
from goqueue.sim.time import VirtualLoop, run_virtually
from goqueue.wire.node_frames import Hello


class _Host:
    def run(self, work: Awaitable[bytes]) -> asyncio.Future[bytes]:
        return asyncio.ensure_future(work)


def _network() -> SimNetwork:
    return SimNetwork(random.Random(1), lambda *_: None)


def _me() -> Hello:
    return Hello(1, "c", 0, "s", "v")


async def _dies(*_: object) -> bytes:
    raise PowerCut


async def _answers(*_: object) -> bytes:
    return b"yes"


def test_a_process_that_dies_of_a_call_does_not_take_its_caller_with_it() -> None:
    async def story(_: VirtualLoop) -> None:
        network = _network()
        network.open("one", _Host(), 1, {"ask": _dies})
        with pytest.raises(PeerLost):
            await network.link("one", _me(), 1).call("ask", b"", 5.0)

    run_virtually(story)


def test_an_address_of_a_process_that_is_gone_reaches_nobody_after_its_next_start() -> None:
    async def story(_: VirtualLoop) -> None:
        network = _network()
        network.open("before", _Host(), 1, {"ask": _answers})
        link = network.link("before", _me(), 1)
        assert await link.call("ask", b"", 5.0) == b"yes"
        network.close(1)
        network.open("after", _Host(), 1, {"ask": _answers})
        with pytest.raises(PeerLost, match="refuses"):
            await link.call("ask", b"", 5.0)

    run_virtually(story)
