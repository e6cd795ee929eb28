"""How much tenants have at this node, told to the other nodes, and what those told.

Nodes ask each other once a second, and only while a tenant has such limits; no request waits for it. So limits of a
tenant are of the whole cluster, but for what several nodes let in within the same second.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from goqueue.base.clock import SteadyClock
from goqueue.base.encoding import decode, encode
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis
from goqueue.base.quotas import CONNECTIONS, DELAYED, GROUPS, IN_FLIGHT, STORAGE
from goqueue.base.tenants import tenant_of
from goqueue.core.delivery.states import MessageState
from goqueue.drive.cluster_member import ClusterMember
from goqueue.drive.repeating import Repeating
from goqueue.drive.topic_table import TopicTable
from goqueue.service.quotas import ClientQuotas, Held
from goqueue.service.sessions import Sessions
from goqueue.service.shard_loading import ShardBooks
from goqueue.wire.node_frames import Hello

HELD: Final = "tenants-hold"
_ASK_S: Final = 1.0
_ANSWER_S: Final = 2.0
_HOLDS_MS: Final = 500  # a count is told again for so long, and longer where there is much to look at
_COUNTED_PER_MS: Final = 50

_Named: TypeAlias = Iterable[tuple[str, int]]  # how much of something there is, by its name


class TenantHoldings:
    """Of a node in a cluster."""

    def __init__(
        self,
        quotas: ClientQuotas,
        sessions: Sessions,
        table: TopicTable,
        books: ShardBooks,
        member: ClusterMember,
        clock: SteadyClock,
    ) -> None:
        self._quotas = quotas
        self._sessions = sessions
        self._table = table
        self._books = books
        self._member = member
        self._clock = clock
        self._counts: Mapping[str, Callable[[], _Named]] = {
            STORAGE: self._stored,
            GROUPS: self._groups,
            DELAYED: self._delayed,
            IN_FLIGHT: self._in_flight,
        }
        self._told: dict[str, tuple[Millis, dict[str, int]]] = {}  # until when that holds
        self._asking = Repeating(_ASK_S, self._ask)
        member.verbs[HELD] = self._answer

    def start(self) -> None:
        self._asking.start()

    async def stop(self) -> None:
        await self._asking.stop()

    # --- the others ------------------------------------------------------------------------------------------

    async def _ask(self) -> None:
        """Whoever does not answer is asked again; what it told last holds for a while."""
        wanted = self._quotas.limits_of_tenants
        if wanted:
            await asyncio.gather(*(self._ask_one(node, encode(sorted(wanted))) for node in self._member.others()))

    async def _ask_one(self, node: int, body: bytes) -> None:
        try:
            found = decode(await self._member.peers.call(node, HELD, body, _ANSWER_S), Held)
        except GoQueueError:
            return
        self._quotas.heard(node, found)

    # --- here ------------------------------------------------------------------------------------------------

    async def _answer(self, by: Hello, body: bytes) -> bytes:
        return encode({limit: self._count(limit) for limit in decode(body, list[str])})

    def _count(self, limit: str) -> dict[str, int]:
        """By tenant."""
        if limit == CONNECTIONS:
            return dict(self._sessions.tenants)
        now = self._clock.monotonic_ms()
        until, found = self._told.get(limit, (now, {}))
        if now >= until and limit in self._counts:
            named, found = list(self._counts[limit]()), Counter[str]()
            for name, count in named:
                found[tenant_of(name)] += count
            found.pop("", None)
            self._told[limit] = now + _HOLDS_MS + len(named) // _COUNTED_PER_MS, found
        return found

    def _stored(self) -> _Named:
        return ((topic.name, sum(one.size_bytes for one in topic.partitions)) for topic in self._table.all())

    def _groups(self) -> _Named:
        return ((one.group, 1) for host in self._books.groups if host.is_loaded for one in host.machine.list_groups())

    def _delayed(self) -> _Named:
        pending = (one for schedule in self._books.schedules for one in schedule.pending.items())
        return ((self._table.name_of(topic) or "", count) for topic, count in pending)

    def _in_flight(self) -> _Named:
        views = (one for runner in self._books.views if runner.is_loaded for one in runner.views.values())
        return ((one.view.group, one.count(MessageState.LEASED)) for one in views)
