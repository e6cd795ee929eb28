"""Whom a node suspects: who does not answer, unless the node itself stood still meanwhile."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from goqueue.base.errors import PeerLost
from goqueue.drive.peers import Peers
from goqueue.drive.probing import Probing
from goqueue.sim.time import VirtualLoop, run_virtually


class _Peers:
    """Others that never answer; it is noticed after so long."""

    def __init__(self, noticed_s: float) -> None:
        self._noticed_s = noticed_s
        self.asked = 0

    async def call(self, node: int, verb: str, body: bytes, within_s: float, lane: str) -> bytes:
        self.asked += 1
        await asyncio.sleep(self._noticed_s)
        raise PeerLost("It did not answer.")


@pytest.mark.parametrize(("noticed_s", "suspected"), [(0.001, {1, 2}), (1.0, {1, 2}), (3.0, set())])
def test_who_does_not_answer_is_suspected_by_who_could_have_heard_it(noticed_s: float, suspected: set[int]) -> None:
    async def scenario(loop: VirtualLoop) -> None:
        peers = _Peers(noticed_s)
        probing = Probing(cast(Peers, peers), lambda: {1, 2}, lambda: None)
        probing.start()
        await asyncio.sleep(20)
        assert probing.suspected == suspected and peers.asked >= 10
        await probing.stop()

    run_virtually(scenario)
