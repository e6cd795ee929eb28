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
from goqueue.wire.node_frames import Hello


class SimHost(Protocol):
    """Who can be called: runs work as its own, until it goes down."""

    @property
    def is_up(self) -> bool: ...

    def run(self, work: Awaitable[bytes]) -> asyncio.Future[bytes]: ...


class SimNetwork:
    """`cut` names pairs (from, to) between which nothing gets through."""

    def __init__(self, chance: random.Random, note: Callable[[str, bytes], None]) -> None:
        """`note` is told of every call that arrives."""
        self.note = note
        self.cut: set[tuple[int, int]] = set()
        self.delay_s = (0.0002, 0.002)
        self.loss = 0.0
        self._chance = chance
        self._doors: dict[str, tuple[SimHost, int, Mapping[str, PeerVerb]]] = {}

    def open(self, address: str, host: SimHost, node: int, verbs: Mapping[str, PeerVerb]) -> None:
        self._doors[address] = host, node, verbs

    def link(self, address: str, me: Hello, peer_id: int) -> SimLink:
        return SimLink(self, address, me, peer_id)

    async def pass_on(self, source: int, target: int) -> bool:
        """False if it is lost, after the time it would have taken."""
        await asyncio.sleep(self._chance.uniform(*self.delay_s))
        return (source, target) not in self.cut and self._chance.random() >= self.loss

    def door(self, address: str) -> tuple[SimHost, int, Mapping[str, PeerVerb]] | None:
        found = self._doors.get(address)
        return found if found is not None and found[0].is_up else None


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
        try:
            answer = await self._answered(host, verbs, verb, body)
        finally:
            if not host.is_up:
                raise PeerLost(f"Node {target} went away.")
        if not await self._network.pass_on(target, source):
            await _never()
        if isinstance(answer, GoQueueError):
            raise answer
        return answer

    async def _answered(
        self, host: SimHost, verbs: Mapping[str, PeerVerb], verb: str, body: bytes
    ) -> bytes | GoQueueError:
        found = verbs.get(verb)
        if found is None:
            return NotFound(f"This node knows no verb {verb!r}.")
        work = host.run(found(self._me, body))
        try:
            return await work
        except GoQueueError as error:
            return error
        except asyncio.CancelledError:
            work.cancel()
            raise

    def close(self) -> None:
        """There is nothing to close."""


async def _never() -> None:
    await asyncio.get_running_loop().create_future()
