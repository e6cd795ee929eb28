"""A node that is about to be stopped: it waits until the others can do without it, and hands over what it leads.

It goes on serving. It does not lead again before it is told to stay, or started anew.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from goqueue.api.cluster import HandedOver, RestartSafety
from goqueue.base.errors import MoveRefused

_LOOK_S: Final = 0.1


class LeavingNode(Protocol):
    """This node as one of several."""

    async def hand_over(self, within_s: float) -> None: ...

    async def stay(self) -> None: ...


class Others(Protocol):
    """What is known of the cluster."""

    def restart_safe(self, node: int) -> RestartSafety: ...

    def led_by(self, node: int) -> list[int]: ...


class Departure:
    """The verbs, of this node alone."""

    def __init__(self, node_id: int, member: LeavingNode | None, others: Others) -> None:
        self._node_id = node_id
        self._member = member
        self._others = others

    async def leave(self, node: int, within_ms: int) -> HandedOver:
        """Returns when nothing is led here that another could lead, or the time is over. What is handed over is handed
        over also if the others cannot do without the node: who asks will stop it anyway."""
        member = self._found(node)
        ends = asyncio.get_running_loop().time() + within_ms / 1000
        safety = await self._until_safe(ends)
        await member.hand_over(max(_LOOK_S, ends - asyncio.get_running_loop().time()))
        return HandedOver(node, safety.is_safe, safety.reasons, self._others.led_by(node))

    async def stay(self, node: int) -> None:
        """It may lead again; what it led comes back by and by."""
        await self._found(node).stay()

    async def _until_safe(self, ends: float) -> RestartSafety:
        found = self._others.restart_safe(self._node_id)
        while not found.is_safe and asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(_LOOK_S)
            found = self._others.restart_safe(self._node_id)
        return found

    def _found(self, node: int) -> LeavingNode:
        if node != self._node_id:
            self._others.restart_safe(node)  # `UnknownNode`
            raise MoveRefused(f"This is node {self._node_id}; ask node {node} itself.", field="node")
        if self._member is None:
            raise MoveRefused("This node is not in a cluster: there is no other to hand anything over to.")
        return self._member
