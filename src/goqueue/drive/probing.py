"""Asks the other nodes whether they are there, several times a second. What it suspects may be wrong: nothing that must
not be lost depends on it, only how soon somebody else leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from goqueue.base.errors import GoQueueError, PeerLost
from goqueue.drive.peers import Peers

PING: Final = "ping"
_EVERY_S: Final = 0.15
_ANSWER_S: Final = 1.0
_LATE_S: Final = 0.2  # behind that time, who asks has stood still: it says nothing of the other
_FAILURES: Final = 2  # in a row


async def answer_ping(_: object, body: bytes) -> bytes:
    return body


class Probing:
    """`changed` is called when somebody else is suspected, or no longer."""

    def __init__(self, peers: Peers, others: Callable[[], set[int]], changed: Callable[[], None]) -> None:
        self.suspected: frozenset[int] = frozenset()
        self._peers = peers
        self._others = others
        self._changed = changed
        self._failures: dict[int, int] = {}
        self._probes: dict[int, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        tasks = [*self._probes.values(), *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self) -> None:
        """One probe of each node at a time."""
        while True:
            others = self._others()
            for node in others - self._probes.keys():
                self._probes[node] = task = asyncio.get_running_loop().create_task(self._probe(node))
                task.add_done_callback(lambda _, node=node: self._probes.pop(node, None))  # type: ignore[misc]
            self._failures = {node: count for node, count in self._failures.items() if node in others}
            self._note()
            await asyncio.sleep(_EVERY_S)

    async def _probe(self, node: int) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self._peers.call(node, PING, b"", _ANSWER_S, lane=PING)
            self._failures.pop(node, None)
        except PeerLost:
            if loop.time() - began <= _ANSWER_S + _LATE_S:
                self._failures[node] = self._failures.get(node, 0) + 1
        except GoQueueError:
            self._failures.pop(node, None)  # it is there, and says no
        self._note()

    def _note(self) -> None:
        suspected = frozenset(node for node, count in self._failures.items() if count >= _FAILURES)
        if suspected != self.suspected:
            self.suspected = suspected
            self._changed()
