"""Where a shard is led, here or at another node, and how to ask there. A node alone leads everything.

What one shard has done in another goes to whoever leads that one; it is asked again, by whoever asks, until it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, Protocol, TypeVar

from goqueue.base.encoding import decode, encode
from goqueue.base.errors import GoQueueError, NotLoaded
from goqueue.drive.background_tasks import BackgroundTasks
from goqueue.drive.peers import PeerVerb
from goqueue.drive.per_shard import ShardMap
from goqueue.wire.node_frames import Hello

T = TypeVar("T")
Q = TypeVar("Q")

ANSWER_S: Final = 5.0
_AT_ONCE: Final = 64  # calls to one node; more would be refused
_LANE: Final = "effects"  # a link of its own: large answers for clients do not hold it up


class PeerCalls(Protocol):
    """The other nodes."""

    async def call(self, node: int, verb: str, body: bytes, within_s: float, lane: str = ...) -> bytes: ...


class Elsewhere:
    """The port that services have to what other nodes lead."""

    def __init__(self, shards: ShardMap, peers: PeerCalls | None, verbs: dict[str, PeerVerb]) -> None:
        """`verbs` is what other nodes may ask of this one, by name."""
        self.shards = shards
        self._peers = peers
        self._verbs = verbs
        self._tasks = BackgroundTasks("what crosses nodes")
        self._room: dict[int, asyncio.Semaphore] = {}  # for calls to each node

    @property
    def is_alone(self) -> bool:
        return self._peers is None

    def is_here(self, shard: int) -> bool:
        """Whether this node answers for the shard."""
        return self.shards.is_led(shard)

    # --- ask -------------------------------------------------------------------------------------------------

    async def ask(self, shard: int, verb: str, question: object, kind: type[T]) -> T:
        """The answer of the node that leads the shard. `NotLeader` if nobody does, `PeerLost` if it does not answer:
        then it may have done it."""
        return await self.ask_node(self.shards.leader(shard), verb, question, kind)

    async def ask_node(self, node: int, verb: str, question: object, kind: type[T]) -> T:
        if node == self.shards.node or self._peers is None:
            raise NotLoaded("This node is about to lead the shard; try again in a moment.")
        async with self._room.setdefault(node, asyncio.Semaphore(_AT_ONCE)):
            return decode(await self._peers.call(node, verb, encode(question), ANSWER_S, lane=_LANE), kind)

    def leaders(self, among: Iterable[int] | None = None) -> dict[int, set[int]]:
        """The shards of each node that leads any of these; `NotLeader` if one has nobody."""
        found: dict[int, set[int]] = {}
        for shard in self.shards.all() if among is None else among:
            found.setdefault(self.shards.leader(shard), set()).add(shard)
        return found

    # --- answer ----------------------------------------------------------------------------------------------

    def serve(self, verb: str, kind: type[Q], answer: Callable[[Q], Awaitable[object]]) -> None:
        async def served(_: Hello, body: bytes) -> bytes:
            return encode(await answer(decode(body, kind)))

        self._verbs[verb] = served

    # --- in the background -----------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.spawn(work)

    async def stop(self) -> None:
        await self._tasks.stop()


async def together(parts: Iterable[Awaitable[T]]) -> list[T]:
    """Side by side; when all are over, the first error is raised."""
    found = await asyncio.gather(*parts, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException) and not isinstance(one, GoQueueError):
            raise one
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return [one for one in found if not isinstance(one, BaseException)]
