"""Messages that are due later: never early, never lost, never twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from goqueue.base.commands import InputMessage, PublishMessages, ScheduledAt
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.sim.cluster import SimCluster, SimNode
from goqueue.sim.violation import Violation
from goqueue.sim.workload import read_from

_DELAYS_MS: Final = (200, 800, 2_000)
_PAUSE_S: Final = 0.3


class DelayedProducer:
    """Publishes now and then, and looks at what is there."""

    longest_s: Final = max(_DELAYS_MS) / 1000

    def __init__(self, cluster: SimCluster, at: TopicPartition) -> None:
        self._cluster = cluster
        self._at = at
        self._due: dict[str, Millis] = {}  # of what was acknowledged
        self._asked: dict[str, Millis] = {}  # of everything: when it is due at the earliest
        self._seen: set[str] = set()

    @property
    def count(self) -> int:
        return len(self._due)

    async def run(self) -> None:
        number = 0
        while True:
            leader = self._cluster.leader_of(self._at)
            if leader is not None:
                await self._publish(leader, str(number))
                await self._look(leader)
                number += 1
            await asyncio.sleep(_PAUSE_S)

    async def _publish(self, leader: SimNode, value: str) -> None:
        """Each try has another value: what was not acknowledged may be there or not."""
        delay_ms = self._cluster.chance.choice(_DELAYS_MS)
        self._asked[value] = self._cluster.true_ms + delay_ms
        message = InputMessage(b"k", value.encode(), partition=self._at.partition, delay_ms=delay_ms)
        command = PublishMessages(self._at.topic, [message])
        try:
            (result,) = await leader.ask(lambda broker: broker.publish.messages(command))
        except GoQueueError:
            return
        if isinstance(result, ScheduledAt):
            self._due[value] = result.deliver_at_ms

    async def _look(self, leader: SimNode) -> None:
        try:
            values = await leader.ask(lambda broker: read_from(broker, self._at, max(0, len(self._seen) - 20)))
        except GoQueueError:
            return
        now = self._cluster.true_ms
        for value in values.values():
            if value not in self._seen and now + self._cluster.skew_ms < self._asked[value]:
                raise Violation(f"{value} is there {self._asked[value] - now} ms early")
            self._seen.add(value)

    def check(self, values: dict[Offset, str]) -> None:
        """In the end, when everything is due."""
        counts = Counter(values.values())
        if twice := [value for value, count in counts.items() if count > 1]:
            raise Violation(f"delayed messages came twice: {twice[:5]}")
        if lost := [value for value in self._due if value not in counts]:
            raise Violation(f"delayed messages are lost: {lost[:5]}")
