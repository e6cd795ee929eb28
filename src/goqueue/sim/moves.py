"""Shards of a simulated cluster that move to other nodes, and nodes that leave and join."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from goqueue.api.cluster import MoveIn
from goqueue.base.errors import GoQueueError
from goqueue.broker import Broker
from goqueue.core.cluster.records import NODES, SHARDS, ShardRecord, decode
from goqueue.service.cluster_view import ClusterView
from goqueue.service.reassignment import Reassignments
from goqueue.sim.cluster import SimCluster, SimNode

_LOOK_S: Final = 0.2
_DRAIN_S: Final = 30.0
_GONE_S: Final = 6.0


class SimMoves:
    """What an operator asks for. `tell` is told what happens."""

    def __init__(self, cluster: SimCluster, chance: random.Random, tell: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._chance = chance
        self._tell = tell
        self._journey: asyncio.Task[None] | None = None
        self._is_over = False

    # --- kinds -----------------------------------------------------------------------------------------------

    async def move(self) -> None:
        """One shard to any nodes; it is under way when this returns."""
        cluster = self._cluster
        shard = self._chance.randrange(cluster.plan.shards)
        target = self._chance.sample(range(cluster.plan.nodes), cluster.plan.factor)
        self._tell(f"move shard {shard} to {target}")
        await self._ask(lambda moves: moves.begin(MoveIn(shards={shard: target})))

    async def rebalance(self) -> None:
        self._tell("rebalance")
        await self._ask(lambda moves: moves.begin(MoveIn(rebalance=True)))

    async def cancel(self) -> None:
        self._tell("cancel all moves")
        await self._ask(lambda moves: moves.cancel(()))

    async def leave(self) -> None:
        """A node is drained, taken out, and comes back with an empty disk, while other things happen."""
        if self._journey is None or self._journey.done():
            node = self._chance.choice(self._cluster.nodes)
            self._journey = asyncio.get_running_loop().create_task(self._leave_and_join(node))

    async def end(self) -> None:
        """Everybody may hold shards again."""
        self._is_over = True
        if self._journey is not None:
            await self._journey
        for node in self._cluster.nodes:
            await self._ask(lambda moves, number=node.number: moves.fill(number))  # type: ignore[misc]

    # --- one that leaves -------------------------------------------------------------------------------------

    async def _leave_and_join(self, node: SimNode) -> None:
        number = node.number
        self._tell(f"drain {number}")
        await self._ask(lambda moves: moves.begin(MoveIn(drain=number)))
        await self._until(lambda: not self._holds(number), _DRAIN_S)
        if not self._holds(number):
            self._tell(f"{number} leaves")
            if node.is_up:
                node.kill()
            node.lose_disk()
            await self._until(lambda: f"{NODES}{number}" not in self._entries, _GONE_S)
            await self._ask(lambda moves: moves.remove(number))
            self._tell(f"{number} joins")
            if not node.is_up:
                node.start()
        await self._ask(lambda moves: moves.fill(number))

    async def _until(self, holds: Callable[[], bool], within_s: float) -> None:
        until = self._cluster.loop.time() + within_s
        while not holds() and not self._is_over and self._cluster.loop.time() < until:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_S)

    @property
    def _entries(self) -> dict[str, str]:
        """What the store has, whoever knows of it."""
        return {key: entry.value for key, entry in self._cluster.store.state.read().entries.items()}

    def _holds(self, number: int) -> bool:
        records = [decode(value, ShardRecord) for key, value in self._entries.items() if key.startswith(SHARDS)]
        return any(record is None or number in record.replicas for record in records)

    async def _ask(self, question: Callable[[Reassignments], Awaitable[Any]]) -> None:
        """Any node; what it refuses is not done."""
        node = self._chance.choice(self._cluster.nodes)
        try:
            await node.ask(lambda broker: question(moves_of(broker)))
        except GoQueueError as error:
            self._cluster.note(f"refused: {error.code}")


def moves_of(broker: Broker) -> Reassignments:
    view = ClusterView(broker.metadata.image, broker.node.identity.node_id, 2, {}, broker.lags, is_alone=False)
    return Reassignments(broker.metadata, view, broker.routed(broker.shard_sizes), is_alone=False)
