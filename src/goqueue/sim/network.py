"""Calls between simulated nodes: late, lost, cut off in one direction or both.

What is lost is noticed by the caller's deadline alone; a node that is down refuses at once, as a machine does whose
process is gone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from goqueue.base.errors import GoQueueError, NotFound, PeerLost
from goqueue.drive.peers import PeerVerb
from goqueue.sim.disk import PowerCut
from goqueue.wire.node_frames import Hello


class SimHost(Protocol):
    """Who can be called: runs work as its own, until it goes down."""

    def run(self, work: Awaitable[bytes]) -> asyncio.Future[bytes]: ...


class SimNetwork:
    """`cut` names pairs (from, to) between which nothing gets through."""

    def __init__(self, chance: random.Random, note: Callable[[str, bytes], None]) -> None:
        """`note` is told of every call that arrives. So is `on_call`; `on_answer` gets what it said, and the answer."""
        self.note = note
        self.on_call: Callable[[int, int, str, bytes], frozenset[int]] = lambda *_: frozenset()
        self.on_answer: Callable[[frozenset[int], bytes], None] = lambda *_: None
        self.cut: set[tuple[int, int]] = set()
        self.delay_s = (0.0002, 0.002)
        self.loss = 0.0
        self._chance = chance
        self._doors: dict[str, tuple[SimHost, int, Mapping[str, PeerVerb]]] = {}

    def open(self, address: str, host: SimHost, node: int, verbs: Mapping[str, PeerVerb]) -> None:
        self._doors[address] = host, node, verbs

    def close(self, node: int) -> None:
        """Its process is gone; the next one opens another door."""
        self._doors = {address: door for address, door in self._doors.items() if door[1] != node}

    def link(self, address: str, me: Hello, peer_id: int) -> SimLink:
        return SimLink(self, address, me, peer_id)

    async def pass_on(self, source: int, target: int) -> bool:
        """False if it is lost, after the time it would have taken."""
        await asyncio.sleep(self._chance.uniform(*self.delay_s))
        return (source, target) not in self.cut and self._chance.random() >= self.loss

    def door(self, address: str) -> tuple[SimHost, int, Mapping[str, PeerVerb]] | None:
        return self._doors.get(address)


class SimLink:
    """From one node to an address."""

    def __init__(self, network: SimNetwork, address: str, me: Hello, peer_id: int) -> None:
        self._network = network
        self._address = address
        self._me = me
        self._peer_id = peer_id

    async def call(self, verb: str, body: bytes, within_s: float) -> bytes:
        try:
            async with asyncio.timeout(within_s):
                return await self._call(verb, body)
        except TimeoutError:
            raise PeerLost(f"Node {self._peer_id} did not answer {verb} within {within_s:g} s.") from None

    async def _call(self, verb: str, body: bytes) -> bytes:
        source, target = self._me.node_id, self._peer_id
        if not await self._network.pass_on(source, target):
            await _never()
        door = self._network.door(self._address)
        if door is None:
            raise PeerLost(f"Node {target} refuses connections.")
        host, _, verbs = door
        self._network.note(f"{source} to {target}: {verb}", body)
        seen = self._network.on_call(source, target, verb, body)
        answer = await self._answered(host, verbs, verb, body)
        if answer is None or self._network.door(self._address) is not door:  # it may have been started again since
            raise PeerLost(f"Node {target} went away.")
        if isinstance(answer, bytes):
            self._network.on_answer(seen, answer)
        if not await self._network.pass_on(target, source):
            await _never()
        if isinstance(answer, GoQueueError):
            raise answer
        return answer

    async def _answered(
        self, host: SimHost, verbs: Mapping[str, PeerVerb], verb: str, body: bytes
    ) -> bytes | GoQueueError | None:
        """None if the process ended meanwhile."""
        found = verbs.get(verb)
        if found is None:
            return NotFound(f"This node knows no verb {verb!r}.")
        work = host.run(found(self._me, body))
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            work.cancel()
            raise
        try:
            return work.result()
        except GoQueueError as error:
            return error
        except (asyncio.CancelledError, PowerCut):
            return None

    def close(self) -> None:
        """There is nothing to close."""


async def _never() -> None:
    await asyncio.get_running_loop().create_future()
