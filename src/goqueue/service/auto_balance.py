"""Nodes are kept even without anybody asking: the controller's node looks now and then, and moves a little.

It does nothing while something moves or is not in sync, and begins no more moves at once than it may. What is copied
keeps to the throttle of all moves.
"""

from __future__ import annotations

import logging

from goqueue.api.cluster import MoveIn
from goqueue.base.cluster_settings import ClusterSettings
from goqueue.base.errors import GoQueueError
from goqueue.core.cluster.balancing import BalanceBounds, Plan, next_moves
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.moving import is_at_rest, may_hold
from goqueue.drive.repeating import Repeating
from goqueue.service.reassignment import Reassignments, weighed
from goqueue.service.shard_sizes import ShardSizes

logger = logging.getLogger(__name__)


class AutoBalance:
    """Between `start` and `stop`; does nothing unless `cluster.balance` asks for it."""

    def __init__(
        self, settings: ClusterSettings, node_id: int, image: Image, sizes: ShardSizes, moves: Reassignments
    ) -> None:
        """`sizes` are those of all nodes."""
        self._settings = settings
        self._node_id = node_id
        self._image = image
        self._sizes = sizes
        self._moves = moves
        self._looking = Repeating(settings.balance_interval_ms / 1000, self._try)

    def start(self) -> None:
        if self._settings.store and self._settings.balance != "off":
            self._looking.start()

    async def stop(self) -> None:
        await self._looking.stop()

    async def _try(self) -> None:
        try:
            await self.look()
        except GoQueueError as error:
            logger.warning("nodes were not balanced; trying again later", extra={"error": error.message})

    async def look(self) -> Plan:
        """The moves that were begun."""
        controller = self._image.controller
        if controller is None or controller.node != self._node_id or not is_at_rest(self._image):
            return {}
        known, settings = await self._sizes.led(), self._settings
        held = weighed(self._image, known, settings.balance_by)
        leaders_only = settings.balance == "leaders"
        bounds = BalanceBounds(settings.balance_slack_percent, settings.balance_moves_max, leaders_only)
        plan = next_moves(held, may_hold(self._image, self._image.nodes()), bounds)
        if plan and is_at_rest(self._image):
            logger.info("moves shards, so that nodes are even", extra={"shards": sorted(plan)})
            await self._moves.begin(MoveIn(shards={shard: list(target) for shard, target in plan.items()}))
        return plan
