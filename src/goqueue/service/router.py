"""Verbs carried out at the node that leads what they are about, here or elsewhere.

Who leads is read from the image of the metadata. A node that does not lead any more, or is still loading, says so; then
the router waits for the image to change and asks again, until the caller's time is over. What may have been done by a
node that does not answer is asked for again only if asking twice is as good as asking once.

Whether the caller may was asked where the caller came in, and is not asked again.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from goqueue.base.encoding import decode
from goqueue.base.errors import GoQueueError, LeaderChanged, NotFound, NotLeader, NotLoaded, PeerLost, PeerOutOfReach
from goqueue.base.limits import ROUTED_S
from goqueue.base.metadata import Change, Revision
from goqueue.core.cluster.records import NOBODY, SHARDS
from goqueue.drive.per_shard import ShardMap
from goqueue.service.call_codec import PeerCall, codec_of, encode_answer, encode_call

DO: Final = "do"  # what a node is asked with over the port between nodes
_CATCH_UP_S: Final = 2.0
_PAUSE_S: Final = 0.01
_PAUSE_S_MAX: Final = 0.2
_WAIT_LANES: Final = 8  # connections to a node that long polls share

T = TypeVar("T")
Find = Callable[[], int]  # the node that leads now; may raise `NotLeader`


class NodeCalls(Protocol):
    """Calls to other nodes, as `drive/peers.py` has them."""

    async def call(self, node: int, verb: str, body: bytes, within_s: float, lane: str = "calls") -> bytes: ...


def may_pass(error: GoQueueError, repeatable: bool) -> bool:
    """Whether the same may work in a moment, and may be asked again."""
    if isinstance(error, LeaderChanged) or (isinstance(error, PeerLost) and not isinstance(error, PeerOutOfReach)):
        return repeatable
    return isinstance(error, NotLeader | NotLoaded | PeerOutOfReach)


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """All of them at once; if one fails the others are broken off."""
    tasks = [asyncio.ensure_future(one) for one in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


class RetryTime:
    """How long a caller waits in all, and the pauses until something is asked again."""

    def __init__(self, within_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + within_s
        self._pause_s = _PAUSE_S

    @property
    def left_s(self) -> float:
        return max(0.0, self._deadline - self._loop.time())

    async def pause(self, changed: asyncio.Future[None]) -> None:
        """Until the image changes, but not long: a node that loads says nothing when it is done."""
        done, _ = await asyncio.wait([changed], timeout=min(self._pause_s, self.left_s))
        if not done:
            self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)


class Router:
    """One of a node."""

    def __init__(self, shards: ShardMap, calls: NodeCalls) -> None:
        self.shards = shards
        self._calls = calls
        self._heard_to: Revision = 0  # the last write of the metadata that this node heard of
        self._changed: asyncio.Future[None] | None = None
        self._moved: asyncio.Future[None] | None = None
        self._services: dict[str, tuple[Any, frozenset[str]]] = {}
        self._under_way: dict[asyncio.Timeout, tuple[Find, int]] = {}
        self._waits = 0

    # --- the side that is asked ------------------------------------------------------------------------------

    def serve(self, service: Any, verbs: Iterable[str]) -> None:
        """Other nodes may ask these of the service. Each is encoded by its types, so all of them are looked at now."""
        chosen = frozenset(verbs)
        for verb in chosen:
            codec_of(type(service), verb)
        self._services[type(service).__name__] = service, chosen

    async def carry_out(self, _: object, body: bytes) -> bytes:
        """What another node asks, once this node knows all that the other did."""
        call = decode(body, PeerCall)
        service, verbs = self._services.get(call.service, (None, frozenset[str]()))
        if service is None or call.verb not in verbs:
            raise NotFound(f"This node knows no verb {call.service[:60]}.{call.verb[:60]}.")
        if call.revision > self._heard_to:
            await self._catch_up(call.revision)
        args = codec_of(type(service), call.verb).decode_args(bytes(call.args))
        return encode_answer(await _done(getattr(service, call.verb)(**args)))

    async def _catch_up(self, revision: Revision) -> None:
        """Until this node has heard of what the caller knew; not for ever, since it may have been overtaken."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_S):
                while self._heard_to < revision:
                    await asyncio.shield(self.changed)

    def metadata_changed(self, change: Change) -> None:
        """Who waits for it asks again; and so does who waits for a node that no longer leads. A store that was set back
        to a backup counts from there on."""
        before = self._heard_to if change.revision >= self._heard_to else 0
        self._heard_to = max([before, *(entry.modified for entry in change.puts)])
        changed, self._changed = self._changed, None
        _tell(changed)
        if any(entry.key.startswith(SHARDS) for entry in change.puts):
            self.wake()
        for bound, (find, node) in list(self._under_way.items()):
            if not bound.expired() and not _is_still(find, node):
                bound.reschedule(0)

    def wake(self) -> None:
        """Who waits at several nodes looks again."""
        moved, self._moved = self._moved, None
        _tell(moved)

    # --- the side that asks ----------------------------------------------------------------------------------

    async def ask(
        self,
        node: int,
        service: type,
        verb: str,
        args: Sequence[Any] = (),
        named: Mapping[str, Any] = {},
        within_s: float = ROUTED_S,
    ) -> Any:
        """One try, here or at another node."""
        if node == self.shards.node:
            return await _done(getattr(self._services[service.__name__][0], verb)(*args, **named))
        body = encode_call(self._heard_to, service, verb, args, named)
        calling = self._calls.call(node, DO, body, within_s, self._lane(within_s))
        answer = await self.while_leading(lambda: self._living(node), node, calling)
        return codec_of(service, verb).decode_answer(answer)

    def _living(self, node: int) -> int:
        """The node, unless it is known to be gone."""
        return node if node in self.shards.nodes() else NOBODY

    def _lane(self, within_s: float) -> str:
        """What waits for news holds up nothing else, and few of these share a connection."""
        if within_s <= ROUTED_S:
            return "calls"
        self._waits = (self._waits + 1) % _WAIT_LANES
        return f"waits-{self._waits}"

    async def ask_leader(
        self,
        find: Find,
        service: type,
        verb: str,
        args: Sequence[Any] = (),
        named: Mapping[str, Any] = {},
        within_s: float = ROUTED_S,
        repeatable: bool = True,
    ) -> Any:
        """Of whoever leads, as long as there is time."""

        async def once(left_s: float) -> Any:
            node = find()
            asking = self.ask(node, service, verb, args, named, left_s)
            return await asking if node == self.shards.node else await self.while_leading(find, node, asking)

        return await self.persist(once, within_s, repeatable)

    async def ask_all(
        self, nodes: Callable[[], Iterable[int]], service: type, verb: str, args: Sequence[Any] = ()
    ) -> list[Any]:
        """Of several nodes at once; again of all if one of them does not lead any more."""

        async def ask(node: int, left_s: float) -> Any:
            asking = self.ask(node, service, verb, args, {}, left_s)
            if node == self.shards.node:
                return await asking
            return await self.while_leading(lambda: node if node in nodes() else NOBODY, node, asking)

        async def once(left_s: float) -> list[Any]:
            return await together(ask(node, left_s) for node in nodes())

        return await self.persist(once, ROUTED_S)

    async def persist(self, attempt: Callable[[float], Awaitable[T]], within_s: float, repeatable: bool = True) -> T:
        """Tries until it works, fails for good, or the time is over. An attempt is told how much is left."""
        time = RetryTime(within_s)
        while True:
            changed = self.changed
            try:
                return await attempt(time.left_s)
            except GoQueueError as error:
                if not may_pass(error, repeatable) or not time.left_s:
                    raise
            await time.pause(changed)

    @property
    def changed(self) -> asyncio.Future[None]:
        """Done with the next change of the image. Shared: wait for it, never cancel it."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed

    @property
    def moved(self) -> asyncio.Future[None]:
        """Done with the next change of who leads or holds a shard."""
        if self._moved is None:
            self._moved = asyncio.get_running_loop().create_future()
        return self._moved

    async def while_leading(self, find: Find, node: int, call: Awaitable[T]) -> T:
        """A node that stopped leading may be gone without a word: then its answer is not waited for."""
        bound = asyncio.timeout(None)
        try:
            async with bound:
                self._under_way[bound] = find, node
                return await call
        except TimeoutError:
            raise PeerLost(f"Node {node} leads no more.") from None
        finally:
            self._under_way.pop(bound, None)


async def _done(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _tell(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


def _is_still(find: Find, node: int) -> bool:
    try:
        return find() == node
    except NotLeader:
        return False
